import type { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { Delivery } from '../../model/delivery.ts';
import type { Item, ItemReference, PullRequest, PullRequestState, WorkItem } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present, sorted } from '../kit/fields.ts';
import { read, readable, readJson } from '../kit/json.ts';
import { itemsOrReferences } from '../kit/outcome.ts';
import { inScope } from '../kit/scope.ts';
import { issueIdentity, issueReference, pullIdentity, pullReference } from './identity.ts';
import { type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** The connector's own names of what polls and fetches bring. No webhook can be called so: they hold a dot. */
export const SHAPES = {
  list: 'pulls.list',
  pull: 'pulls.get',
  gone: 'pulls.gone',
  issues: 'issues.list',
  issue: 'issues.get',
  goneIssue: 'issues.gone',
} as const;

type Incoming = Pick<Delivery, 'source' | 'event' | 'body'>;
type Translator = (payload: unknown, options: Options) => Translation;

const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map<string, Translator>([
  ['ping', () => TEST_DELIVERY],
  ['pull_request', pullRequestEvent],
  ['pull_request_review', pullRequestEvent],
  ['pull_request_review_comment', pullRequestEvent],
  ['pull_request_review_thread', pullRequestEvent],
  ['issue_comment', issueComment],
  ['issues', issueEvent],
]);

/** Pages and fetched objects were asked for, so they are in scope, also under a repository's new name. */
const OF_READ: ReadonlyMap<string, Translator> = new Map([
  [SHAPES.list, list],
  [SHAPES.pull, fetched],
  [SHAPES.gone, gone],
  [SHAPES.issues, issueList],
  [SHAPES.issue, fetchedIssue],
  [SHAPES.goneIssue, goneIssue],
]);

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function translate(delivery: Incoming, options: Options): Translation {
  const translators = delivery.source === 'webhook' ? OF_WEBHOOK : OF_READ;
  const translateIt = translators.get(delivery.event);
  if (!translateIt) return { outcome: 'ignored', reason: 'event_not_followed' };
  return translateIt(readPayload(delivery.body), options);
}

const FORM = Buffer.from('payload=');

/** GitHub's dialog offers JSON, or a form with the same JSON in its one field; what is signed are the bytes of either. */
function readPayload(body: Uint8Array): unknown {
  if (!FORM.equals(body.subarray(0, FORM.length))) return readJson(body);
  return readJson(Buffer.from(new URLSearchParams(Buffer.from(body).toString('utf8')).get('payload') ?? ''));
}

/** What `fetch` needs to get this item. */
export function reference(item: Item): ItemReference {
  if (item.kind === 'pull_request')
    return pullReference(item.host, { id: item.repoId, full_name: item.repoName ?? '' }, item.identifier);
  const repository = { id: item.containerId, full_name: item.containerName ?? '' };
  const id = item.key.slice(item.key.lastIndexOf(':') + 1);
  return issueReference(item.host, repository, { id, number: item.identifier.replace('#', '') });
}

/**
 * Every event that carries the pull request carries its state at that time, whatever its action. Reviews lack some
 * fields (`merged`, `draft` on older servers); those are absent.
 */
function pullRequestEvent(payload: unknown, options: Options): Translation {
  const event = readable(schema.pullRequestEvent, payload);
  if (!event) return namedPull(payload, options);
  const item = toPull(event.pull_request, options.host, event.repository);
  const repository = event.repository ?? event.pull_request.base?.repo;
  if (!repository || !isFollowed(repository, options)) return outOfScope;
  return itemsOrReferences([item], isWholePull, reference);
}

/** A payload that has drifted, and still says which pull request it is about. */
function namedPull(payload: unknown, options: Options): Translation {
  const { pull_request: pull, ...event } = read(schema.namedPull, payload);
  const repository = pull.base?.repo ?? event.repository;
  const number = pull.number ?? event.number;
  if (!repository || number === undefined)
    throw new SyncError('delivery_malformed', 'pull_request: names no pull request of a repository');
  if (!isFollowed(repository, options)) return outOfScope;
  return { outcome: 'references', references: [pullReference(options.host, repository, number)] };
}

/**
 * An issue in this event has no branches: a pull request that is not known yet is fetched. Of one that is known this tells
 * all that a comment may have changed.
 */
function issueComment(payload: unknown, options: Options): Translation {
  const { issue, repository } = read(schema.issueCommentEvent, payload);
  if (!isFollowed(repository, options)) return outOfScope;
  if (!issue.pull_request) return options.issues ? issueAsCarried(payload, options) : notAPullRequest;
  const references = [pullReference(options.host, repository, issue.number)];
  const told = readable(schema.pullOfConversation, payload)?.issue;
  const item = told && pullOfConversation(told, options.host, repository);
  return item?.state === undefined
    ? { outcome: 'references', references }
    : { outcome: 'references', references, told: [item] };
}

/** What left its place is asked for, there and where it went: the event says nothing that the place itself does not. */
function issueEvent(payload: unknown, options: Options): Translation {
  if (!options.issues) return { outcome: 'ignored', reason: 'event_not_followed' };
  const { action, issue, repository } = read(schema.namedIssue, payload);
  const arrivals = action === 'transferred' ? arrivalOf(payload, options) : [];
  if (!isFollowed(repository, options))
    return arrivals.length === 0 ? outOfScope : { outcome: 'references', references: arrivals };
  if (action === 'deleted' || action === 'transferred')
    return { outcome: 'references', references: [issueReference(options.host, repository, issue), ...arrivals] };
  return issueAsCarried(payload, options);
}

/** The state that the event carries, whatever its action. */
function issueAsCarried(payload: unknown, { host }: Options): Translation {
  const event = readable(schema.issueEvent, payload);
  if (event) return itemsOrReferences([toIssue(event.issue, host, event.repository)], isWholeIssue, reference);
  const { issue, repository } = read(schema.namedIssue, payload);
  return { outcome: 'references', references: [issueReference(host, repository, issue)] };
}

function arrivalOf(payload: unknown, options: Options): readonly ItemReference[] {
  const told = readable(schema.transfer, payload);
  if (!told) return [];
  const { new_issue, new_repository } = told.changes;
  return isFollowed(new_repository, options) ? [issueReference(options.host, new_repository, new_issue)] : [];
}

function list(payload: unknown, options: Options): Translation {
  const pulls = read(schema.pullRequest.array(), payload);
  return itemsOrReferences(
    pulls.map((pull) => toPull(pull, options.host)),
    isWholePull,
    reference,
  );
}

/** Taken as it is, also with fields absent: fetching once more would bring the same. */
function fetched(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: [toPull(read(schema.fetchedPullRequest, payload), options.host)] };
}

function gone(payload: unknown, options: Options): Translation {
  const { repository, number, seen_at } = read(schema.gone, payload);
  const item = { ...pullIdentity(options.host, repository, number), updatedAt: Date.parse(seen_at), gone: true };
  return { outcome: 'items', items: [item] };
}

function issueList(payload: unknown, options: Options): Translation {
  const { repository, issues } = read(schema.issueList, payload);
  return itemsOrReferences(
    issues.map((issue) => toIssue(issue, options.host, repository)),
    isWholeIssue,
    reference,
  );
}

function fetchedIssue(payload: unknown, options: Options): Translation {
  const { repository, issue } = read(schema.oneIssue, payload);
  return { outcome: 'items', items: [toIssue(issue, options.host, repository)] };
}

function goneIssue(payload: unknown, options: Options): Translation {
  const { repository, seen_at, ...issue } = read(schema.goneIssue, payload);
  const item = { ...issueIdentity(options.host, repository, issue), updatedAt: Date.parse(seen_at), gone: true };
  return { outcome: 'items', items: [item] };
}

const TEST_DELIVERY = { outcome: 'ignored', reason: 'test_delivery' } as const;
const outOfScope: Translation = { outcome: 'ignored', reason: 'repository_not_in_scope' };
const notAPullRequest: Translation = { outcome: 'ignored', reason: 'not_a_pull_request' };

function isFollowed({ id, full_name, archived, fork }: schema.GithubRepository, options: Options): boolean {
  return inScope({ id: String(id), name: full_name, archived, fork }, scopeOf(options));
}

/** A payload that lacks one of these has drifted: what the API says of the object is asked for. */
function isWholePull(item: PullRequest): boolean {
  return [item.state, item.title, item.headBranch, item.baseBranch].every((field) => field !== undefined);
}

function isWholeIssue(item: WorkItem): boolean {
  return item.state !== undefined && item.title !== undefined;
}

/** Fields that pull requests and issues share. */
function common(thing: schema.GithubPullRequest | schema.GithubIssue) {
  return {
    url: thing.html_url,
    title: thing.title,
    description: thing.body,
    author: thing.user === null ? null : thing.user?.login,
    labels: sorted(thing.labels?.map((label) => (typeof label === 'string' ? label : label.name))),
    assignees: sorted(thing.assignees?.map((account) => account.login)),
    createdAt: thing.created_at,
  };
}

function toPull(pull: schema.GithubPullRequest, host: string, eventRepository?: schema.GithubRepository): PullRequest {
  const repository = pull.base?.repo ?? eventRepository;
  if (!repository) throw new SyncError('delivery_malformed', 'the pull request names no repository');
  return {
    ...pullIdentity(host, repository, pull.number),
    updatedAt: Date.parse(pull.updated_at),
    ...present({
      ...common(pull),
      reviewers: reviewers(pull, repository),
      state: stateOf(pull),
      rawState: pull.state,
      draft: pull.draft,
      headBranch: pull.head?.ref,
      headSha: pull.head?.sha,
      commitMessages: pull.commit_messages,
      commitsSha: pull.commit_messages && pull.head?.sha,
      baseBranch: pull.base?.ref,
      mergedAt: pull.merged_at,
    }),
  };
}

type Conversation = z.infer<typeof schema.pullOfConversation>['issue'];

function pullOfConversation(issue: Conversation, host: string, repository: schema.GithubRepository): PullRequest {
  const { pull_request: pull, state, draft } = issue;
  return {
    ...pullIdentity(host, repository, issue.number),
    updatedAt: Date.parse(issue.updated_at),
    ...present({
      ...common(issue),
      url: pull.html_url,
      state: stateOf({ state, merged: undefined, merged_at: pull.merged_at }),
      rawState: state,
      draft,
      mergedAt: pull.merged_at,
    }),
  };
}

/** `merged` is missing in lists and reviews, `merged_at` is not: there is no other sign of a merge (GH3). */
function stateOf(pull: Pick<schema.GithubPullRequest, 'state' | 'merged' | 'merged_at'>): PullRequestState | undefined {
  if (pull.merged === true || typeof pull.merged_at === 'string') return 'merged';
  if (pull.state !== 'closed') return pull.state;
  return pull.merged_at === undefined && pull.merged === undefined ? undefined : 'closed';
}

/** Logins, and teams as `owner/slug`. Half of the list is no list. */
function reviewers(pull: schema.GithubPullRequest, repository: schema.GithubRepository): string[] | undefined {
  if (!pull.requested_reviewers || !pull.requested_teams) return undefined;
  const owner = repository.full_name.split('/', 1)[0];
  return sorted([
    ...pull.requested_reviewers.map((account) => account.login),
    ...pull.requested_teams.map((team) => `${owner}/${team.slug}`),
  ]);
}

function toIssue(issue: schema.GithubIssue, host: string, repository: schema.GithubRepository): WorkItem {
  return {
    ...issueIdentity(host, repository, issue),
    updatedAt: Date.parse(issue.updated_at),
    ...present({
      ...common(issue),
      state: issue.state === undefined ? undefined : issue.state === 'closed' ? ('done' as const) : ('open' as const),
      rawState: rawStateOf(issue),
      type: issue.type === null ? null : issue.type?.name,
    }),
  };
}

/** `closed (not_planned)`: GitHub says why beside the state. */
function rawStateOf({ state, state_reason: reason }: schema.GithubIssue): string | undefined {
  return state === undefined || typeof reason !== 'string' ? state : `${state} (${reason})`;
}
