import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type {
  ConnectionDeps,
  GitProvider,
  MemberAccess,
  NewPullRequest,
  PullRequestEdit,
  WrittenPullRequest,
} from '../connector.ts';
import { onOneLine } from '../kit/answers.ts';
import { parseAnswer, readAnswer, readable, translateAnswer } from '../kit/json.ts';
import { createMemberApi, type MemberApi } from './member-api.ts';
import { REPOSITORY, unrestricted } from './options.ts';
import { SHAPES, translate } from './translate.ts';

const PUBLIC_HOST = 'github.com';

/** What members write at GitHub (GH6). */
export function createGit(deps: ConnectionDeps): GitProvider {
  const visit = async (access: MemberAccess, repoId: string, signal: AbortSignal): Promise<Visit> => {
    const api = createMemberApi(access, deps, signal);
    return { api, access, signal, repository: await findRepository(api, access, repoId, signal) };
  };
  return {
    async hasBranch(access, { repoId, branch }, signal) {
      // A branch of a fork, `owner:branch`: the fork's name is not known, and GitHub checks it when the request is opened.
      if (branch.includes(':')) return true;
      const { api, repository } = await visit(access, repoId, signal);
      return hasBranch(api, `${repository.path}/branches/${encodeURIComponent(branch)}`, signal);
    },
    openPullRequest: async (access, wanted, signal) => open(await visit(access, wanted.repoId, signal), wanted),
    editPullRequest: async (access, edit, signal) => change(await visit(access, edit.repoId, signal), edit),
  };
}

/** One member at one repository. */
interface Visit {
  readonly api: MemberApi;
  readonly access: MemberAccess;
  readonly signal: AbortSignal;
  readonly repository: Repository;
}

interface Repository {
  readonly owner: string;
  /** `/repos/owner/name` */
  readonly path: string;
}

const repositoryAnswer = z.object({ full_name: z.string().regex(REPOSITORY) });

/** By its stable id, as the workspace names it; a person may also say `owner/name`. */
async function findRepository(
  api: MemberApi,
  { host }: MemberAccess,
  repoId: string,
  signal: AbortSignal,
): Promise<Repository> {
  const id = repoId.startsWith(`${host}:`) ? repoId.slice(host.length + 1) : repoId;
  const isId = /^\d{1,16}$/.test(id);
  if (!isId && !REPOSITORY.test(id))
    throw refused('validation_failed', 'repoId: expected the id of a GitHub repository, or owner/name');
  const path = isId ? `/repositories/${id}` : `/repos/${id}`;
  const answer = await api.get(path, { signal });
  const { full_name } = parseAnswer(repositoryAnswer, readAnswer(answer, `GET ${path}`), `GET ${path}`);
  return { owner: full_name.split('/', 1)[0]!, path: `/repos/${full_name}` };
}

async function hasBranch(api: MemberApi, path: string, signal: AbortSignal): Promise<boolean> {
  try {
    await api.get(path, { signal });
    return true;
  } catch (error) {
    if (asSyncError(error).code === 'not_found') return false;
    throw error;
  }
}

async function open(visit: Visit, wanted: NewPullRequest): Promise<WrittenPullRequest> {
  const pull = await create(visit, wanted);
  const { labels, assignees, reviewers } = wanted;
  const steps = [
    () => setIssueFields(visit, pull.number, { labels: filled(labels), assignees: filled(assignees) }),
    () => setReviewers(visit, pull.number, reviewers ?? [], []),
  ];
  return finish(visit, pull.number, pull.body, await runSteps(steps));
}

function filled(names: readonly string[] | undefined): readonly string[] | undefined {
  return names === undefined || names.length === 0 ? undefined : names;
}

interface Pull {
  readonly number: number;
  /** As GitHub sent it. */
  readonly body: Buffer;
}

async function create(visit: Visit, wanted: NewPullRequest): Promise<Pull> {
  const { api, repository } = visit;
  const path = `${repository.path}/pulls`;
  const body = {
    title: wanted.title,
    head: wanted.headBranch,
    base: wanted.baseBranch,
    body: wanted.description ?? undefined,
    draft: wanted.draft,
  };
  const answer = await api.write('POST', path, body).catch((error: unknown) => lookAfter(visit, wanted, error));
  if (answer.status === 422) throw await explainRefusal(visit, wanted, answer);
  return { number: numberOf(answer, `POST ${path}`), body: answer.body };
}

/** Whether a creation without an answer was carried out: then the request is there. It is never sent again. */
async function lookAfter(visit: Visit, wanted: NewPullRequest, thrown: unknown): Promise<HttpAnswer> {
  const error = asSyncError(thrown);
  if (error.code !== 'outcome_unknown' && error.code !== 'server_failed') throw error;
  const found = await findOpen(visit, wanted).catch(() => undefined);
  if (found === undefined) throw error;
  return visit.api.get(`${visit.repository.path}/pulls/${found.number}`, { signal: visit.signal });
}

const openList = z.array(z.object({ number: z.int().positive(), html_url: z.string().optional() }));

/** The open request for these branches: at most one exists. */
async function findOpen({ api, repository, signal }: Visit, { headBranch, baseBranch }: NewPullRequest) {
  const head = headBranch.includes(':') ? headBranch : `${repository.owner}:${headBranch}`;
  const query = new URLSearchParams({ head, base: baseBranch, state: 'open' });
  const path = `${repository.path}/pulls`;
  const answer = await api.get(path, { query: query.toString(), signal });
  return parseAnswer(openList, readAnswer(answer, `GET ${path}`), `GET ${path}`)[0];
}

const validation = z.object({
  message: z.string().catch(''),
  errors: z
    .array(z.object({ field: z.string().optional(), message: z.string().optional(), code: z.string().optional() }))
    .catch([]),
});

/** GitHub says all of these with 422. */
async function explainRefusal(visit: Visit, wanted: NewPullRequest, answer: HttpAnswer): Promise<SyncError> {
  const { text, fields } = readValidation(answer);
  const branches = `${wanted.headBranch} → ${wanted.baseBranch}`;
  if (/already exists/i.test(text)) {
    const found = await findOpen(visit, wanted).catch(() => undefined);
    const name = found === undefined ? '' : `: #${found.number} ${found.html_url ?? ''}`.trimEnd();
    return refused('pull_request_exists', `an open pull request for ${branches} exists already${name}`);
  }
  if (/no commits between/i.test(text)) return refused('no_commits_between', `${branches}: there is nothing to merge`);
  const missing = fields.find((field) => field === 'head' || field === 'base');
  if (missing) {
    const branch = missing === 'head' ? wanted.headBranch : wanted.baseBranch;
    return refused('branch_not_found', `${missing}Branch: ${branch} does not exist on the remote`);
  }
  return refused('validation_failed', `GitHub refused to open the pull request: ${text}`);
}

function readValidation(answer: HttpAnswer): { text: string; fields: readonly (string | undefined)[] } {
  const { message = '', errors = [] } = readable(validation, readAnswer(answer, 'a refusal')) ?? {};
  const text = [message, ...errors.map((error) => error.message ?? `${error.field} ${error.code}`)].join('; ');
  return { text: onOneLine(text, 300), fields: errors.map(({ field }) => field) };
}

function refused(errorCode: string, message: string): SyncError {
  return new SyncError('refused', message, { errorCode, status: 422 });
}

function numberOf(answer: HttpAnswer, what: string): number {
  return parseAnswer(z.object({ number: z.int().positive() }), readAnswer(answer, what), what).number;
}

const present = z.object({
  node_id: z.string().min(1),
  draft: z.boolean().catch(false),
  state: z.string(),
  requested_reviewers: z.array(z.object({ login: z.string() })).catch([]),
  requested_teams: z.array(z.object({ slug: z.string() })).catch([]),
});

async function change(visit: Visit, edit: PullRequestEdit): Promise<WrittenPullRequest> {
  const { repository } = visit;
  const number = Number(edit.identifier);
  if (!Number.isSafeInteger(number) || number < 1) throw refused('validation_failed', 'identifier: expected a number');
  if (edit.state === 'merged') throw refused('unsupported_field', 'state: a request is merged on GitHub itself');
  const before = await readPull(visit, number);
  const now = parseAnswer(present, readAnswer({ status: 200, body: before }, 'a pull request'), 'a pull request');
  const asked = [
    ...now.requested_reviewers.map(({ login }) => login),
    ...now.requested_teams.map(({ slug }) => `${repository.owner}/${slug}`),
  ];
  const { reviewers, draft } = edit;
  const steps = [
    () => setPullFields(visit, number, edit),
    () => setIssueFields(visit, number, edit),
    ...(reviewers ? [() => setReviewers(visit, number, reviewers, asked)] : []),
    ...(draft !== undefined && draft !== now.draft ? [() => setDraft(visit, now.node_id, draft)] : []),
  ];
  return finish(visit, number, before, await runSteps(steps));
}

async function readPull({ api, repository, signal }: Visit, number: number): Promise<Buffer> {
  return (await api.get(`${repository.path}/pulls/${number}`, { signal })).body;
}

interface Progress {
  readonly wrote: boolean;
  readonly refused?: SyncError;
}

/** One after the other, up to the first that fails; each says whether it wrote. */
async function runSteps(steps: readonly (() => Promise<boolean>)[]): Promise<Progress> {
  let wrote = false;
  for (const step of steps) {
    try {
      wrote = (await step()) || wrote;
    } catch (error) {
      return { wrote, refused: asSyncError(error) };
    }
  }
  return { wrote };
}

/** What GitHub holds now: read again where something was written after `known`. */
async function finish(visit: Visit, number: number, known: Buffer, { wrote, refused: failure }: Progress) {
  const uncertain = failure?.code === 'outcome_unknown';
  const body = wrote || uncertain ? await readPull(visit, number).catch(() => known) : known;
  const { host } = visit.access;
  const translated = translateAnswer('a pull request', () =>
    translate({ source: 'fetch', event: SHAPES.pull, body }, unrestricted(host)),
  );
  const item = translated.outcome === 'items' ? translated.items[0] : undefined;
  if (item?.kind !== 'pull_request') throw new SyncError('answer_malformed', 'GitHub answered with no pull request');
  const repoId = host === PUBLIC_HOST ? item.repoId : `${host}:${item.repoId}`;
  return { repoId, pullRequest: item, ...(failure && { refused: failure }) };
}

async function setPullFields({ api, repository }: Visit, number: number, edit: PullRequestEdit): Promise<boolean> {
  const { title, description, baseBranch: base, state } = edit;
  const fields = { title, body: description === null ? '' : description, base, state };
  if (Object.values(fields).every((value) => value === undefined)) return false;
  const answer = await api.write('PATCH', `${repository.path}/pulls/${number}`, fields);
  if (answer.status !== 422) return true;
  const { text, fields: wrong } = readValidation(answer);
  if (wrong.includes('base')) throw refused('branch_not_found', `baseBranch: ${base} does not exist on the remote`);
  throw refused('validation_failed', `GitHub refused the edit: ${text}`);
}

interface IssueFields {
  readonly labels?: readonly string[];
  readonly assignees?: readonly string[];
}

const issueAnswer = z.object({
  labels: z.array(z.object({ name: z.string() })).catch([]),
  assignees: z.array(z.object({ login: z.string() })).catch([]),
});

/** Labels and assignees stand on the issue, and replace what is there. Without the right GitHub drops them silently. */
async function setIssueFields(
  { api, repository }: Visit,
  number: number,
  { labels, assignees }: IssueFields,
): Promise<boolean> {
  if (labels === undefined && assignees === undefined) return false;
  const path = `${repository.path}/issues/${number}`;
  const answer = await api.write('PATCH', path, { labels, assignees });
  if (answer.status === 422)
    throw refused('validation_failed', `GitHub refused labels or assignees: ${readValidation(answer).text}`);
  const taken = parseAnswer(issueAnswer, readAnswer(answer, `PATCH ${path}`), `PATCH ${path}`);
  refuseDropped(
    'labels',
    labels,
    taken.labels.map(({ name }) => name),
  );
  refuseDropped(
    'assignees',
    assignees,
    taken.assignees.map(({ login }) => login),
  );
  return true;
}

function refuseDropped(what: string, wanted: readonly string[] = [], taken: readonly string[]): void {
  const held = new Set(taken.map((name) => name.toLowerCase()));
  const dropped = wanted.find((name) => !held.has(name.toLowerCase()));
  if (dropped === undefined) return;
  throw new SyncError('forbidden', `${what}: GitHub dropped "${dropped}": there is no right to set it here`);
}

/** People by login, teams as `owner/slug`. */
async function setReviewers(
  visit: Visit,
  number: number,
  wanted: readonly string[],
  asked: readonly string[],
): Promise<boolean> {
  const differ = (left: readonly string[], right: readonly string[]) => {
    const held = new Set(right.map((name) => name.toLowerCase()));
    return left.filter((name) => !held.has(name.toLowerCase()));
  };
  const added = await requestReviews(visit, 'POST', number, differ(wanted, asked));
  const removed = await requestReviews(visit, 'DELETE', number, differ(asked, wanted));
  return added || removed;
}

async function requestReviews(
  { api, repository }: Visit,
  method: 'POST' | 'DELETE',
  number: number,
  names: readonly string[],
): Promise<boolean> {
  if (names.length === 0) return false;
  const body = {
    reviewers: names.filter((name) => !name.includes('/')),
    team_reviewers: names.filter((name) => name.includes('/')).map((name) => name.split('/')[1]),
  };
  const answer = await api.write(method, `${repository.path}/pulls/${number}/requested_reviewers`, body);
  if (answer.status !== 422) return true;
  throw refused('validation_failed', `reviewers: GitHub refused ${names.join(', ')}: ${readValidation(answer).text}`);
}

const MUTATIONS = {
  draft: 'mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } } }',
  ready:
    'mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }',
} as const;

const mutated = z.record(z.string(), z.object({ pullRequest: z.object({ isDraft: z.boolean() }) }));

/** REST cannot change it. */
async function setDraft({ api }: Visit, id: string, draft: boolean): Promise<boolean> {
  const told = await api.mutate(draft ? MUTATIONS.draft : MUTATIONS.ready, { id });
  const answer = readable(mutated, told);
  const held = answer && Object.values(answer)[0]?.pullRequest.isDraft;
  if (held !== draft) throw new SyncError('answer_malformed', 'GitHub did not say that the draft state was changed');
  return true;
}
