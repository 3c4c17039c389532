import { SyncError } from '../../errors/sync-error.ts';
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

/** The connector's own names of what polls and fetches bring. No webhook can be called so: they hold a dot. */
export const SHAPES = { list: 'pulls.list', pull: 'pulls.get', gone: 'pulls.gone' } as const;

const WITH_PULL_REQUEST = new Set([
  'pull_request',
  'pull_request_review',
  'pull_request_review_comment',
  'pull_request_review_thread',
]);

type Incoming = Pick<Delivery, 'source' | 'event' | 'body'>;

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function translate(delivery: Incoming, options: Options): Translation {
  const translateIt = delivery.source === 'webhook' ? ofWebhook(delivery.event) : ofRead(delivery.event);
  if (!translateIt) return { outcome: 'ignored', reason: 'event_not_followed' };
  return translateIt(readJson(delivery.body), options);
}

/** What `fetch` needs to get this item. */
export function reference(item: Item): ItemReference {
  const { repoId, repoName, identifier, host } = item as PullRequest;
  return referenceTo(host, { id: repoId, full_name: repoName ?? '' }, identifier);
}

type Translator = (payload: unknown, options: Options) => Translation;

function ofWebhook(event: string): Translator | undefined {
  if (WITH_PULL_REQUEST.has(event)) return pullRequestEvent;
  return event === 'issue_comment' ? issueComment : undefined;
}

/** Pages and fetched objects were asked for, so they are in scope, also under a repository's new name. */
function ofRead(event: string): Translator | undefined {
  if (event === SHAPES.list) return list;
  if (event === SHAPES.pull) return fetched;
  return event === SHAPES.gone ? gone : undefined;
}

/**
 * Every event that carries the pull request carries its state at that time, whatever its action. Reviews lack some
 * fields (`merged`, `draft` on older servers); those are absent.
 */
function pullRequestEvent(payload: unknown, options: Options): Translation {
  const event = read(schema.pullRequestEvent, payload);
  const item = toItem(event.pull_request, options.host, event.repository);
  if (!inScope(item.repoName, options)) return outOfScope;
  return itemsOrReferences([item], isWhole, reference);
}

/** The issue in this event has no branches: the pull request itself is fetched. */
function issueComment(payload: unknown, options: Options): Translation {
  const { issue, repository } = read(schema.issueCommentEvent, payload);
  if (!issue.pull_request) return { outcome: 'ignored', reason: 'not_a_pull_request' };
  if (!inScope(repository.full_name, options)) return outOfScope;
  return { outcome: 'references', references: [referenceTo(options.host, repository, issue.number)] };
}

function list(payload: unknown, options: Options): Translation {
  const pulls = read(schema.pullRequest.array(), payload);
  return itemsOrReferences(
    pulls.map((pull) => toItem(pull, options.host)),
    isWhole,
    reference,
  );
}

/** Taken as it is, also with fields absent: fetching once more would bring the same. */
function fetched(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: [toItem(read(schema.pullRequest, payload), options.host)] };
}

function gone(payload: unknown, options: Options): Translation {
  const { repository, number, seen_at } = read(schema.gone, payload);
  const item = { ...identity(options.host, repository, number), updatedAt: Date.parse(seen_at), gone: true };
  return { outcome: 'items', items: [item] };
}

const outOfScope: Translation = { outcome: 'ignored', reason: 'repository_not_in_scope' };

function inScope(name: string | undefined, { repositories }: Options): boolean {
  const wanted = name?.toLowerCase();
  return repositories.some((repository) => repository.toLowerCase() === wanted);
}

/** A payload that lacks one of these has drifted: what the API says of the object is asked for. */
function isWhole(item: PullRequest): boolean {
  return [item.state, item.title, item.headBranch, item.baseBranch].every((field) => field !== undefined);
}

function toItem(pull: schema.GithubPullRequest, host: string, eventRepository?: schema.GithubRepository): PullRequest {
  const repository = pull.base?.repo ?? eventRepository;
  if (!repository) throw new SyncError('delivery_malformed', 'the pull request names no repository');
  return {
    ...identity(host, repository, pull.number),
    updatedAt: Date.parse(pull.updated_at),
    ...present({
      url: pull.html_url,
      title: pull.title,
      description: pull.body,
      author: pull.user === null ? null : pull.user?.login,
      labels: sorted(pull.labels?.map((label) => label.name)),
      assignees: sorted(pull.assignees?.map((account) => account.login)),
      reviewers: reviewers(pull, repository),
      createdAt: pull.created_at,
      state: stateOf(pull),
      rawState: pull.state,
      draft: pull.draft,
      headBranch: pull.head?.ref,
      headSha: pull.head?.sha,
      baseBranch: pull.base?.ref,
      mergedAt: pull.merged_at,
    }),
  };
}

function identity(host: string, repository: schema.GithubRepository, number: number) {
  return {
    kind: 'pull_request' as const,
    key: pullRequestKey('github', host, String(repository.id), String(number)),
    connector: 'github',
    host,
    repoId: String(repository.id),
    repoName: repository.full_name,
    identifier: String(number),
  };
}

/** `merged` is missing in lists and reviews, `merged_at` is not: there is no other sign of a merge (§1.5). */
function stateOf(pull: schema.GithubPullRequest): PullRequestState | undefined {
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

function referenceTo(
  host: string,
  repository: { id: string | number; full_name: string },
  number: string | number,
): ItemReference {
  const repoId = String(repository.id);
  return {
    kind: 'pull_request',
    key: pullRequestKey('github', host, repoId, String(number)),
    locator: { repoId, repository: repository.full_name, number: String(number) },
  };
}
