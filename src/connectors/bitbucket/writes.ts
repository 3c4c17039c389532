import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { ConnectionDeps, MemberAccess, NewPullRequest, PullRequestEdit } from '../connector.ts';
import {
  alreadyExists,
  firstDifference,
  type GitWrites,
  type MemberRepository,
  type MemberRequest,
  noCommitsBetween,
  refused,
  type Step,
} from '../kit/git-writes.ts';
import { parseAnswer, readAnswer, readable } from '../kit/payload.ts';
import { onOneLine, undefinedOn } from '../kit/refusal.ts';
import { createApi, repositoryPath } from './api.ts';
import { pullOf } from './items.ts';
import { HOST, REPOSITORY } from './options.ts';
import { FIELDS_OF_ONE, uuid } from './schema.ts';

type Branches = Pick<NewPullRequest, 'headBranch' | 'baseBranch'>;

/** The writes of members at Bitbucket (BB6). There are neither labels nor assignees. */
export const writes: GitWrites = {
  asStored: ({ reviewers, state, ...rest }) => ({
    ...rest,
    ...(reviewers && { reviewers: reviewers.map((name) => reviewerOf(name).uuid) }),
    ...(state && { state: state === 'closed' ? 'declined' : state }),
  }),
  connect: at,
};

const anything = z.unknown();
const repositoryAnswer = z.object({ uuid, full_name: z.string().regex(REPOSITORY) });
const named = z.object({ values: z.array(z.object({ name: z.string() })).catch([]) });
const link = z.object({ html: z.object({ href: z.string() }) });
const openList = z.object({
  values: z.array(z.object({ id: z.int().positive(), links: link.optional().catch(undefined) })),
});
const account = z.object({ uuid, display_name: z.string().min(1).optional().catch(undefined) });
const defaultsAnswer = z.object({ values: z.array(z.object({ user: account })) });
const present = z.object({
  state: z.string(),
  title: z.string().optional(),
  description: z.string().nullish(),
  draft: z.boolean().optional().catch(undefined),
  destination: z.object({ branch: z.object({ name: z.string() }) }),
  reviewers: z.array(account),
});
type Present = z.infer<typeof present>;

/** An account: its id, and the name that Bitbucket uses in a refusal. */
type Reviewer = z.infer<typeof account>;

interface Repository {
  /** The present `workspace/slug`. */
  readonly name: string;
  /** Its path by id, so that a new name does not matter, and another repository under the old name does not replace it. */
  readonly path: string;
}

function at({ access, repoId, signal }: MemberRequest, deps: ConnectionDeps): MemberRepository {
  if (access.host !== HOST) throw refused('validation_failed', `${access.host}: Bitbucket Cloud is ${HOST} alone`);
  const api = createApi({ ...credentialOf(access), apiUrl: access.apiUrl }, deps);
  const id = uuidOf(repoId);
  if (id === undefined && !REPOSITORY.test(repoId))
    throw refused('validation_failed', 'repoId: expected the UUID of a Bitbucket repository, or workspace/slug');
  let found: Promise<Repository> | undefined;
  const repository = () => (found ??= find());
  const pulls = async () => `${(await repository()).path}/pullrequests`;
  const get = <Content>(expected: z.ZodType<Content>, path: string, query: Readonly<Record<string, string>>) =>
    api.read(expected, path, { query: new URLSearchParams(query).toString(), signal });
  const read = async (number: string) => get(anything, `${await pulls()}/${number}`, { fields: FIELDS_OF_ONE });

  /** Finds the repository by its stable id, as the workspace names it, or by `workspace/slug`, as a person may. */
  async function find(): Promise<Repository> {
    // The empty braces stand in place of the workspace: the id of a repository is enough.
    const path = repositoryPath(id === undefined ? repoId : `{}/${id}`);
    const { uuid: own, full_name: name } = await get(repositoryAnswer, path, { fields: 'uuid,full_name' });
    if (id !== undefined && own.toLowerCase() !== id)
      throw new SyncError('answer_malformed', `GET ${path}: the answer names another repository`);
    return { name, path: repositoryPath(`${name.split('/', 1)[0]}/${own}`) };
  }

  /** The open pull request for these branches. With `q`, Bitbucket ignores the parameter `state`. */
  async function findOpen({ headBranch, baseBranch }: Branches) {
    const { branch, fork = (await repository()).name } = headOf(headBranch);
    const terms = {
      state: 'OPEN',
      'source.repository.full_name': fork,
      'source.branch.name': branch,
      'destination.branch.name': baseBranch,
    };
    const q = Object.entries(terms).map(([field, value]) => `${field} = ${quoted(value)}`);
    const query = { q: q.join(' AND '), pagelen: '1', fields: 'values.id,values.links.html.href' };
    const [first] = (await get(openList, await pulls(), query)).values;
    return first && { number: first.id, url: first.links?.html.href };
  }

  const send = (method: 'POST' | 'PUT', path: string, body: object) =>
    api.write(method, path, { body, explained: [400], signal });

  /** The reviewers whom Bitbucket's web page would add; the API does not add them. */
  async function defaultReviewers(): Promise<readonly Reviewer[]> {
    const query = { pagelen: '100', fields: 'values.user.uuid,values.user.display_name' };
    const asked = get(defaultsAnswer, `${(await repository()).path}/effective-default-reviewers`, query);
    return (await undefinedOn(asked, 'not_found', 'forbidden'))?.values.map(({ user }) => user) ?? [];
  }

  return {
    /** Uses a query: Bitbucket does not document whether a path may contain a branch name with a slash. */
    async hasBranch(head) {
      const { branch, fork } = headOf(head);
      const { path } = await repository();
      const place = fork === undefined ? path : repositoryPath(fork);
      const query = { q: `name = ${quoted(branch)}`, pagelen: '1', fields: 'values.name' };
      return (await get(named, `${place}/refs/branches`, query)).values.some(({ name }) => name === branch);
    },
    async prepareCreation(wanted) {
      const { title, description, draft, headBranch, baseBranch } = wanted;
      const standing = await findOpen(wanted);
      // If worksync created it again, Bitbucket would overwrite the title of the existing one and answer with that.
      if (standing !== undefined) throw alreadyExists(wanted, '#', standing);
      const { branch, fork } = headOf(headBranch);
      const body = {
        title,
        description: description ?? undefined,
        draft,
        source: { branch: { name: branch }, ...(fork && { repository: { full_name: fork } }) },
        destination: { branch: { name: baseBranch } },
      };
      const path = await pulls();
      const sendWith = (list: readonly Reviewer[]) => send('POST', path, { ...body, reviewers: list.map(idOf) });
      const asked = wanted.reviewers?.map(reviewerOf);
      const others = asked ? [] : await defaultReviewers();
      return async () => taken(await (asked ? sendWith(asked) : sendToThoseTaken(sendWith, others)), wanted);
    },
    findOpen,
    read,
    async editSteps(edit, before) {
      // An edit must send the reviewers back, because Bitbucket removes them otherwise: without their list, it cannot be made.
      const now = parseAnswer(present, before, `pull request ${edit.identifier}`);
      refuseFinal(now);
      const path = `${await pulls()}/${edit.identifier}`;
      const body = changesOf(edit, now);
      const branches = {
        headBranch: `#${edit.identifier}`,
        baseBranch: edit.baseBranch ?? now.destination.branch.name,
      };
      const reviewers = edit.reviewers?.map(reviewerOf);
      const sendWith = (list: readonly Reviewer[]) => send('PUT', path, { ...body, reviewers: list.map(idOf) });
      const isSame = !reviewers || firstDifference(reviewers.map(nameOf), now.reviewers.map(nameOf)) === undefined;
      const steps: Step[] = [];
      if (Object.keys(body).length > 0 || !isSame)
        steps.push(async () => ({
          current: taken(await (reviewers ? sendWith(reviewers) : sendToThoseTaken(sendWith, now.reviewers)), branches),
        }));
      if (edit.state === 'closed' || edit.state === 'declined')
        steps.push(async () => ({ current: taken(await send('POST', `${path}/decline`, {}), branches) }));
      return steps;
    },
    pullOf,
  };
}

/** Reads a member's credential: an API token with the person's address, as `email:token`, or an access token alone. */
function credentialOf({ token }: MemberAccess) {
  const [, email, apiToken] = /^([^\s:@]+@[^\s:@]+):(.+)$/.exec(token) ?? [];
  return email === undefined || apiToken === undefined ? { token } : { email, apiToken };
}

/** The UUID in a text, which may lack the braces, and may have upper-case letters. */
function uuidOf(text: string): string | undefined {
  const braced = (text.startsWith('{') ? text : `{${text}}`).toLowerCase();
  return readable(uuid, braced);
}

/** Reads a branch, or a branch of a fork as `workspace/slug:branch`: the name of a branch never contains a colon. */
function headOf(text: string): { readonly branch: string; readonly fork?: string } {
  const colon = text.indexOf(':');
  const fork = text.slice(0, Math.max(colon, 0));
  return REPOSITORY.test(fork) ? { fork, branch: text.slice(colon + 1) } : { branch: text };
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

const idOf = ({ uuid: id }: Reviewer) => ({ uuid: id });
const nameOf = ({ uuid: id }: Reviewer) => id;

function reviewerOf(name: string): Reviewer {
  const id = uuidOf(name);
  if (id === undefined) throw refused('validation_failed', `reviewers: ${name} is not the UUID of an account`);
  return { uuid: id };
}

const refusedAnswer = z.object({
  error: z.object({ message: z.string().catch(''), fields: z.record(z.string(), z.unknown()).catch({}) }),
});

/** Returns the reason in an answer 400, on one line, and the fields that it is about. */
function readComplaint(answer: HttpAnswer) {
  const told = readable(refusedAnswer, readAnswer(answer, 'a refusal'));
  if (!told) return { text: 'no reason was given', fields: [] };
  const { message, fields } = told.error;
  const details = Object.entries(fields).map(([name, said]) => `${name}: ${[said].flat().join(', ')}`);
  const text = [message, ...details.filter((detail) => !message.includes(detail))].filter((part) => part !== '');
  return { text: onOneLine(text.join('; '), 300), fields: Object.keys(fields) };
}

function isAboutReviewers({ text, fields }: ReturnType<typeof readComplaint>): boolean {
  return fields.includes('reviewers') || /\breviewers?\b/i.test(text);
}

/** The pull request after a write. Throws what Bitbucket refused. */
function taken(answer: HttpAnswer, branches: Branches): unknown {
  if (answer.status !== 400) return readAnswer(answer, 'a write');
  const complaint = readComplaint(answer);
  const { text } = complaint;
  if (/no changes to be pulled/i.test(text)) throw noCommitsBetween(branches);
  if (/branch not found/i.test(text))
    throw refused('branch_not_found', `${branches.headBranch} → ${branches.baseBranch}: ${text}`);
  if (isAboutReviewers(complaint)) throw refused('validation_failed', `reviewers: Bitbucket refused: ${text}`);
  if (/only update an open|already closed/i.test(text)) throw new SyncError('conflict', text, { status: 400 });
  throw refused('validation_failed', `Bitbucket refused: ${text}`);
}

/**
 * Reviewers whom this write did not request must not stop it: the author among the default reviewers, or one who has left the
 * workspace. If Bitbucket refuses some, this sends the write again without those that it names, or without all if it names none.
 * A refused write changed nothing, so it may be sent again.
 */
async function sendToThoseTaken(
  send: (reviewers: readonly Reviewer[]) => Promise<HttpAnswer>,
  reviewers: readonly Reviewer[],
): Promise<HttpAnswer> {
  const answer = await send(reviewers);
  if (answer.status !== 400 || reviewers.length === 0) return answer;
  const complaint = readComplaint(answer);
  if (!isAboutReviewers(complaint)) return answer;
  const unnamed = reviewers.filter(({ display_name: name }) => name === undefined || !complaint.text.includes(name));
  return sendToThoseTaken(send, unnamed.length < reviewers.length ? unnamed : []);
}

/** Nobody can change or reopen a declined, superseded or merged pull request. */
function refuseFinal({ state }: Present): void {
  if (state === 'OPEN') return;
  if (state === 'MERGED') throw new SyncError('conflict', 'the pull request is merged: it cannot be changed');
  throw new SyncError('conflict', 'the pull request is declined: it cannot be changed or reopened', {
    errorCode: 'pull_request_declined',
  });
}

function changesOf({ title, baseBranch, draft, ...edit }: PullRequestEdit, now: Present): object {
  const description = edit.description === null ? '' : edit.description;
  return {
    ...(title !== undefined && title !== now.title && { title }),
    ...(description !== undefined && description !== (now.description ?? '') && { description }),
    ...(draft !== undefined && draft !== (now.draft ?? false) && { draft }),
    ...(baseBranch !== undefined &&
      baseBranch !== now.destination.branch.name && { destination: { branch: { name: baseBranch } } }),
  };
}
