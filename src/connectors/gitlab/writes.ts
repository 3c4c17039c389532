import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import type { PullRequest } from '../../model/item.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { ConnectionDeps, NewPullRequest, PullRequestEdit } from '../connector.ts';
import {
  alreadyExists,
  firstDifference,
  type GitWrites,
  isEmpty,
  type MemberRepository,
  type MemberRequest,
  missingBranch,
  noCommitsBetween,
  nonEmpty,
  refused,
} from '../kit/git-writes.ts';
import { parseAnswer, readAnswer } from '../kit/payload.ts';
import { undefinedOn } from '../kit/refusal.ts';
import { type Api, createApi, saidOf } from './api.ts';
import { pullOf } from './items.ts';
import { PROJECT, pathOf } from './options.ts';

/** The writes of members at GitLab (GL9). */
export const writes: GitWrites = {
  normalize: asReady,
  connect: at,
};

interface Branch {
  readonly project: string;
  readonly name: string;
}

const EXPLAINED = [400, 409, 422];

const anything = z.unknown();
const numbered = z.object({ id: z.int().positive() });
const openList = z.array(
  z.object({
    iid: z.int().positive(),
    web_url: z.string().optional().catch(undefined),
    source_project_id: z.int().nullable(),
    target_project_id: z.int(),
  }),
);
const present = z.object({
  title: z.string(),
  state: z.string(),
  source_branch: z.string(),
  target_branch: z.string(),
  source_project_id: z.int().nullable().catch(null),
  project_id: z.int(),
});
type Present = z.infer<typeof present>;

function at({ access, repoId: project, signal }: MemberRequest, deps: ConnectionDeps): MemberRepository {
  if (!PROJECT.test(project))
    throw refused('validation_failed', 'repoId: expected the number of a GitLab project, or group/project');
  const api = createApi(access, deps);
  const idsOf = createIdsOf(api, signal);
  const at = (rest: string, of = project) => `${pathOf({ kind: 'project', name: of })}${rest}`;
  const read = (number: string | number) => api.read(anything, at(`/merge_requests/${number}`), { signal });

  /** A branch of a fork is written `group/fork:branch`; the name of a branch never contains a colon. */
  function headOf(head: string): Branch {
    const colon = head.indexOf(':');
    if (colon === -1) return { project, name: head };
    const fork = head.slice(0, colon);
    if (PROJECT.test(fork)) return { project: fork, name: head.slice(colon + 1) };
    throw refused('validation_failed', 'headBranch: expected a branch, or group/fork:branch');
  }

  async function hasBranch(head: Branch): Promise<boolean> {
    const path = at(`/repository/branches/${encodeURIComponent(head.name)}`, head.project);
    if (await undefinedOn(api.get(path, { signal }), 'not_found')) return true;
    // GitLab answers 404 also for a project that does not exist or is hidden: the next request throws for that.
    await api.get(at('', head.project), { signal });
    return false;
  }

  const numberOf = async (name: string) =>
    /^\d+$/.test(name) ? Number(name) : (await api.read(numbered, at('', name), { signal })).id;

  async function findOpen(head: Branch, base: string) {
    const wanted = { state: 'opened', scope: 'all', source_branch: head.name, target_branch: base };
    const fork = head.project === project ? undefined : await numberOf(head.project);
    const query = new URLSearchParams(wanted).toString();
    const found = await api.read(openList, at('/merge_requests'), { query, signal });
    const standing = found.find((each) => each.source_project_id === (fork ?? each.target_project_id));
    return standing && { number: standing.iid, url: standing.web_url };
  }

  /** GitLab would open a merge request although a branch is missing, or the branches do not differ: so this checks first. */
  async function refuseEmpty(wanted: NewPullRequest, head: Branch): Promise<void> {
    const { headBranch, baseBranch } = wanted;
    if (!(await hasBranch({ project, name: baseBranch }))) throw missingBranch('baseBranch', baseBranch);
    if (head.project !== project) return;
    const query = new URLSearchParams({ ref_name: `${baseBranch}..${head.name}`, per_page: '1' }).toString();
    const commits = await undefinedOn(api.read(anything, at('/repository/commits'), { query, signal }), 'not_found');
    if (commits === undefined) throw missingBranch('headBranch', headBranch);
    if (Array.isArray(commits) && commits.length === 0) throw noCommitsBetween(wanted);
  }

  /** Returns the error for 409: another open request between these branches, with its number; or GitLab's message. */
  async function conflictWith(head: Branch, baseBranch: string, answer: HttpAnswer): Promise<SyncError> {
    const found = await findOpen(head, baseBranch).catch(() => undefined);
    if (found === undefined && !/already exists/i.test(saidOf(answer)))
      return api.refusal(answer, 'write the merge request');
    return alreadyExists({ headBranch: head.name, baseBranch }, '!', found);
  }

  async function send(method: 'POST' | 'PUT', path: string, body: object, branches: { head: Branch; base: string }) {
    const answer = await api.write(method, path, { body, explained: EXPLAINED, signal });
    if (answer.status === 409) throw await conflictWith(branches.head, branches.base, answer);
    if (answer.status === 400 || answer.status === 422)
      throw refused(
        'validation_failed',
        `GitLab refused the merge request: ${saidOf(answer) || `status ${answer.status}`}`,
      );
    return readAnswer(answer, `${method} ${path}`);
  }

  /** The fields to send: only what the edit names. A list replaces the present one. */
  async function fieldsOf(edit: PullRequestEdit, now: Present) {
    const { title, description, draft, baseBranch, labels, state } = edit;
    return {
      title: newTitle({ title, draft }, now),
      description: description === null ? '' : description,
      target_branch: baseBranch,
      labels: labels?.map(asLabel).join(','),
      assignee_ids: noneAsZero(await idsOf('assignees', edit.assignees)),
      reviewer_ids: noneAsZero(await idsOf('reviewers', edit.reviewers)),
      state_event: stateEvent(state, now),
    };
  }

  return {
    hasBranch: async (branch) => hasBranch(headOf(branch)),
    async prepareCreation(wanted) {
      const head = headOf(wanted.headBranch);
      await refuseEmpty(wanted, head);
      const body = {
        source_branch: head.name,
        target_branch: wanted.baseBranch,
        target_project_id: head.project === project ? undefined : await numberOf(project),
        title: titleAs(wanted.title, wanted.draft),
        description: wanted.description ?? undefined,
        labels: nonEmpty(wanted.labels)?.map(asLabel).join(','),
        assignee_ids: await idsOf('assignees', nonEmpty(wanted.assignees)),
        reviewer_ids: await idsOf('reviewers', nonEmpty(wanted.reviewers)),
      };
      return () => send('POST', at('/merge_requests', head.project), body, { head, base: wanted.baseBranch });
    },
    findOpen: async ({ headBranch, baseBranch }) => findOpen(headOf(headBranch), baseBranch),
    read,
    async editSteps(edit, before) {
      const path = at(`/merge_requests/${edit.identifier}`);
      const now = parseAnswer(present, before, `GET ${path}`);
      const body = await fieldsOf(edit, now);
      if (isEmpty(body)) return [];
      const { source_project_id: source, project_id: target, source_branch: name, target_branch } = now;
      const head = { project: source === null || source === target ? project : String(source), name };
      const branches = { head, base: edit.baseBranch ?? target_branch };
      return [async () => ({ current: await send('PUT', path, body, branches) })];
    },
    pullOf: (content) => pullOf(content, access.host),
    ignoredChange: dropped,
  };
}

/** Only the title shows whether a merge request is a draft; there is no field for it. */
function titleAs(title: string, draft: boolean | undefined): string {
  if (draft === undefined) return title;
  return draft ? asDraft(title) : asReady(title);
}

/** GitLab separates labels by commas, so none may contain one. */
function asLabel(name: string): string {
  if (!name.includes(',')) return name;
  throw refused('validation_failed', `labels: "${name}": GitLab has no labels with a comma`);
}

/** A draft stays a draft when its title changes, unless the edit says otherwise. */
function newTitle({ title, draft }: Pick<PullRequestEdit, 'title' | 'draft'>, now: Present): string | undefined {
  if (title === undefined && (draft === undefined || draft === isDraft(now.title))) return undefined;
  const stays = isDraft(now.title) ? true : undefined;
  return titleAs(title ?? now.title, draft ?? stays);
}

/** Forms may lose an empty list, so GitLab accepts 0 for an empty list. */
function noneAsZero(ids: readonly number[] | undefined): readonly number[] | undefined {
  return ids?.length === 0 ? [0] : ids;
}

function stateEvent(wanted: PullRequestEdit['state'], { state }: Present): 'close' | 'reopen' | undefined {
  if (wanted === 'closed' && state !== 'closed') return 'close';
  return wanted === 'open' && state !== 'opened' ? 'reopen' : undefined;
}

function dropped(held: PullRequest, wanted: Partial<PullRequestEdit>): SyncError | undefined {
  for (const what of ['labels', 'assignees', 'reviewers'] as const) {
    const name = firstDifference(wanted[what], held[what] ?? []);
    if (name === undefined) continue;
    const message = `${what}: GitLab did not change "${name}": this token may not, or GitLab allows no more of them`;
    return new SyncError('forbidden', message);
  }
  if (wanted.state === undefined || wanted.state === held.state) return undefined;
  return new SyncError('conflict', `state: GitLab keeps it ${held.rawState ?? 'as it was'}`);
}

/** GitLab's own rule: a title that begins with one or more of these, in any case, is that of a draft. */
const MARKS = /^(?:\s*(?:\[draft\]|\(draft\)|draft:))+\s*/i;

function isDraft(title: string): boolean {
  return MARKS.test(title);
}

function asDraft(title: string): string {
  return isDraft(title) ? title : `Draft: ${title}`;
}

function asReady(title: string): string {
  return title.replace(MARKS, '');
}

const found = z.array(z.object({ id: z.int().positive(), username: z.string() }));

/**
 * Turns usernames into numbers, by which GitLab names people in writes. Requests each name once. Throws `refused`, with
 * `validation_failed`, for a name that nobody has.
 */
function createIdsOf(api: Api, signal: AbortSignal) {
  const known = new Map<string, Promise<number | undefined>>();
  const ask = async (name: string): Promise<number | undefined> => {
    const users = await api.read(found, '/users', {
      query: new URLSearchParams({ username: name }).toString(),
      signal,
    });
    return users.find(({ username }) => username.toLowerCase() === name)?.id;
  };
  const idOf = (name: string) => {
    const asked = known.get(name) ?? ask(name);
    known.set(name, asked);
    return asked;
  };
  return async (field: string, names: readonly string[] | undefined): Promise<readonly number[] | undefined> => {
    if (names === undefined) return undefined;
    const ids: number[] = [];
    for (const name of names) {
      const id = await idOf(name.toLowerCase());
      if (id === undefined) throw refused('validation_failed', `${field}: GitLab knows nobody called "${name}"`);
      ids.push(id);
    }
    return ids;
  };
}
