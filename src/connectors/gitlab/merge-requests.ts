import { type ItemReference, type PullRequest, type PullRequestState, pullRequestKey } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present, sorted } from '../kit/fields.ts';
import { read, readJson, translateAnswer } from '../kit/json.ts';
import { itemsOrReferences } from '../kit/outcome.ts';
import { asInstant, asWritten, isFollowed, people, usernames, wholeSeconds, withoutNumber } from './common.ts';
import type { Options } from './options.ts';
import * as schema from './schema.ts';

/** Every such event carries the state of the merge request at that time, whatever its action. */
export function mergeRequestHook(payload: unknown, options: Options): Translation {
  return ofHook(read(schema.mergeRequestHook, payload), options);
}

/** A comment on a merge request carries it, without the names of the people. */
export function noteOnMergeRequest(payload: unknown, options: Options): Translation {
  const { project, merge_request } = read(schema.mergeRequestNoteHook, payload);
  return ofHook({ project, object_attributes: merge_request }, options);
}

function ofHook(hook: schema.MergeRequestHook, options: Options): Translation {
  if (!isFollowed(hook.project, options)) return { outcome: 'ignored', reason: 'project_not_in_scope' };
  return itemsOrReferences([fromHook(hook, options.host)], isWhole, referenceOf);
}

export function mergeRequestList(payload: unknown, options: Options): Translation {
  const found = read(schema.mergeRequest.array(), payload).map((each) => fromRest(each, options.host));
  return itemsOrReferences(found, isWhole, referenceOf);
}

/** Taken as it is, also with fields absent: fetching once more would bring the same. */
export function fetchedMergeRequest(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: [fromRest(read(schema.fetchedMergeRequest, payload), options.host)] };
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

export function referenceOf({ key, repoId, identifier }: PullRequest): ItemReference {
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

/** `locked` is a merge in progress: absent, so the state that is held stays until it is known (§2.5). */
const STATES: Readonly<Record<string, PullRequestState>> = { opened: 'open', closed: 'closed', merged: 'merged' };
