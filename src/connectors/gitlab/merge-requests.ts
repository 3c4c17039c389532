import { SyncError } from '../../errors/sync-error.ts';
import { type ItemReference, type PullRequest, type PullRequestState, pullRequestKey } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present, sorted } from '../kit/fields.ts';
import { read, readable, readJson, translateAnswer } from '../kit/json.ts';
import { itemsOrReferences, UNJUDGED } from '../kit/outcome.ts';
import {
  asInstant,
  asWritten,
  isFollowed,
  people,
  projectIn,
  usernames,
  wholeSeconds,
  withoutNumber,
} from './common.ts';
import type { Options } from './options.ts';
import * as schema from './schema.ts';

/** Every such event carries the state of the merge request at that time, whatever its action. */
export function mergeRequestHook(payload: unknown, options: Options): Translation {
  const { iid } = read(schema.namedMergeRequest, payload).object_attributes;
  return ofHook(payload, iid, readable(schema.mergeRequestHook, payload), options);
}

/** A comment on a merge request carries it, without the names of the people. */
export function noteOnMergeRequest(payload: unknown, options: Options): Translation {
  const { iid } = read(schema.mergeRequestOfNote, payload).merge_request;
  const carried = readable(schema.mergeRequestNoteHook, payload)?.merge_request;
  return ofHook(payload, iid, carried && { object_attributes: carried }, options);
}

/** What cannot be read, and what may not be followed, is fetched as long as it says which merge request it is. */
function ofHook(
  payload: unknown,
  iid: number,
  hook: schema.MergeRequestHook | undefined,
  options: Options,
): Translation {
  const project = projectIn(payload);
  if (!project) throw new SyncError('delivery_malformed', 'project: names no project');
  const followed = isFollowed(project, options);
  if (followed === false) return { outcome: 'ignored', reason: 'project_not_in_scope' };
  if (hook && followed) return itemsOrReferences([fromHook(project, hook, options.host)], isWhole, referenceOf);
  const { key, locator } = referenceOf(identity(options.host, project.id, iid));
  const reference = { kind: 'pull_request' as const, key, locator: followed ? locator : { ...locator, ...UNJUDGED } };
  return { outcome: 'references', references: [reference] };
}

export function mergeRequestList(payload: unknown, options: Options): Translation {
  const found = read(schema.mergeRequest.array(), payload).map((each) => fromRest(each, options.host));
  return itemsOrReferences(found, isWhole, referenceOf);
}

/** Taken as it is, also with fields absent: fetching once more would bring the same. */
export function fetchedMergeRequest(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: [fromRest(read(schema.fetchedMergeRequest, payload), options.host)] };
}

/** One that a webhook told of without telling whether its project is followed. */
export function judgedMergeRequest(payload: unknown, options: Options): Translation {
  const item = fromRest(read(schema.fetchedMergeRequest, payload), options.host);
  const project = { id: Number(item.repoId), path_with_namespace: item.repoName };
  if (isFollowed(project, options) !== true) return { outcome: 'ignored', reason: 'project_not_in_scope' };
  return { outcome: 'items', items: [item] };
}

export function goneMergeRequest(payload: unknown, options: Options): Translation {
  const { project_id, iid, seen_at } = read(schema.gone, payload);
  const item = { ...identity(options.host, project_id, iid), updatedAt: Date.parse(seen_at), gone: true };
  return { outcome: 'items', items: [item] };
}

/** What the API answered to a write. Throws `answer_malformed`. */
export function readMergeRequest(body: Uint8Array, host: string): PullRequest {
  return translateAnswer('a merge request', () => fromRest(read(schema.mergeRequest, readJson(body)), host));
}

export function referenceOf({
  key,
  repoId,
  identifier,
}: Pick<PullRequest, 'key' | 'repoId' | 'identifier'>): ItemReference {
  return { kind: 'pull_request', key, locator: { projectId: repoId, iid: identifier } };
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
      repoName: found.references && withoutNumber(found.references.full),
      description: found.description,
      author: found.author === null ? null : found.author?.username,
      labels: sorted(found.labels),
      assignees: usernames(found.assignees),
      reviewers: usernames(found.reviewers),
      headSha: found.sha,
      commitMessages: found.commit_messages,
      commitsSha: found.commit_messages && found.sha,
      url: found.web_url,
      mergedAt: found.merged_at,
    }),
  };
}

/** The author is there as a number only, and `user` is who acted: the author is absent. */
function fromHook(project: schema.HookProject, hook: schema.MergeRequestHook, host: string): PullRequest {
  const { object_attributes: attributes } = hook;
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

function identity(host: string, projectId: number, iid: number) {
  const repoId = String(projectId);
  const identifier = String(iid);
  const key = mergeRequestKey(host, repoId, identifier);
  return { kind: 'pull_request' as const, key, connector: 'gitlab', host, repoId, identifier };
}

export function mergeRequestKey(host: string, projectId: string, iid: string) {
  return pullRequestKey('gitlab', host, projectId, iid);
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
      state: given.state && STATES[given.state],
      rawState: given.state,
      title: given.title,
      draft: given.draft ?? given.work_in_progress,
      headBranch: given.source_branch,
      baseBranch: given.target_branch,
      createdAt: asInstant(given.created_at),
    }),
  };
}

/** `locked` is a merge in progress: absent, so the state that is held stays until it is known (GL5). */
const STATES: Readonly<Record<string, PullRequestState>> = { opened: 'open', closed: 'closed', merged: 'merged' };
