import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { PullRequest } from '../../model/item.ts';
import type {
  ConnectionDeps,
  GitProvider,
  MemberAccess,
  NewPullRequest,
  PullRequestEdit,
  WrittenPullRequest,
} from '../connector.ts';
import { parseAnswer, readAnswer, readable, translateAnswer, writeJson } from '../kit/json.ts';
import { type Complaint, createMemberApi, type MemberApi, readComplaint } from './member-api.ts';
import { REPOSITORY, unrestricted } from './options.ts';
import { FIELDS_OF_ONE, uuid } from './schema.ts';
import { SHAPES, translate } from './translate.ts';

/** What members write at Bitbucket (BB6). */
export function createGit(deps: ConnectionDeps): GitProvider {
  const visit = async (access: MemberAccess, repoId: string, signal: AbortSignal): Promise<Visit> => {
    const api = createMemberApi(access, deps, signal);
    return { api, repository: await findRepository(api, repoId) };
  };
  return {
    async hasBranch(access, { repoId, branch }, signal) {
      const { api, repository } = await visit(access, repoId, signal);
      return hasBranch(api, repository, headOf(branch));
    },
    async openPullRequest(access, wanted, signal) {
      refuseUnsupported(wanted);
      return open(await visit(access, wanted.repoId, signal), wanted);
    },
    async editPullRequest(access, edit, signal) {
      refuseUnsupported(edit);
      return change(await visit(access, edit.repoId, signal), edit);
    },
  };
}

/** One member at one repository. */
interface Visit {
  readonly api: MemberApi;
  readonly repository: Repository;
}

interface Repository {
  /** `workspace/slug`, as it is called now. */
  readonly name: string;
  /** By its id within its workspace: a new name does not matter, and another one under the old name is not taken for it. */
  readonly path: string;
}

const repositoryAnswer = z.object({ uuid, full_name: z.string().regex(REPOSITORY) });

/** By its stable id, as the workspace names it; a person may also say `workspace/slug`. */
async function findRepository(api: MemberApi, repoId: string): Promise<Repository> {
  const id = uuidOf(repoId);
  if (id === undefined && !REPOSITORY.test(repoId))
    throw refused('validation_failed', 'repoId: expected the UUID of a Bitbucket repository, or workspace/slug');
  // The empty braces stand for the workspace, which a repository's id does not need.
  const path = id === undefined ? `/repositories/${repoId}` : `/repositories/%7B%7D/${encodeURIComponent(id)}`;
  const answer = await api.get(path, { fields: 'uuid,full_name' });
  const { uuid: own, full_name: name } = parseAnswer(repositoryAnswer, answer, `GET ${path}`);
  if (id !== undefined && own.toLowerCase() !== id)
    throw new SyncError('answer_malformed', `GET ${path}: the answer names another repository`);
  return { name, path: `/repositories/${name.split('/', 1)[0]}/${encodeURIComponent(own)}` };
}

/** Braces may be left out, and letters have either case. */
function uuidOf(text: string): string | undefined {
  const braced = (text.startsWith('{') ? text : `{${text}}`).toLowerCase();
  return readable(uuid, braced);
}

/** A branch, in a fork where it is written `workspace/slug:branch`: no branch has a colon in its name. */
interface Head {
  readonly branch: string;
  readonly fork?: string;
}

function headOf(text: string): Head {
  const colon = text.indexOf(':');
  const fork = text.slice(0, Math.max(colon, 0));
  return REPOSITORY.test(fork) ? { fork, branch: text.slice(colon + 1) } : { branch: text };
}

/** Asked for by a query: whether a slash in the name of a branch may stand in a path is not documented. */
async function hasBranch(api: MemberApi, { path }: Repository, { fork, branch }: Head): Promise<boolean> {
  const place = `${fork === undefined ? path : `/repositories/${fork}`}/refs/branches`;
  const answer = await api.get(place, { q: `name = ${quoted(branch)}`, pagelen: '1', fields: 'values.name' });
  return parseAnswer(named, answer, `GET ${place}`).values.some(({ name }) => name === branch);
}

const named = z.object({ values: z.array(z.object({ name: z.string() })).catch([]) });

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** There are neither labels nor assignees; and a request is merged on Bitbucket itself. */
function refuseUnsupported(given: Partial<PullRequestEdit>): void {
  const field = (['labels', 'assignees'] as const).find((name) => given[name] !== undefined);
  if (field !== undefined) throw refused('unsupported_field', `${field}: Bitbucket has none`);
  if (given.state === 'merged') throw refused('unsupported_field', 'state: a request is merged on Bitbucket itself');
}

async function open(visit: Visit, wanted: NewPullRequest): Promise<WrittenPullRequest> {
  const branches = `${wanted.headBranch} → ${wanted.baseBranch}`;
  const found = await findOpen(visit, wanted);
  // Asked to create it again, Bitbucket would answer with the one that is there, its title written over.
  if (found !== undefined) {
    const name = `#${found.id} ${found.links?.html.href ?? ''}`.trimEnd();
    throw refused('pull_request_exists', `an open pull request for ${branches} exists already: ${name}`);
  }
  const answer = await create(visit, wanted);
  if (answer.status === 400) throw explainRefusal(readComplaint(answer), branches);
  return written(readAnswer(answer, 'a new pull request'));
}

const openList = z.object({
  values: z.array(
    z.object({
      id: z.int().positive(),
      links: z
        .object({ html: z.object({ href: z.string() }) })
        .optional()
        .catch(undefined),
    }),
  ),
});

/** The open request for these branches. Beside `q`, Bitbucket does not look at the parameter `state`. */
async function findOpen({ api, repository }: Visit, { headBranch, baseBranch }: NewPullRequest) {
  const { branch, fork = repository.name } = headOf(headBranch);
  const terms = {
    state: 'OPEN',
    'source.repository.full_name': fork,
    'source.branch.name': branch,
    'destination.branch.name': baseBranch,
  };
  const q = Object.entries(terms).map(([field, value]) => `${field} = ${quoted(value)}`);
  const path = `${repository.path}/pullrequests`;
  const query = { q: q.join(' AND '), pagelen: '1', fields: 'values.id,values.links.html.href' };
  return parseAnswer(openList, await api.get(path, query), `GET ${path}`).values[0];
}

async function create(visit: Visit, wanted: NewPullRequest): Promise<HttpAnswer> {
  const { branch, fork } = headOf(wanted.headBranch);
  const body = {
    title: wanted.title,
    description: wanted.description ?? undefined,
    draft: wanted.draft,
    source: { branch: { name: branch }, ...(fork && { repository: { full_name: fork } }) },
    destination: { branch: { name: wanted.baseBranch } },
  };
  const send = (reviewers: readonly Reviewer[]) =>
    visit.api
      .write('POST', `${visit.repository.path}/pullrequests`, { ...body, reviewers: reviewers.map(idOf) })
      .catch((error: unknown) => lookAfter(visit, wanted, error));
  if (wanted.reviewers) return send(wanted.reviewers.map(reviewerOf));
  return sendToThoseTaken(send, await defaultReviewers(visit));
}

/** Whether a creation without an answer was carried out: then the request is there. It is never sent again. */
async function lookAfter(visit: Visit, wanted: NewPullRequest, thrown: unknown): Promise<HttpAnswer> {
  const error = asSyncError(thrown);
  if (!isUncertain(error)) throw error;
  const found = await findOpen(visit, wanted).catch(() => undefined);
  if (found === undefined) throw error;
  const body = await readPull(visit, String(found.id));
  return { status: 200, headers: {}, body: writeJson(body) };
}

function isUncertain({ code }: SyncError): boolean {
  return code === 'outcome_unknown' || code === 'server_failed';
}

function explainRefusal({ text, fields }: Complaint, branches: string): SyncError {
  if (/no changes to be pulled/i.test(text))
    return refused('no_commits_between', `${branches}: there is nothing to merge`);
  if (/branch not found/i.test(text)) return refused('branch_not_found', `${branches}: ${text}`);
  if (isAboutReviewers({ text, fields })) return refused('validation_failed', `reviewers: Bitbucket refused: ${text}`);
  if (/only update an open|already closed/i.test(text)) return new SyncError('conflict', text, { status: 400 });
  return refused('validation_failed', `Bitbucket refused: ${text}`);
}

function isAboutReviewers({ text, fields }: Complaint): boolean {
  return fields.includes('reviewers') || /\breviewers?\b/i.test(text);
}

function refused(errorCode: string, message: string): SyncError {
  return new SyncError('refused', message, { errorCode, status: 400 });
}

/** An account, by its id; what Bitbucket calls it when it refuses it. */
interface Reviewer {
  readonly uuid: string;
  readonly display_name?: string;
}

const idOf = ({ uuid: id }: Reviewer) => ({ uuid: id });

function reviewerOf(name: string): Reviewer {
  const id = uuidOf(name);
  if (id === undefined) throw refused('validation_failed', `reviewers: ${name} is not the UUID of an account`);
  return { uuid: id };
}

const accountAnswer = z.object({ uuid, display_name: z.string().min(1).optional().catch(undefined) });
const defaultsAnswer = z.object({ values: z.array(z.object({ user: accountAnswer })) });

/** Those that the web page would ask; the API leaves them out. */
async function defaultReviewers({ api, repository }: Visit): Promise<readonly Reviewer[]> {
  try {
    const path = `${repository.path}/effective-default-reviewers`;
    const fields = 'values.user.uuid,values.user.display_name';
    const answer = await api.get(path, { pagelen: '100', fields });
    return parseAnswer(defaultsAnswer, answer, `GET ${path}`).values.map(({ user }) => user);
  } catch (error) {
    if (['not_found', 'forbidden'].includes(asSyncError(error).code)) return [];
    throw error;
  }
}

/**
 * Reviewers whom nobody asked for just now must not stop a write: the author among the default ones, one who has left
 * the workspace since. Those whom Bitbucket names are left out, and all of them where it names none. A refusal wrote
 * nothing, so it may be sent again.
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

const present = z.object({
  state: z.string(),
  title: z.string().optional(),
  description: z.string().nullish(),
  draft: z.boolean().optional().catch(undefined),
  destination: z.object({ branch: z.object({ name: z.string() }) }),
  reviewers: z.array(accountAnswer),
});
type Present = z.infer<typeof present>;

async function change(visit: Visit, edit: PullRequestEdit): Promise<WrittenPullRequest> {
  const { identifier } = edit;
  if (!/^[1-9]\d{0,14}$/.test(identifier)) throw refused('validation_failed', 'identifier: expected a number');
  const before = await readPull(visit, identifier);
  // Without the list of reviewers nothing can be written: what is not sent back is cleared.
  const now = parseAnswer(present, before, `pull request ${identifier}`);
  refuseFinal(now);
  let held = before;
  try {
    held = (await setFields(visit, edit, now)) ?? held;
    if (edit.state === 'closed' || edit.state === 'declined') held = await decline(visit, identifier);
    return written(held);
  } catch (thrown) {
    const failure = asSyncError(thrown);
    if (held === before && !isUncertain(failure)) throw failure;
    const now = written(await readPull(visit, identifier).catch(() => held));
    return isUncertain(failure) && isCarriedOut(edit, now.pullRequest) ? now : { ...now, refused: failure };
  }
}

/** Declined, superseded and merged requests take no change, and are not opened again. */
function refuseFinal({ state }: Present): void {
  if (state === 'OPEN') return;
  if (state === 'MERGED') throw new SyncError('conflict', 'the pull request is merged: it cannot be changed');
  throw new SyncError('conflict', 'the pull request is declined: it cannot be changed or reopened', {
    errorCode: 'pull_request_declined',
  });
}

function readPull({ api, repository }: Visit, number: string): Promise<unknown> {
  return api.get(`${repository.path}/pullrequests/${number}`, { fields: FIELDS_OF_ONE });
}

/** Sends what differs, and the reviewers in any case. Undefined where nothing differs. */
async function setFields({ api, repository }: Visit, edit: PullRequestEdit, now: Present): Promise<unknown> {
  const { title, baseBranch, draft } = edit;
  const description = edit.description === null ? '' : edit.description;
  const reviewers = edit.reviewers?.map(reviewerOf);
  const body = {
    ...(title !== undefined && title !== now.title && { title }),
    ...(description !== undefined && description !== (now.description ?? '') && { description }),
    ...(draft !== undefined && draft !== (now.draft ?? false) && { draft }),
    ...(baseBranch !== undefined &&
      baseBranch !== now.destination.branch.name && { destination: { branch: { name: baseBranch } } }),
  };
  const sameReviewers = reviewers === undefined || isSame(reviewers, now.reviewers);
  if (Object.keys(body).length === 0 && sameReviewers) return undefined;
  const path = `${repository.path}/pullrequests/${edit.identifier}`;
  const send = (list: readonly Reviewer[]) => api.write('PUT', path, { ...body, reviewers: list.map(idOf) });
  const answer = reviewers ? await send(reviewers) : await sendToThoseTaken(send, now.reviewers);
  if (answer.status === 400) throw explainRefusal(readComplaint(answer), `baseBranch ${baseBranch ?? ''}`);
  return readAnswer(answer, `PUT ${path}`);
}

function isSame(left: readonly Reviewer[], right: readonly Reviewer[]): boolean {
  const ids = (list: readonly Reviewer[]) => [...new Set(list.map((one) => one.uuid.toLowerCase()))].sort().join();
  return ids(left) === ids(right);
}

async function decline({ api, repository }: Visit, number: string): Promise<unknown> {
  const path = `${repository.path}/pullrequests/${number}/decline`;
  const answer = await api.write('POST', path, {});
  if (answer.status === 400) throw explainRefusal(readComplaint(answer), '');
  return readAnswer(answer, `POST ${path}`);
}

/** Whether everything that was asked for is there, after a write that was not answered. */
function isCarriedOut(edit: PullRequestEdit, now: PullRequest): boolean {
  const asked: readonly (readonly [unknown, unknown])[] = [
    [edit.title, now.title],
    [edit.description === null ? '' : edit.description, now.description ?? ''],
    [edit.draft, now.draft],
    [edit.baseBranch, now.baseBranch],
    [
      edit.reviewers
        ?.map((name) => uuidOf(name))
        .sort()
        .join(),
      now.reviewers?.join().toLowerCase(),
    ],
    [edit.state === 'closed' ? 'declined' : edit.state, now.state],
  ];
  return asked.every(([wanted, held]) => wanted === undefined || wanted === held);
}

/** What Bitbucket holds, as it says itself. */
function written(pull: unknown): WrittenPullRequest {
  const delivery = { source: 'fetch', event: SHAPES.pull, body: writeJson(pull) } as const;
  const translated = translateAnswer('a pull request', () => translate(delivery, unrestricted()));
  const item = translated.outcome === 'items' ? translated.items[0] : undefined;
  if (item?.kind === 'pull_request') return { repoId: item.repoId, pullRequest: item };
  throw new SyncError('answer_malformed', 'Bitbucket answered with no pull request');
}
