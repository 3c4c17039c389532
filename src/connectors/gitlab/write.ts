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
import { parseAnswer, readAnswer } from '../kit/json.ts';
import { refusal, saidOf } from './answers.ts';
import { type Api, createApi } from './api.ts';
import { asDraft, asReady, isDraft } from './draft-title.ts';
import { readMergeRequest } from './merge-requests.ts';
import { PROJECT, PUBLIC_HOST } from './options.ts';
import { createPeople, type People } from './people.ts';

/** What members write at GitLab (GL9). */
export function createGit(deps: ConnectionDeps): GitProvider {
  const visit = (access: MemberAccess, repoId: string, signal: AbortSignal): Visit => {
    const api = createApi(access, deps);
    const explain = (answer: HttpAnswer, what: string) => refusal(answer, what, deps.clock.now());
    return { api, access, signal, explain, project: projectOf(access, repoId), people: createPeople(api, signal) };
  };
  return {
    async hasBranch(access, { repoId, branch }, signal) {
      const here = visit(access, repoId, signal);
      return hasBranch(here, headOf(here, branch));
    },
    openPullRequest: async (access, wanted, signal) => open(visit(access, wanted.repoId, signal), wanted),
    editPullRequest: async (access, edit, signal) => change(visit(access, edit.repoId, signal), edit),
  };
}

/** One member at one project. */
interface Visit {
  readonly api: Api;
  readonly access: MemberAccess;
  readonly signal: AbortSignal;
  readonly people: People;
  /** By its number, as the workspace names it, or by its path. */
  readonly project: string;
  explain(answer: HttpAnswer, what: string): SyncError;
}

function projectOf({ host }: MemberAccess, repoId: string): string {
  const project = repoId.startsWith(`${host}:`) ? repoId.slice(host.length + 1) : repoId;
  if (PROJECT.test(project)) return project;
  throw refused('validation_failed', 'repoId: expected the number of a GitLab project, or group/project');
}

function pathOf(project: string): string {
  return `/projects/${encodeURIComponent(project)}`;
}

interface Branch {
  readonly project: string;
  readonly name: string;
}

/** A branch of a fork is written `group/fork:branch`; no name of a branch holds a colon. */
function headOf({ project }: Visit, head: string): Branch {
  const colon = head.indexOf(':');
  if (colon === -1) return { project, name: head };
  const fork = head.slice(0, colon);
  if (PROJECT.test(fork)) return { project: fork, name: head.slice(colon + 1) };
  throw refused('validation_failed', 'headBranch: expected a branch, or group/fork:branch');
}

async function hasBranch({ api, signal }: Visit, { project, name }: Branch): Promise<boolean> {
  try {
    await api.get(`${pathOf(project)}/repository/branches/${encodeURIComponent(name)}`, { signal });
    return true;
  } catch (error) {
    if (asSyncError(error).code !== 'not_found') throw error;
    // 404 is also the answer for a project that is not there or may not be seen: that is another error.
    await api.get(pathOf(project), { signal });
    return false;
  }
}

async function open(visit: Visit, wanted: NewPullRequest): Promise<WrittenPullRequest> {
  const { api, signal, people, project } = visit;
  const head = headOf(visit, wanted.headBranch);
  const isFork = head.project !== project;
  await refuseEmpty(visit, wanted, head);
  const lists = {
    labels: filled(wanted.labels),
    assignees: filled(wanted.assignees),
    reviewers: filled(wanted.reviewers),
  };
  const body = {
    source_branch: head.name,
    target_branch: wanted.baseBranch,
    target_project_id: isFork ? await numberOf(visit, project) : undefined,
    title: titleAs(wanted.title, wanted.draft),
    description: wanted.description ?? undefined,
    labels: lists.labels?.map(asLabel).join(','),
    assignee_ids: await people.idsOf('assignees', lists.assignees),
    reviewer_ids: await people.idsOf('reviewers', lists.reviewers),
  };
  const path = `${pathOf(head.project)}/merge_requests`;
  const sent = api.send('POST', path, { body, explained: EXPLAINED, signal });
  const answer = await sent.catch((error: unknown) => lookAfter(visit, wanted, head, error));
  if (answer.status === 409) throw await existing(visit, wanted, head, answer);
  refuseInvalid(answer, 'open the merge request');
  return written(visit, answer, lists);
}

/** Statuses by which GitLab says what is wrong with a request. */
const EXPLAINED = [400, 409, 422];

function refuseInvalid(answer: HttpAnswer, what: string): void {
  if (answer.status !== 400 && answer.status !== 422) return;
  throw refused('validation_failed', `GitLab refused to ${what}: ${saidOf(answer) || `status ${answer.status}`}`);
}

function filled(names: readonly string[] | undefined): readonly string[] | undefined {
  return names === undefined || names.length === 0 ? undefined : names;
}

/** GitLab would open a request between branches of which one is missing, or that do not differ: it is looked at first. */
async function refuseEmpty(visit: Visit, { headBranch, baseBranch }: NewPullRequest, head: Branch): Promise<void> {
  const { api, signal, project } = visit;
  if (!(await hasBranch(visit, { project, name: baseBranch })))
    throw refused('branch_not_found', `baseBranch: ${baseBranch} does not exist on the remote`);
  if (head.project !== project) return;
  const path = `${pathOf(project)}/repository/commits`;
  const query = new URLSearchParams({ ref_name: `${baseBranch}..${head.name}`, per_page: '1' }).toString();
  const commits = await api.get(path, { query, signal }).catch((error: unknown) => {
    if (asSyncError(error).code !== 'not_found') throw error;
    throw refused('branch_not_found', `headBranch: ${headBranch} does not exist on the remote`);
  });
  if (!isEmptyList(readAnswer(commits, `GET ${path}`))) return;
  throw refused('no_commits_between', `${headBranch} → ${baseBranch}: there is nothing to merge`);
}

function isEmptyList(found: unknown): boolean {
  return Array.isArray(found) && found.length === 0;
}

async function numberOf({ api, signal }: Visit, project: string): Promise<number> {
  if (/^\d+$/.test(project)) return Number(project);
  const what = `GET ${pathOf(project)}`;
  const answer = await api.get(pathOf(project), { signal });
  return parseAnswer(z.object({ id: z.int().positive() }), readAnswer(answer, what), what).id;
}

const openList = z.array(
  z.object({
    iid: z.int().positive(),
    web_url: z.string().optional().catch(undefined),
    source_project_id: z.int().nullable(),
    target_project_id: z.int(),
  }),
);

/** The open request for these branches: at most one exists. */
async function findOpen(visit: Visit, { baseBranch }: Pick<NewPullRequest, 'baseBranch'>, head: Branch) {
  const { api, signal, project } = visit;
  const path = `${pathOf(project)}/merge_requests`;
  const query = new URLSearchParams({
    state: 'opened',
    scope: 'all',
    source_branch: head.name,
    target_branch: baseBranch,
  }).toString();
  const fork = head.project === project ? undefined : await numberOf(visit, head.project);
  const answer = await api.get(path, { query, signal });
  const found = parseAnswer(openList, readAnswer(answer, `GET ${path}`), `GET ${path}`);
  return found.find((each) => each.source_project_id === (fork ?? each.target_project_id));
}

/** Whether a creation without an answer was carried out: then the request is there. It is never sent again. */
async function lookAfter(visit: Visit, wanted: NewPullRequest, head: Branch, thrown: unknown): Promise<HttpAnswer> {
  const error = asSyncError(thrown);
  if (!isOfUnknownFate(error)) throw error;
  const found = await findOpen(visit, wanted, head).catch(() => undefined);
  if (found === undefined) throw error;
  return visit.api.get(`${pathOf(visit.project)}/merge_requests/${found.iid}`, { signal: visit.signal });
}

function isOfUnknownFate({ code }: SyncError): boolean {
  return code === 'outcome_unknown' || code === 'server_failed';
}

/** What 409 means: another open request between these branches, which is named; or something else, as GitLab says it. */
async function existing(
  visit: Visit,
  wanted: Pick<NewPullRequest, 'baseBranch'>,
  head: Branch,
  answer: HttpAnswer,
): Promise<SyncError> {
  const found = await findOpen(visit, wanted, head).catch(() => undefined);
  if (found === undefined && !/already exists/i.test(saidOf(answer)))
    return visit.explain(answer, 'write the merge request');
  const name = found === undefined ? '' : `: !${found.iid} ${found.web_url ?? ''}`.trimEnd();
  const branches = `${head.name} → ${wanted.baseBranch}`;
  return refused('pull_request_exists', `an open merge request for ${branches} exists already${name}`);
}

function refused(errorCode: string, message: string): SyncError {
  return new SyncError('refused', message, { errorCode, status: 422 });
}

/** The title says whether a request is a draft; there is no field for it. */
function titleAs(title: string, draft: boolean | undefined): string {
  if (draft === undefined) return title;
  return draft ? asDraft(title) : asReady(title);
}

/** GitLab takes labels as a list with commas, and so none that holds one. */
function asLabel(name: string): string {
  if (!name.includes(',')) return name;
  throw refused('validation_failed', `labels: "${name}": GitLab has no labels with a comma`);
}

const present = z.object({
  title: z.string(),
  state: z.string(),
  source_branch: z.string(),
  target_branch: z.string(),
  source_project_id: z.int().nullable().catch(null),
  project_id: z.int(),
});
type Present = z.infer<typeof present>;

async function change(visit: Visit, edit: PullRequestEdit): Promise<WrittenPullRequest> {
  const { api, signal, project } = visit;
  if (!/^[1-9]\d{0,8}$/.test(edit.identifier)) throw refused('validation_failed', 'identifier: expected a number');
  if (edit.state === 'merged' || edit.state === 'declined')
    throw refused('unsupported_field', `state: GitLab does not take "${edit.state}"; a request is merged there itself`);
  const path = `${pathOf(project)}/merge_requests/${edit.identifier}`;
  const before = await api.get(path, { signal });
  const now = readPresent(before, path);
  const body = await fieldsOf(visit, edit, now);
  if (Object.values(body).every((value) => value === undefined)) return written(visit, before, edit);
  try {
    const answer = await api.send('PUT', path, { body, explained: EXPLAINED, signal });
    if (answer.status === 409) throw await existingFor(visit, edit, now, answer);
    refuseInvalid(answer, 'edit the merge request');
    return written(visit, answer, edit);
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (!isOfUnknownFate(error)) throw error;
    // Not sent again: what GitLab holds now tells whether it was carried out.
    const after = await api.get(path, { signal }).catch(() => undefined);
    const result = written(visit, after ?? before, edit);
    return isCarriedOut(result, edit) ? result : { ...result, refused: error };
  }
}

function readPresent(answer: HttpAnswer, path: string): Present {
  return parseAnswer(present, readAnswer(answer, `GET ${path}`), `GET ${path}`);
}

async function existingFor(visit: Visit, edit: PullRequestEdit, now: Present, answer: HttpAnswer): Promise<SyncError> {
  const { source_project_id: source, project_id: target, source_branch: name } = now;
  const head = { project: source === null || source === target ? visit.project : String(source), name };
  return existing(visit, { baseBranch: edit.baseBranch ?? now.target_branch }, head, answer);
}

/** Only what the edit names; lists replace what is there. */
async function fieldsOf({ people }: Visit, edit: PullRequestEdit, now: Present) {
  const { title, description, draft, baseBranch, labels, state } = edit;
  return {
    title: newTitle({ title, draft }, now),
    description: description === null ? '' : description,
    target_branch: baseBranch,
    labels: labels?.map(asLabel).join(','),
    assignee_ids: noneAsZero(await people.idsOf('assignees', edit.assignees)),
    reviewer_ids: noneAsZero(await people.idsOf('reviewers', edit.reviewers)),
    state_event: stateEvent(state, now),
  };
}

/** A draft whose title is changed stays one, unless the edit says otherwise. */
function newTitle({ title, draft }: Pick<PullRequestEdit, 'title' | 'draft'>, now: Present): string | undefined {
  if (title === undefined && (draft === undefined || draft === isDraft(now.title))) return undefined;
  const stays = isDraft(now.title) ? true : undefined;
  return titleAs(title ?? now.title, draft ?? stays);
}

/** An empty list may get lost on its way through a form: GitLab takes 0 for nobody. */
function noneAsZero(ids: readonly number[] | undefined): readonly number[] | undefined {
  return ids?.length === 0 ? [0] : ids;
}

function stateEvent(wanted: PullRequestEdit['state'], { state }: Present): 'close' | 'reopen' | undefined {
  if (wanted === 'closed' && state !== 'closed') return 'close';
  return wanted === 'open' && state !== 'opened' ? 'reopen' : undefined;
}

/** What GitLab holds, and the first part of what was wanted that it dropped without a word. */
function written({ access }: Visit, answer: HttpAnswer, wanted: Wanted): WrittenPullRequest {
  const { host } = access;
  const pullRequest = readMergeRequest(answer.body, host);
  const repoId = host === PUBLIC_HOST ? pullRequest.repoId : `${host}:${pullRequest.repoId}`;
  const dropped = droppedOf(pullRequest, wanted);
  return { repoId, pullRequest, ...(dropped && { refused: dropped }) };
}

type Wanted = Pick<PullRequestEdit, 'labels' | 'assignees' | 'reviewers' | 'state'>;

function droppedOf(held: PullRequest, wanted: Wanted): SyncError | undefined {
  for (const what of ['labels', 'assignees', 'reviewers'] as const) {
    const name = firstDifference(wanted[what], held[what] ?? []);
    if (name !== undefined)
      return new SyncError(
        'forbidden',
        `${what}: GitLab left "${name}" as it was: there is no right to it, or no room`,
      );
  }
  if (wanted.state === undefined || wanted.state === held.state) return undefined;
  return new SyncError('conflict', `state: GitLab keeps it ${held.rawState ?? 'as it was'}`);
}

/** One that was wanted and is not there, else one that is there and was not wanted. Case is GitLab's own. */
function firstDifference(wanted: readonly string[] | undefined, held: readonly string[]): string | undefined {
  if (wanted === undefined) return undefined;
  const lower = (names: readonly string[]) => new Set(names.map((name) => name.trim().toLowerCase()));
  const [left, right] = [lower(wanted), lower(held)];
  return [...left].find((name) => !right.has(name)) ?? [...right].find((name) => !left.has(name));
}

/** Whether GitLab holds all of an edit that it did not answer. */
function isCarriedOut({ pullRequest: held, refused: failure }: WrittenPullRequest, edit: PullRequestEdit): boolean {
  const plain = (text: string | null | undefined) => asReady((text ?? '').replace(/\r\n?/g, '\n').trim());
  const texts = (['title', 'description', 'baseBranch'] as const).filter((field) => edit[field] !== undefined);
  const isDraftAsWanted = edit.draft === undefined || edit.draft === held.draft;
  return failure === undefined && isDraftAsWanted && texts.every((field) => plain(edit[field]) === plain(held[field]));
}
