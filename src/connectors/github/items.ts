import type { WebhookEventName } from '@octokit/webhooks/types';
import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import type { Item, ItemReference, PullRequest, PullRequestState, ReviewState, WorkItem } from '../../model/item.ts';
import { escapePattern } from '../../platform/lib/text.ts';
import type { Translation } from '../connector.ts';
import { revertedCommit, revertedNumber } from '../kit/commits.ts';
import { type GitVendor, goneItemReader, type Kind, referenceTo, translateItems } from '../kit/git.ts';
import { identityOf, NOT_FOLLOWED, outOfScope, pullIdentityOf, type ScopeUnknown } from '../kit/items.ts';
import { omitUndefined, read, readable, readJson, sorted } from '../kit/payload.ts';
import { inScope } from '../kit/scope.ts';
import { timeOf } from '../kit/walk.ts';
import { type Options, REPOSITORY, scopeOf } from './options.ts';
import * as schema from './schema.ts';

export const PULLS = 'pulls';
export const ISSUES = 'issues';

const number = z.string().regex(/^\d{1,16}$/);
const locator = z.object({ repoId: number, repository: z.string().regex(REPOSITORY), number });

/** The parts by which to fetch an item: its number, and for an issue its own id too. */
export type Locator = z.infer<typeof locator> & ScopeUnknown & { readonly id?: string | undefined };

const pulls: Kind<Options, Locator> = {
  kind: 'pull_request',
  noun: PULLS,
  order: 'newest first',
  isConditional: true,
  changedAt: (pull) => timeOf(pull, 'updated_at'),
  locator,
  locatorOf: ({ container: repoId, name: repository, number }) => ({ repoId, repository, number }),
  itemsOnPage: (page, { host }) => read(schema.pullRequest.array(), page).map((pull) => toPull(pull, host)),
  requiredFields: ['state', 'title', 'headBranch', 'baseBranch'],
  itemOf: (fetched, { host }) => pullOf(fetched, host),
  rowOfGone: ({ repoId, repository, number }, seenAt) => ({
    repository: { id: Number(repoId), full_name: repository },
    number: Number(number),
    seen_at: seenAt,
  }),
  goneItemOf: goneItemReader(schema.gone, ({ repository, number }, { host }) => pullIdentity(host, repository, number)),
};

const issues: Kind<Options, Locator> = {
  ...pulls,
  kind: 'work_item',
  noun: ISSUES,
  order: 'since',
  locator: locator.extend({ id: number }),
  locatorOf: (parts) => ({ ...pulls.locatorOf(parts), id: parts.id }),
  itemsOnPage(page, { host }) {
    const { repository, issues } = read(schema.issueList, page);
    return issues.map((issue) => toIssue(issue, host, repository));
  },
  requiredFields: ['state', 'title'],
  itemOf(fetched, { host }) {
    const { repository, issue } = read(schema.oneIssue, fetched);
    return toIssue(issue, host, repository);
  },
  rowOfGone: (locator, seenAt) => ({ ...pulls.rowOfGone(locator, seenAt), id: Number(locator.id) }),
  goneItemOf: goneItemReader(schema.goneIssue, (row, { host }) => issueIdentity(host, row.repository, row)),
};

export const kinds = [pulls, issues] as const;

const references = (...all: readonly ItemReference[]) => ({ outcome: 'references' as const, references: all });

type Translator = (payload: unknown, options: Options) => Translation;

const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map<WebhookEventName, Translator>([
  ['ping', () => ({ outcome: 'ignored', reason: 'test_delivery' })],
  ['pull_request', pullRequestEvent],
  ['pull_request_review', pullRequestEvent],
  ['pull_request_review_comment', pullRequestEvent],
  ['pull_request_review_thread', pullRequestEvent],
  ['issue_comment', issueComment],
  ['issues', issueEvent],
]);

export const parseWebhook: GitVendor<Options, Locator>['parseWebhook'] = (event) => OF_WEBHOOK.get(event);

const FORM = Buffer.from('payload=');

/** A webhook of GitHub sends JSON, or a form with the same JSON in its one field. GitHub signs the bytes that it sends. */
export function payloadOf(body: Uint8Array): unknown {
  if (!FORM.equals(body.subarray(0, FORM.length))) return readJson(body);
  return readJson(Buffer.from(new URLSearchParams(Buffer.from(body).toString('utf8')).get('payload') ?? ''));
}

const NOT_IN_SCOPE = outOfScope('repository');

/**
 * Every event that contains the pull request contains its state at that time, whatever the action. Reviews lack some fields
 * (`merged`, `draft` on older servers); those are absent from the item.
 */
function pullRequestEvent(payload: unknown, options: Options): Translation {
  const event = readable(schema.pullRequestEvent, payload);
  if (!event) return namedPull(payload, options);
  const item = toPull(event.pull_request, options.host, event.repository);
  // The one that the item is of: a payload may name two.
  const repository = event.pull_request.base?.repo ?? event.repository;
  if (!repository || !isFollowed(repository, options)) return NOT_IN_SCOPE;
  const { action, review } = event;
  const reported = { ...queuedBy(action), ...phaseChange(action, item), ...(review && reviewsIn([review])) };
  return translateItems(pulls, [{ ...item, ...asCreation(action), ...reported }]);
}

/** Actions that report the time of a change which no field contains. */
const PHASE_CHANGES: ReadonlySet<string> = new Set([
  'converted_to_draft',
  'ready_for_review',
  'review_requested',
  'review_request_removed',
  'enqueued',
  'dequeued',
  'reopened',
]);

function phaseChange(action: string | undefined, { updatedAt }: Item): Pick<Item, 'phaseChangedAt'> {
  return PHASE_CHANGES.has(action ?? '') ? { phaseChangedAt: new Date(updatedAt).toISOString() } : {};
}

/** Only these events report the merge queue (GH13). */
function queuedBy(action: string | undefined): Pick<PullRequest, 'isQueued'> {
  return action === 'enqueued' || action === 'dequeued' ? { isQueued: action === 'enqueued' } : {};
}

const REVIEW_STATES: ReadonlyMap<string, ReviewState> = new Map([
  ['approved', 'approved'],
  ['changes_requested', 'changes'],
  ['commented', 'commented'],
  ['dismissed', 'dismissed'],
]);

/** GitHub shows what deleted accounts did as done by this one. */
const GHOST = 'ghost';

/** The reviews that an event or a list reports, whatever the action. The list has their states in upper case. */
function reviewsIn(all: readonly schema.GithubReview[]): Pick<PullRequest, 'reviews'> {
  const reviews = all.flatMap(({ id, user, submitted_at: at, author_association: association, ...review }) => {
    const state = REVIEW_STATES.get(review.state.toLowerCase());
    if (!at || !state) return [];
    const entry = { reviewer: user?.login ?? GHOST, state, at };
    return [[String(id), { ...entry, ...omitUndefined({ isMember: isMember(association) }) }] as const];
  });
  return reviews.length === 0 ? {} : { reviews: Object.fromEntries(reviews) };
}

/** Reads from a payload that has drifted at least which pull request it is about. */
function namedPull(payload: unknown, options: Options): Translation {
  const { pull_request: pull, ...event } = read(schema.namedPull, payload);
  const repository = pull.base?.repo ?? event.repository;
  const number = pull.number ?? event.number;
  if (!repository || number === undefined)
    throw new SyncError('delivery_malformed', 'pull_request: names no pull request of a repository');
  if (!isFollowed(repository, options)) return NOT_IN_SCOPE;
  return references(referenceTo(pulls, pullIdentity(options.host, repository, number)));
}

/**
 * The event describes a pull request as an issue, without branches: intake fetches one that worksync does not know. For one
 * that it knows, the event contains all that a comment may have changed.
 */
function issueComment(payload: unknown, options: Options): Translation {
  const { issue, repository } = read(schema.issueCommentEvent, payload);
  if (!isFollowed(repository, options)) return NOT_IN_SCOPE;
  if (!issue.pull_request)
    return options.issues ? issueAsCarried(payload, options) : { outcome: 'ignored', reason: 'not_a_pull_request' };
  const conversation = readable(schema.pullOfConversation, payload)?.issue;
  const item = conversation && pullOfConversation(conversation, options.host, repository);
  const needed = references(referenceTo(pulls, pullIdentity(options.host, repository, issue.number)));
  return item?.state === undefined ? needed : { ...needed, partialItems: [item] };
}

/** A transferred issue is fetched in both places, and names the new one; a deleted one is fetched in its place. */
function issueEvent(payload: unknown, options: Options): Translation {
  if (!options.issues) return NOT_FOLLOWED;
  const { action, issue, repository } = read(schema.namedIssue, payload);
  const arrival = action === 'transferred' ? arrivalOf(payload, options) : undefined;
  const arrivals = arrival === undefined ? [] : [arrival];
  if (!isFollowed(repository, options)) return arrivals.length === 0 ? NOT_IN_SCOPE : references(...arrivals);
  const here = issueReference(options.host, repository, issue);
  const moved = arrival && readable(schema.issueEvent, payload);
  if (moved) {
    const item = { ...toIssue(moved.issue, options.host, moved.repository), movedTo: arrival.key };
    return { outcome: 'items', items: [item], references: [here, arrival] };
  }
  const transferred = action === 'transferred' ? readable(schema.issueEvent, payload) : undefined;
  const place = transferred && readable(schema.transfer, payload)?.changes.new_repository.full_name;
  if (transferred && place !== undefined)
    return {
      ...references(here),
      partialItems: [{ ...toIssue(transferred.issue, options.host, transferred.repository), movedAway: place }],
    };
  if (action === 'deleted' || action === 'transferred') return references(here, ...arrivals);
  return issueAsCarried(payload, options);
}

/** The issue as the event contains it, whatever the action. */
function issueAsCarried(payload: unknown, { host }: Options): Translation {
  const event = readable(schema.issueEvent, payload);
  if (event) {
    const item = toIssue(event.issue, host, event.repository);
    return translateItems(issues, [{ ...item, ...asCreation(event.action), ...phaseChange(event.action, item) }]);
  }
  const { issue, repository } = read(schema.namedIssue, payload);
  return references(issueReference(host, repository, issue));
}

/** GitHub reports whole seconds, in which a pull request is opened and labelled. */
function asCreation(action: string | undefined) {
  return action === 'opened' ? { isCreation: true } : {};
}

/** Undefined where the new place is not followed. */
function arrivalOf(payload: unknown, options: Options): ItemReference | undefined {
  const changes = readable(schema.transfer, payload)?.changes;
  return changes && isFollowed(changes.new_repository, options)
    ? issueReference(options.host, changes.new_repository, changes.new_issue)
    : undefined;
}

function isFollowed({ id, full_name, archived, fork }: schema.GithubRepository, options: Options): boolean {
  return inScope({ id: String(id), name: full_name, archived, fork }, scopeOf(options));
}

function issueReference(host: string, repository: schema.GithubRepository, issue: { id: number; number: number }) {
  return referenceTo(issues, issueIdentity(host, repository, issue));
}

type Named = Pick<schema.GithubRepository, 'id' | 'full_name'>;

export function pullIdentity(host: string, { id, full_name: name }: Named, number: number) {
  return pullIdentityOf('github', host, { id, name }, number);
}

/** Identifies an issue by its own id, which is unique on its host. A transfer gives the issue a new id. */
export function issueIdentity(host: string, repository: Named, { id, number }: { id: number; number: number }) {
  const parts = { id: String(id), container: String(repository.id), identifier: `#${number}` };
  return { ...identityOf('github', host, parts), containerName: repository.full_name };
}

function common(thing: schema.GithubPullRequest | schema.GithubIssue, { private: isPrivate }: schema.GithubRepository) {
  return {
    url: thing.html_url,
    title: thing.title,
    description: thing.body,
    author: thing.user === null ? null : thing.user?.login,
    labels: sorted(thing.labels?.map((label) => (typeof label === 'string' ? label : label.name))),
    assignees: sorted(thing.assignees?.map((account) => account.login)),
    createdAt: thing.created_at,
    closedAt: thing.closed_at,
    isPublic: isPrivate === undefined ? undefined : !isPrivate,
    isBot: isBot(thing.user),
    isAuthorMember: isMember(thing.author_association),
  };
}

function isBot(user: schema.GithubIssue['user']): boolean | undefined {
  if (user?.login.endsWith('[bot]')) return true;
  return user?.type === undefined ? undefined : user.type === 'Bot';
}

/** Never false, because GitHub calls members who hide their membership contributors (GH11). */
function isMember(association: string | undefined): true | undefined {
  return association !== undefined && ['OWNER', 'MEMBER', 'COLLABORATOR'].includes(association) ? true : undefined;
}

/** Reads what `fetch` writes, and what the API answers. Throws `delivery_malformed`. */
export function pullOf(content: unknown, host: string): PullRequest {
  return toPull(read(schema.fetchedPullRequest, content), host);
}

function toPull(pull: schema.GithubPullRequest, host: string, eventRepository?: schema.GithubRepository): PullRequest {
  const repository = pull.base?.repo ?? eventRepository;
  if (!repository) throw new SyncError('delivery_malformed', 'the pull request names no repository');
  return {
    ...pullIdentity(host, repository, pull.number),
    updatedAt: Date.parse(pull.updated_at),
    ...omitUndefined({
      ...common(pull, repository),
      reviewers: reviewers(pull, repository),
      state: stateOf(pull),
      rawState: pull.state,
      draft: pull.draft,
      headBranch: pull.head?.ref,
      headSha: pull.head?.sha,
      commitMessages: pull.commit_messages,
      commitsSha: pull.commit_messages && pull.head?.sha,
      baseBranch: pull.base?.ref,
      defaultBranch: repository.default_branch,
      isFork: isFork(pull, repository),
      reverts: revertedBy(pull.body, repository, pull.head?.ref),
      revertsCommit: revertedCommit(pull.body),
      mergeCommits: stateOf(pull) === 'merged' && pull.merge_commit_sha ? [pull.merge_commit_sha] : undefined,
      mergedAt: pull.merged_at,
      reviewsReadAt: pull.reviews && Date.parse(pull.updated_at),
    }),
    ...(pull.reviews && reviewsIn(pull.reviews)),
  };
}

type Conversation = z.infer<typeof schema.pullOfConversation>['issue'];

function pullOfConversation(issue: Conversation, host: string, repository: schema.GithubRepository): PullRequest {
  const { pull_request: pull, state, draft } = issue;
  return {
    ...pullIdentity(host, repository, issue.number),
    updatedAt: Date.parse(issue.updated_at),
    ...omitUndefined({
      ...common(issue, repository),
      url: pull.html_url,
      state: stateOf({ state, merged: undefined, merged_at: pull.merged_at }),
      rawState: state,
      draft,
      reverts: revertedBy(issue.body, repository, undefined),
      mergedAt: pull.merged_at,
    }),
  };
}

function isFork({ head }: schema.GithubPullRequest, { id }: schema.GithubRepository): boolean | undefined {
  return head?.repo === undefined ? undefined : head.repo?.id !== id;
}

/** GitHub's button makes the branch, and writes `Reverts acme/api#12` into the description (GH12). */
function revertedBy(body: string | null | undefined, { full_name: name }: Named, branch: string | undefined) {
  const line = new RegExp(`^Reverts ${escapePattern(name)}#([1-9]\\d{0,15})[ \\t]*$`, 'im');
  return revertedNumber(body, [body, line], [branch, /^revert-([1-9]\d{0,15})-/]);
}

/** Lists and reviews lack `merged`; there `merged_at` is the only sign of a merge (GH3). */
function stateOf(pull: Pick<schema.GithubPullRequest, 'state' | 'merged' | 'merged_at'>): PullRequestState | undefined {
  if (pull.merged === true || typeof pull.merged_at === 'string') return 'merged';
  if (pull.state !== 'closed') return pull.state;
  return pull.merged_at === undefined && pull.merged === undefined ? undefined : 'closed';
}

/** Logins, and teams as `owner/slug`. Undefined where the payload lacks one of the two lists, or the name of a team. */
function reviewers(pull: schema.GithubPullRequest, repository: schema.GithubRepository): string[] | undefined {
  if (!pull.requested_reviewers || !pull.requested_teams) return undefined;
  const owner = repository.full_name.split('/', 1)[0];
  const names = [...pull.requested_reviewers, ...pull.requested_teams].map((each) => {
    if ('login' in each) return each.login;
    return each.slug && `${owner}/${each.slug}`;
  });
  return names.every((name) => name !== undefined) ? sorted(names) : undefined;
}

function toIssue(issue: schema.GithubIssue, host: string, repository: schema.GithubRepository): WorkItem {
  return {
    ...issueIdentity(host, repository, issue),
    updatedAt: Date.parse(issue.updated_at),
    ...omitUndefined({
      ...common(issue, repository),
      state: issue.state === undefined ? undefined : issue.state === 'closed' ? ('done' as const) : ('open' as const),
      isDropped: isDropped(issue),
      rawState: rawStateOf(issue),
      type: issue.type === null ? null : issue.type?.name,
    }),
  };
}

/** Undefined for a closed issue without a reason that worksync knows. */
function isDropped({ state, state_reason: reason }: schema.GithubIssue): boolean | undefined {
  if (state === 'open') return false;
  if (state === undefined || reason === undefined) return undefined;
  if (reason === 'not_planned' || reason === 'duplicate') return true;
  return reason === null || reason === 'completed' ? false : undefined;
}

/** `closed (not_planned)`: the state, and the reason that GitHub gives for it. */
function rawStateOf({ state, state_reason: reason }: schema.GithubIssue): string | undefined {
  return state === undefined || typeof reason !== 'string' ? state : `${state} (${reason})`;
}
