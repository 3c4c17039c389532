import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import {
  type Item,
  type PullRequest,
  type PullRequestState,
  type ReviewDecision,
  type WorkItem,
  workItemKey,
} from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { revertedCommit, revertedNumber } from '../kit/commits.ts';
import {
  type GitVendor,
  goneItemReader,
  type ItemIdentity,
  type Kind,
  referenceTo,
  translateItems,
} from '../kit/git.ts';
import {
  identityOf,
  NOT_FOLLOWED,
  outOfScope,
  pullIdentityOf,
  SCOPE_UNKNOWN,
  type ScopeUnknown,
  scopeUnknown,
} from '../kit/items.ts';
import { omitUndefined, read, readable, sorted } from '../kit/payload.ts';
import { inScope } from '../kit/scope.ts';
import { timeOf } from '../kit/walk.ts';
import { type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

export const MERGE_REQUESTS = 'merge_requests';
/** Issues, and the other kinds in the same list of GitLab: incidents, tasks (GL11). */
export const ISSUES = 'issues';

const number = z.string().regex(/^[1-9]\d{0,15}$/);
const locator = z.strictObject({ projectId: number, iid: number, id: number.optional(), isFollowed: scopeUnknown });

/** The parts by which to fetch an item: numbers that survive renaming and transfer, and for an issue its own id too. */
export interface Locator extends ScopeUnknown {
  readonly projectId: string;
  readonly iid: string;
  readonly id?: string | undefined;
}

const mergeRequests: Kind<Options, Locator> = {
  kind: 'pull_request',
  noun: MERGE_REQUESTS,
  order: 'since',
  isConditional: true,
  changedAt: (found) => timeOf(found, 'updated_at'),
  locator,
  locatorOf: ({ container: projectId, number: iid }) => ({ projectId, iid }),
  itemsOnPage: (page, { host }) =>
    read(schema.polledMergeRequest.array(), page).map((each) => toMergeRequest(each, host)),
  // One that lacks one of these has drifted, is being merged, or has images in its description.
  requiredFields: ['state', 'title', 'headBranch', 'baseBranch', 'description'],
  itemOf: (fetched, { host }) => pullOf(fetched, host),
  rowOfGone: ({ projectId, iid }, seenAt) => {
    return { project_id: Number(projectId), iid: Number(iid), seen_at: seenAt };
  },
  goneItemOf: goneItemReader(schema.gone, (row, { host }) => mergeRequestIdentity(host, row.project_id, row.iid)),
};

const issues: Kind<Options, Locator> = {
  ...mergeRequests,
  kind: 'work_item',
  noun: ISSUES,
  locator: locator.extend({ id: number }),
  locatorOf: (parts) => ({ ...mergeRequests.locatorOf(parts), id: parts.id }),
  itemsOnPage: (page, options) => read(schema.issue.array(), page).map((each) => toIssue(each, options)),
  requiredFields: ['state', 'title', 'description'],
  itemOf: (fetched, options) => toIssue(read(schema.issue, fetched), options),
  rowOfGone: (locator, seenAt) => ({ ...mergeRequests.rowOfGone(locator, seenAt), id: Number(locator.id) }),
  goneItemOf: goneItemReader(schema.goneIssue, (row, { host }) => issueIdentity(host, row.id, row.project_id, row.iid)),
};

export const kinds = [mergeRequests, issues] as const;

type Translator = (payload: unknown, options: Options) => Translation;

const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['Merge Request Hook', ofKind(['merge_request'], mergeRequestHook)],
  ['Note Hook', ofKind(['note'], noteHook)],
  ['System Hook', systemHook],
]);

const issueTranslator = ofKind(['issue', 'work_item'], issueHook);
const OF_ISSUE_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['Issue Hook', issueTranslator],
  ['Work Item Hook', issueTranslator],
  ['Confidential Issue Hook', issueTranslator],
  ['Confidential Note Hook', ofKind(['note'], noteHook)],
]);

export const parseWebhook: GitVendor<Options, Locator>['parseWebhook'] = (event, { issues: withIssues }) =>
  OF_WEBHOOK.get(event) ?? (withIssues ? OF_ISSUE_WEBHOOK.get(event) : undefined);

/** The body repeats the kind that the header names. A body with another kind, or none, comes from a custom template. */
function ofKind(kinds: readonly string[], translateIt: Translator): Translator {
  return (payload, options) => {
    const { object_kind: told } = read(schema.hookKind, payload);
    if (told !== undefined && kinds.includes(told)) return translateIt(payload, options);
    throw new SyncError('delivery_malformed', `object_kind: expected ${kinds.join(' or ')}`);
  };
}

/** A hook that an administrator made for a whole server. It sends merge requests in the same form as other hooks. */
function systemHook(payload: unknown, options: Options): Translation {
  const { object_kind: kind } = read(schema.hookKind, payload);
  return kind === 'merge_request' ? mergeRequestHook(payload, options) : NOT_FOLLOWED;
}

/** The event of a comment contains what the comment is on, without the names of its people. */
function noteHook(payload: unknown, options: Options): Translation {
  const { object_attributes, merge_request, issue } = read(schema.noteHook, payload);
  const on = object_attributes?.noteable_type ?? (merge_request ? 'MergeRequest' : issue ? 'Issue' : undefined);
  if (on === 'MergeRequest') return mergeRequestHook(payload, options, { object_attributes: merge_request });
  if (options.issues && (on === 'Issue' || on === 'WorkItem'))
    return issueHook(payload, options, { object_attributes: issue });
  return { outcome: 'ignored', reason: options.issues ? 'not_followed_there' : 'not_a_merge_request' };
}

/**
 * Every such event contains the merge request as it was at that time, whatever the action.
 *
 * @param hook the part of the payload about the merge request
 */
function mergeRequestHook(payload: unknown, options: Options, hook = payload): Translation {
  const { iid } = read(schema.namedMergeRequest, hook).object_attributes;
  const project = projectIn(payload);
  if (!project) throw new SyncError('delivery_malformed', 'project: names no project');
  const identity = mergeRequestIdentity(options.host, project.id, iid);
  const told = readable(schema.mergeRequestHook, hook);
  return judged(project, options, mergeRequests, identity, told && mergeRequestOf(identity, project, told));
}

function issueHook(payload: unknown, options: Options, hook = payload): Translation {
  const { id, iid } = read(schema.namedIssue, hook).object_attributes;
  const project = projectIn(payload);
  // Epics come by the same event, and belong to a group.
  if (!project) return { outcome: 'ignored', reason: 'not_in_a_project' };
  const identity = issueIdentity(options.host, id, project.id, iid);
  const told = readable(schema.issueHook, hook);
  return judged(
    project,
    options,
    issues,
    identity,
    told && !isRestricted(told, options) ? issueOf(identity, project, told, options) : undefined,
  );
}

/** The item, or a reference to it where the webhook cannot be read or does not tell whether its project is in scope. */
function judged(
  project: schema.HookProject,
  options: Options,
  kind: Kind<Options, Locator>,
  identity: ItemIdentity,
  item: Item | undefined,
): Translation {
  const followed = isFollowed(project, options);
  if (followed === false) return outOfScope('project');
  if (item && followed) return translateItems(kind, [item]);
  const reference = referenceTo(kind, identity);
  const locator = { ...reference.locator, ...(!followed && SCOPE_UNKNOWN) };
  return { outcome: 'references', references: [{ ...reference, locator }] };
}

/**
 * Whether a project is in scope, by its number and path alone: webhooks do not tell whether it is archived or a fork. Undefined
 * where a webhook does not tell the path, and the number does not decide.
 */
function isFollowed({ id, path_with_namespace: name }: schema.HookProject, options: Options): boolean | undefined {
  const scope = scopeOf(options);
  if (name !== undefined) return inScope({ id: String(id), name }, scope);
  if (scope.exclude.includes(String(id))) return false;
  return scope.exclude.length === 0 && scope.include.includes(String(id)) ? true : undefined;
}

export function isFetchedFollowed(found: unknown, options: Options): boolean {
  const { project_id: id, references } = read(schema.placedInList, found);
  return isFollowed({ id, path_with_namespace: references && withoutNumber(references.full) }, options) === true;
}

/** The project that a webhook is about, from any of the places that may name it; undefined for epics, which name none. */
function projectIn(payload: unknown): schema.HookProject | undefined {
  const told = readable(schema.placed, payload);
  if (!told) return undefined;
  const { project, object_attributes: own, merge_request: request, issue } = told;
  const ids = [
    project?.id,
    ...[request, issue, own].flatMap((each) => [each?.target_project_id, each?.project_id]),
    told.project_id,
  ];
  const id = ids.find((each) => each !== undefined);
  if (id === undefined) return undefined;
  const { id: _, ...facts } = { ...omitUndefined((request ?? own)?.target ?? {}), ...omitUndefined(project ?? {}) };
  return { id, ...facts };
}

export function mergeRequestIdentity(host: string, projectId: number, iid: number) {
  return pullIdentityOf('gitlab', host, { id: projectId }, iid);
}

export function issueIdentity(host: string, id: number, projectId: number, iid: number) {
  return identityOf('gitlab', host, { id: String(id), container: String(projectId), identifier: `#${iid}` });
}

/** A webhook shows a confidential issue whatever this credential may see, so intake fetches it first. */
function isRestricted({ confidential }: schema.ToldIssue, options: Options): boolean {
  return confidential === true && options.confidential;
}

/** A confidential issue is hidden unless the options ask for it: everybody in the workspace would read it. */
export function isHidden({ confidential }: { confidential?: boolean | undefined }, options: Options): boolean {
  return confidential === true && !options.confidential;
}

/** Reads what `fetch` writes, and what the API answers. Throws `delivery_malformed`. */
export function pullOf(content: unknown, host: string): PullRequest {
  return toMergeRequest(read(schema.fetchedMergeRequest, content), host);
}

function toMergeRequest(found: schema.GitlabMergeRequest, host: string): PullRequest {
  const { default_branch, visibility = '' } = found.project ?? {};
  const project = { ...projectOf(found), default_branch, visibility_level: VISIBILITY_LEVELS.get(visibility) };
  return mergeRequestOf(mergeRequestIdentity(host, found.project_id, found.iid), project, found);
}

function toIssue(found: schema.GitlabIssue, options: Options): WorkItem {
  const identity = issueIdentity(options.host, found.id, found.project_id, found.iid);
  return issueOf(identity, projectOf(found), found, options);
}

function projectOf({ project_id: id, references }: schema.GitlabMergeRequest | schema.GitlabIssue): schema.HookProject {
  return { id, path_with_namespace: references && withoutNumber(references.full) };
}

function mergeRequestOf(
  identity: ReturnType<typeof mergeRequestIdentity>,
  project: schema.HookProject,
  told: schema.ToldMergeRequest,
): PullRequest {
  return {
    ...identity,
    ...common(told, project),
    numberSign: '!',
    ...omitUndefined({
      repoName: project.path_with_namespace,
      state: told.state && STATES[told.state],
      draft: told.draft ?? told.work_in_progress,
      headBranch: told.source_branch,
      headSha: told.sha,
      commitMessages: told.commit_messages,
      commitsSha: told.commit_messages && told.sha,
      baseBranch: told.target_branch,
      reviewers: usernames(told.reviewers),
      reviewDecision: reviewDecision(told),
      isFork: told.source_project_id === undefined ? undefined : told.source_project_id !== project.id,
      defaultBranch: project.default_branch,
      reverts: revertedNumber(told.description, [told.description, REVERT_LINE]),
      revertsCommit: revertedCommit(told.description),
      mergeCommits: mergeCommitsOf(told),
      mergedAt: told.merged_at,
      phaseChangedAt: phaseChangeOf(told),
      reviewsReadAt: told.approvals && wholeSeconds(told.updated_at),
    }),
  };
}

/** Written by GitLab into the description of the merge request that its button makes (GL15). */
const REVERT_LINE = /^This reverts merge request !([1-9]\d{0,15})\b/m;

function mergeCommitsOf({ merge_commit_sha: merge, squash_commit_sha: squash }: schema.ToldMergeRequest) {
  const hashes = [merge ?? [], squash ?? []].flat();
  return hashes.length === 0 ? undefined : hashes;
}

function phaseChangeOf({
  changesPhase,
  updated_at: at,
}: schema.ToldMergeRequest | schema.ToldIssue): string | undefined {
  return changesPhase && new Date(wholeSeconds(at)).toISOString();
}

const REVIEW_STATES = ['unreviewed', 'review_started', 'reviewed', 'requested_changes', 'approved', 'unapproved'];

/**
 * The decision by the states of the reviewers and by the reason that forbids the merge, never by the action (GL14). Undefined if
 * neither decides.
 */
function reviewDecision(told: schema.ToldMergeRequest): ReviewDecision | undefined {
  const states = told.reviewers?.map(({ state }) => state ?? '').filter((state) => REVIEW_STATES.includes(state)) ?? [];
  const reason = told.detailed_merge_status;
  if (states.includes('requested_changes') || reason === 'requested_changes') return { state: 'changes' };
  if (reason === 'not_approved') return { state: 'none' };
  if (told.approvals) return approvedBy(told.approvals.approved_by);
  if (states.includes('approved')) return { state: 'approved' };
  return states.length > 0 || told.systemAction === 'approvals_reset_on_push' ? { state: 'none' } : undefined;
}

function approvedBy(all: z.infer<typeof schema.approvals>['approved_by']): ReviewDecision {
  if (all.length === 0) return { state: 'none' };
  const times = all.flatMap(({ approved_at: at }) => (at ? Date.parse(at) : []));
  return { state: 'approved', ...(times.length > 0 && { at: new Date(Math.max(...times)).toISOString() }) };
}

/** Likewise. An issue that is hidden counts as gone: worksync takes nothing of its content. */
function issueOf(
  identity: ReturnType<typeof issueIdentity>,
  project: schema.HookProject,
  told: schema.ToldIssue,
  options: Options,
): WorkItem {
  if (isHidden(told, options)) return { ...identity, updatedAt: wholeSeconds(told.updated_at), gone: true };
  return {
    ...identity,
    ...common(told, project),
    ...omitUndefined({
      containerName: project.path_with_namespace,
      state: told.state && ISSUE_STATES[told.state],
      isDropped: isDropped(told),
      movedTo: told.moved_to_id == null ? undefined : workItemKey('gitlab', options.host, String(told.moved_to_id)),
      // `Test Case` in webhooks, `test_case` or `TEST_CASE` in the API.
      phaseChangedAt: phaseChangeOf(told),
      type: (told.issue_type ?? told.type)?.toLowerCase().replaceAll(' ', '_'),
    }),
  };
}

/** GitLab reports only which closed issues are duplicates (GL17). Undefined for all other closed ones. */
function isDropped({ state, duplicated_to_id: id, _links: links }: schema.ToldIssue): boolean | undefined {
  if (state === 'opened') return false;
  return state === 'closed' && (id ?? links?.closed_as_duplicate_of) ? true : undefined;
}

const ISSUE_STATES = { opened: 'open', closed: 'done' } as const;
/** Without `locked`, a merge in progress: the state is then absent, and the stored one stays until a fetch (GL5). */
const STATES: Readonly<Record<string, PullRequestState>> = { opened: 'open', closed: 'closed', merged: 'merged' };

function common(told: schema.ToldMergeRequest | schema.ToldIssue, project: schema.HookProject) {
  return {
    updatedAt: wholeSeconds(told.updated_at),
    ...omitUndefined({
      title: told.title,
      description: told.description,
      rawState: told.state,
      author: told.author === null ? null : told.author?.username,
      labels: sorted(told.labels),
      assignees: usernames(told.assignees),
      url: told.web_url,
      isCreation: told.isCreation,
      createdAt: told.created_at && inWholeSeconds(told.created_at),
      closedAt: closedAt(told),
      isPublic: VISIBILITY.get(project.visibility_level),
      isBot: BOT.test(told.author?.username ?? told.authorName ?? '') ? true : undefined,
    }),
  };
}

/** Private, internal and public projects. */
const VISIBILITY: ReadonlyMap<number | undefined, boolean> = new Map([
  [0, false],
  [10, false],
  [20, true],
]);
/** Visibility levels by their names in the API. */
const VISIBILITY_LEVELS: ReadonlyMap<string, number> = new Map([
  ['private', 0],
  ['internal', 10],
  ['public', 20],
]);

/** The usernames that GitLab gives to access tokens and service accounts, which may have other names too (GL16). */
const BOT = /^(?:(?:project|group)_\d+_bot(?:\d*|_[0-9a-f]+)|service_account_(?:group_\d+_)?[0-9a-f]{16,})$/;

/** Webhooks contain no time of a merge, which is the time of its closing too. */
function closedAt(told: schema.ToldMergeRequest | schema.ToldIssue): string | null | undefined {
  const time = 'merged_at' in told ? (told.merged_at ?? told.closed_at) : told.closed_at;
  if (told.state === 'opened') return time === undefined ? undefined : null;
  return time == null ? undefined : inWholeSeconds(time);
}

function inWholeSeconds(time: string): string {
  return new Date(wholeSeconds(time)).toISOString();
}

/**
 * Webhooks write whole seconds, the API milliseconds. Compared as they are, an answer read early in a second would count as
 * newer than the webhook of a later change in the same second. In whole seconds both are equal, and intake fetches the item.
 */
function wholeSeconds(instant: string): number {
  return Math.floor(Date.parse(instant) / 1_000) * 1_000;
}

function usernames(accounts: readonly { readonly username: string }[] | undefined): string[] | undefined {
  return sorted(accounts?.map(({ username }) => username));
}

/** `acme/api!12` and `acme/api#45` → `acme/api` */
export function withoutNumber(reference: string): string {
  return reference.replace(/[!#]\d+$/, '');
}
