import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { Delivery } from '../../model/delivery.ts';
import {
  type Item,
  type ItemReference,
  type PullRequest,
  type PullRequestState,
  pullRequestKey,
} from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present, sorted } from '../kit/fields.ts';
import { read, readJson } from '../kit/json.ts';
import { itemsOrReferences } from '../kit/outcome.ts';
import type { Options } from './options.ts';
import * as schema from './schema.ts';

/** The connector's own names of what polls and fetches bring. */
export const SHAPES = {
  list: 'merge_requests.list',
  mergeRequest: 'merge_requests.get',
  gone: 'merge_requests.gone',
} as const;

type Translator = (payload: unknown, options: Options) => Translation;

const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['Merge Request Hook', mergeRequestHook],
  ['Note Hook', noteHook],
]);

/** Pages and fetched objects were asked for, so they are in scope, also under a project's new path. */
const OF_READ: ReadonlyMap<string, Translator> = new Map([
  [SHAPES.list, list],
  [SHAPES.mergeRequest, fetched],
  [SHAPES.gone, gone],
]);

/**
 * Pure. Throws `delivery_malformed` for a body that is not what its event promises; also for one without `object_kind`,
 * which is what a custom webhook template leaves.
 */
export function translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation {
  const translators = delivery.source === 'webhook' ? OF_WEBHOOK : OF_READ;
  const translateIt = translators.get(delivery.event);
  if (!translateIt) return { outcome: 'ignored', reason: 'event_not_followed' };
  return translateIt(readJson(delivery.body), options);
}

/** What `fetch` needs to get this item. */
export function reference(item: Item): ItemReference {
  const { key, repoId, identifier } = item as PullRequest;
  return { kind: 'pull_request', key, locator: { projectId: repoId, iid: identifier } };
}

/** Every such event carries the state of the merge request at that time, whatever its action. */
function mergeRequestHook(payload: unknown, options: Options): Translation {
  return ofHook(read(schema.mergeRequestHook, payload), options);
}

/** A comment on a merge request carries it, without the names of the people. */
function noteHook(payload: unknown, options: Options): Translation {
  const note = read(schema.noteHook, payload);
  if (note.object_attributes.noteable_type !== 'MergeRequest')
    return { outcome: 'ignored', reason: 'not_a_merge_request' };
  const { project, merge_request } = read(schema.mergeRequestNoteHook, payload);
  return ofHook({ project, object_attributes: merge_request }, options);
}

function ofHook(hook: schema.MergeRequestHook, options: Options): Translation {
  if (!inScope(hook.project, options)) return { outcome: 'ignored', reason: 'project_not_in_scope' };
  return itemsOrReferences([fromHook(hook, options.host)], isWhole, reference);
}

function inScope(project: { id: number; path_with_namespace: string }, { projects }: Options): boolean {
  const names = [String(project.id), project.path_with_namespace.toLowerCase()];
  return projects.some((wanted) => names.includes(wanted.toLowerCase()));
}

function list(payload: unknown, options: Options): Translation {
  const found = read(schema.mergeRequest.array(), payload);
  return itemsOrReferences(
    found.map((each) => fromRest(each, options.host)),
    isWhole,
    reference,
  );
}

/** What the API answered to a write. Throws `answer_malformed`. */
export function readMergeRequest(body: Uint8Array, host: string): PullRequest {
  try {
    return fromRest(read(schema.mergeRequest, readJson(body)), host);
  } catch (error) {
    throw new SyncError('answer_malformed', `no merge request: ${asSyncError(error).message}`, { cause: error });
  }
}

/** Taken as it is, also with fields absent: fetching once more would bring the same. */
function fetched(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: [fromRest(read(schema.mergeRequest, payload), options.host)] };
}

function gone(payload: unknown, options: Options): Translation {
  const { project_id, iid, seen_at } = read(schema.gone, payload);
  const item = { ...identity(options.host, project_id, iid), updatedAt: Date.parse(seen_at), gone: true };
  return { outcome: 'items', items: [item] };
}

/** What lacks one of these is asked for: a payload that has drifted, a merge in progress, a description with images. */
function isWhole(item: PullRequest): boolean {
  const needed = [item.state, item.title, item.headBranch, item.baseBranch, item.description];
  return needed.every((field) => field !== undefined);
}

function fromRest(found: schema.GitlabMergeRequest, host: string): PullRequest {
  return {
    ...identity(host, found.project_id, found.iid),
    ...fieldsOf(found),
    ...present({
      repoName: found.references?.full.replace(/!\d+$/, ''),
      description: found.description,
      author: found.author === null ? null : found.author?.username,
      labels: sorted(found.labels),
      assignees: usernames(found.assignees),
      reviewers: usernames(found.reviewers),
      headSha: found.sha,
      url: found.web_url,
      mergedAt: found.merged_at,
    }),
  };
}

/** The author is there as a number only, and `user` is who acted: the author is absent. */
function fromHook(hook: schema.MergeRequestHook, host: string): PullRequest {
  const { project, object_attributes: attributes } = hook;
  return {
    ...identity(host, project.id, attributes.iid),
    ...fieldsOf(attributes),
    ...present({
      repoName: project.path_with_namespace,
      description: asWritten(attributes.description),
      labels: sorted((hook.labels ?? attributes.labels)?.map(({ title }) => title)),
      assignees: people(hook.assignees, attributes.assignee_ids),
      reviewers: people(hook.reviewers, attributes.reviewer_ids),
      headSha: attributes.last_commit?.id,
      url: attributes.url,
    }),
  };
}

/** Webhooks turn the addresses of images into absolute ones: such a text is not what the API says, and back again. */
function asWritten(description: string | null | undefined): string | null | undefined {
  return description?.includes('![') ? undefined : description;
}

/** GitLab leaves the list out where nobody is in it; the numbers tell that from a list that is not carried. */
function people(accounts: readonly Account[] | undefined, ids: readonly number[] | undefined): string[] | undefined {
  if (accounts) return usernames(accounts);
  return ids?.length === 0 ? [] : undefined;
}

function identity(host: string, projectId: number, iid: number) {
  const repoId = String(projectId);
  const identifier = String(iid);
  const key = pullRequestKey('gitlab', host, repoId, identifier);
  return { kind: 'pull_request' as const, key, connector: 'gitlab', host, repoId, identifier };
}

type Common = Pick<
  schema.GitlabMergeRequest,
  'updated_at' | 'state' | 'title' | 'draft' | 'work_in_progress' | 'source_branch' | 'target_branch' | 'created_at'
>;

/** Fields that webhooks and the API write alike. */
function fieldsOf(given: Common) {
  return {
    updatedAt: wholeSeconds(given.updated_at),
    ...present({
      state: stateOf(given.state),
      rawState: given.state,
      title: given.title,
      draft: given.draft ?? given.work_in_progress,
      headBranch: given.source_branch,
      baseBranch: given.target_branch,
      createdAt: given.created_at && new Date(wholeSeconds(given.created_at)).toISOString(),
    }),
  };
}

/**
 * Webhooks write whole seconds, the API milliseconds. Compared as they are, what was read early in a second would beat
 * the webhook of a later change in the same second. As whole seconds the two tie, and the object is fetched.
 */
function wholeSeconds(instant: string): number {
  return Math.floor(Date.parse(instant) / 1_000) * 1_000;
}

const STATES: Readonly<Record<string, PullRequestState>> = { opened: 'open', closed: 'closed', merged: 'merged' };

/** `locked` is a merge in progress: absent, so the state that is held stays until it is known (§2.5). */
function stateOf(state: Common['state']): PullRequestState | undefined {
  return state && STATES[state];
}

interface Account {
  readonly username: string;
}

function usernames(accounts: readonly Account[] | undefined): string[] | undefined {
  return sorted(accounts?.map(({ username }) => username));
}
