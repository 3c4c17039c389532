import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { ConnectionDeps, MemberAccess, NewPullRequest, PullRequestEdit } from '../connector.ts';
import {
  alreadyExists,
  type GitWrites,
  isEmpty,
  type MemberRepository,
  type MemberRequest,
  missingBranch,
  noCommitsBetween,
  nonEmpty,
  refused,
  type Step,
  without,
} from '../kit/git-writes.ts';
import { absent, parseAnswer, readAnswer, readable } from '../kit/payload.ts';
import { onOneLine, undefinedOn } from '../kit/refusal.ts';
import { bearer, type Method } from '../kit/rest.ts';
import { createApi, createAuth, refusal } from './api.ts';
import { pullOf } from './items.ts';
import { apiBase, REPOSITORY } from './options.ts';

/** The writes of members at GitHub (GH6). */
export const writes: GitWrites = {
  connect: at,
};

const anything = z.unknown();
const repositoryAnswer = z.object({ full_name: z.string().regex(REPOSITORY) });
const openList = z.array(z.object({ number: z.int().positive(), html_url: z.string().optional() }));
const present = z.object({
  node_id: z.string().min(1),
  draft: z.boolean().catch(false),
  requested_reviewers: z.array(z.object({ login: z.string() })).catch([]),
  requested_teams: z.array(z.object({ slug: z.string() })).catch([]),
});

function at({ access, repoId, signal }: MemberRequest, deps: ConnectionDeps): MemberRepository {
  const api = createMemberApi(access, deps, signal);
  const address = addressOf(repoId);
  let found: Promise<string> | undefined;
  /** The repository's present name: GitHub does not redirect writes. */
  const name = () => (found ??= api.read(repositoryAnswer, address, { signal }).then(({ full_name }) => full_name));
  const pathTo = async (rest: string) => `/repos/${await name()}/${rest}`;
  const read = async (number: string | number) => api.read(anything, await pathTo(`pulls/${number}`), { signal });

  /** The open pull request between these branches; GitHub allows one at most. */
  async function findOpen({ headBranch, baseBranch }: Pick<NewPullRequest, 'headBranch' | 'baseBranch'>) {
    const [owner] = (await name()).split('/', 1);
    const head = headBranch.includes(':') ? headBranch : `${owner}:${headBranch}`;
    const query = new URLSearchParams({ head, base: baseBranch, state: 'open' }).toString();
    const [first] = await api.read(openList, await pathTo('pulls'), { query, signal });
    return first && { number: first.number, url: first.html_url };
  }

  /** GitHub answers 422 for each of these reasons. */
  async function explainRefusal(wanted: NewPullRequest, answer: HttpAnswer): Promise<SyncError> {
    const { text, fields } = readValidation(answer);
    if (/already exists/i.test(text)) return alreadyExists(wanted, '#', await findOpen(wanted).catch(() => undefined));
    if (/no commits between/i.test(text)) return noCommitsBetween(wanted);
    const missing = (['head', 'base'] as const).find((field) => fields.includes(field));
    if (missing) return missingBranch(`${missing}Branch`, wanted[`${missing}Branch`]);
    return refused('validation_failed', `GitHub refused to open the pull request: ${text}`);
  }

  async function setPullFields(edit: PullRequestEdit) {
    const { title, description, baseBranch: base, state } = edit;
    const fields = { title, body: description === null ? '' : description, base, state };
    if (isEmpty(fields)) return undefined;
    const answer = await api.write('PATCH', await pathTo(`pulls/${edit.identifier}`), fields);
    if (answer.status !== 422) return {};
    const { text, fields: wrong } = readValidation(answer);
    if (wrong.includes('base')) throw missingBranch('baseBranch', base);
    throw refused('validation_failed', `GitHub refused the edit: ${text}`);
  }

  /** Labels and assignees are fields of the issue; a write replaces the list. Without the right GitHub ignores them silently. */
  async function setIssueFields(number: string, { labels, assignees }: Pick<PullRequestEdit, 'labels' | 'assignees'>) {
    if (isEmpty({ labels, assignees })) return undefined;
    const path = await pathTo(`issues/${number}`);
    const answer = await api.write('PATCH', path, { labels, assignees });
    if (answer.status === 422)
      throw refused('validation_failed', `GitHub refused labels or assignees: ${readValidation(answer).text}`);
    const taken = parseAnswer(issueAnswer, readAnswer(answer, `PATCH ${path}`), `PATCH ${path}`);
    refuseDropped('labels', labels, taken.labels);
    refuseDropped('assignees', assignees, taken.assignees);
    return {};
  }

  /** People by login, teams as `owner/slug`. */
  async function requestReviews(method: 'POST' | 'DELETE', number: string, names: readonly string[]) {
    if (names.length === 0) return undefined;
    const body = {
      reviewers: names.filter((each) => !each.includes('/')),
      team_reviewers: names.filter((each) => each.includes('/')).map((each) => each.split('/')[1]),
    };
    const answer = await api.write(method, await pathTo(`pulls/${number}/requested_reviewers`), body);
    if (answer.status !== 422) return {};
    throw refused('validation_failed', `reviewers: GitHub refused ${names.join(', ')}: ${readValidation(answer).text}`);
  }

  /** Uses GraphQL, because REST cannot change the draft state. */
  async function setDraft(id: string, draft: boolean) {
    const told = readable(mutated, await api.mutate(draft ? MUTATIONS.draft : MUTATIONS.ready, { id }));
    if (told && Object.values(told)[0]?.pullRequest.isDraft === draft) return {};
    throw new SyncError('answer_malformed', 'GitHub did not confirm the change of the draft state');
  }

  return {
    async hasBranch(branch) {
      // A branch of a fork, `owner:branch`: the fork's name is unknown here. GitHub checks it when the pull request is opened.
      if (branch.includes(':')) return true;
      const path = await pathTo(`branches/${encodeURIComponent(branch)}`);
      return (await undefinedOn(api.get(path, { signal }), 'not_found')) !== undefined;
    },
    async prepareCreation(wanted) {
      const { title, headBranch: head, baseBranch: base, description, draft } = wanted;
      const path = await pathTo('pulls');
      return async () => {
        const answer = await api.write('POST', path, { title, head, base, body: description ?? undefined, draft });
        if (answer.status === 422) throw await explainRefusal(wanted, answer);
        return readAnswer(answer, `POST ${path}`);
      };
    },
    stepsAfterCreation: ({ labels, assignees, reviewers = [] }, number) => [
      () => setIssueFields(number, { labels: nonEmpty(labels), assignees: nonEmpty(assignees) }),
      () => requestReviews('POST', number, reviewers),
    ],
    findOpen,
    read,
    async editSteps(edit, before) {
      const { identifier: number, reviewers, draft } = edit;
      const now = parseAnswer(present, before, 'a pull request');
      const [owner] = (await name()).split('/', 1);
      const asked = [
        ...now.requested_reviewers.map(({ login }) => login),
        ...now.requested_teams.map(({ slug }) => `${owner}/${slug}`),
      ];
      const steps: Step[] = [() => setPullFields(edit), () => setIssueFields(number, edit)];
      if (reviewers) steps.push(() => requestReviews('POST', number, without(reviewers, asked)));
      if (reviewers) steps.push(() => requestReviews('DELETE', number, without(asked, reviewers)));
      if (draft !== undefined && draft !== now.draft) steps.push(() => setDraft(now.node_id, draft));
      return steps;
    },
    pullOf: (content) => pullOf(content, access.host),
  };
}

/** The path of a repository by its stable id, as the workspace names it, or by `owner/name`, as a person may. */
function addressOf(repoId: string): string {
  if (/^\d{1,16}$/.test(repoId)) return `/repositories/${repoId}`;
  if (REPOSITORY.test(repoId)) return `/repos/${repoId}`;
  throw refused('validation_failed', 'repoId: expected the id of a GitHub repository, or owner/name');
}

const validation = z.object({
  message: z.string().catch(''),
  errors: z
    .array(z.object({ field: z.string().optional(), message: z.string().optional(), code: z.string().optional() }))
    .catch([]),
});

function readValidation(answer: HttpAnswer): { text: string; fields: readonly (string | undefined)[] } {
  const { message = '', errors = [] } = readable(validation, readAnswer(answer, 'a refusal')) ?? {};
  const text = [message, ...errors.map((error) => error.message ?? `${error.field} ${error.code}`)].join('; ');
  return { text: onOneLine(text, 300), fields: errors.map(({ field }) => field) };
}

const names = (field: 'name' | 'login') =>
  z.array(z.record(z.string(), z.unknown()).transform((each) => String(each[field]))).catch([]);
const issueAnswer = z.object({ labels: names('name'), assignees: names('login') });

function refuseDropped(what: string, wanted: readonly string[] | undefined, taken: readonly string[]): void {
  const [dropped] = without(wanted ?? [], taken);
  if (dropped === undefined) return;
  throw new SyncError('forbidden', `${what}: GitHub ignored "${dropped}": this token may not set it here`);
}

const MUTATIONS = {
  draft: 'mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } } }',
  ready:
    'mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }',
} as const;

const mutated = z.record(z.string(), z.object({ pullRequest: z.object({ isDraft: z.boolean() }) }));

/** The API with a member's own token. Throws `SyncError`. */
function createMemberApi(access: MemberAccess, deps: ConnectionDeps, signal: AbortSignal) {
  const { http, clock } = deps;
  const api = createApi(access, deps, createAuth(access, deps));
  // GitHub counts GraphQL apart, so these answers tell nothing of the limit of REST.
  const url = graphqlUrl(apiBase(access));
  const headers = {
    accept: 'application/json',
    'user-agent': 'worksync',
    'content-type': 'application/json',
    ...bearer(access.token),
  };
  return {
    ...api,
    /** Sends a write once. Resolves with 2xx, and with 422, whose errors the caller explains. */
    write: (method: Method, path: string, body: unknown) => api.write(method, path, { body, explained: [422], signal }),
    /** Runs a GraphQL mutation. GitHub sends errors of GraphQL with status 200; this throws them. */
    async mutate(query: string, variables: Readonly<Record<string, string>>): Promise<unknown> {
      const body = JSON.stringify({ query, variables });
      const answer = await http.request({ method: 'POST', url, headers, body, signal, target: 'github' });
      if (answer.status !== 200) throw refusal(answer, 'POST /graphql', clock.now());
      const { data, errors } = parseAnswer(graphqlAnswer, readAnswer(answer, 'POST /graphql'), 'POST /graphql');
      if (errors?.[0]) throw graphqlFailure(errors[0]);
      return data;
    },
  };
}

const graphqlError = z.object({ type: z.unknown(), message: z.unknown() });
const graphqlAnswer = z.object({ data: z.unknown(), errors: absent(z.array(graphqlError)) });

/** A self-hosted server has REST at `/api/v3` and GraphQL at `/api/graphql` (GH7). */
function graphqlUrl(base: string): string {
  return base.endsWith('/api/v3') ? base.replace(/\/v3$/, '/graphql') : `${base}/graphql`;
}

function graphqlFailure({ type, message }: z.infer<typeof graphqlError>): SyncError {
  const said = `GraphQL: ${onOneLine(String(message))}`;
  if (type === 'FORBIDDEN' || type === 'INSUFFICIENT_SCOPES') return new SyncError('forbidden', said);
  if (type === 'NOT_FOUND') return new SyncError('not_found', said);
  if (type === 'RATE_LIMITED') return new SyncError('rate_limited', said);
  return new SyncError('refused', said);
}
