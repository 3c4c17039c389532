import { SyncError } from '../../errors/sync-error.ts';
import type { Delivery } from '../../model/delivery.ts';
import {
  type Item,
  type ItemKey,
  type ItemReference,
  type PullRequest,
  type PullRequestState,
  pullRequestKey,
} from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present, sorted } from '../kit/fields.ts';
import { read, readable, readJson } from '../kit/json.ts';
import { itemsOrReferences } from '../kit/outcome.ts';
import { inScope } from '../kit/scope.ts';
import { HOST, type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** The connector's own names of what polls and fetches bring. No webhook can be called so: they hold a dot. */
export const SHAPES = { list: 'pullrequests.list', pull: 'pullrequests.get', gone: 'pullrequests.gone' } as const;

/** Declined and superseded requests are final: neither can be opened again (BB4). */
const STATES: ReadonlyMap<string, PullRequestState> = new Map([
  ['OPEN', 'open'],
  ['MERGED', 'merged'],
  ['DECLINED', 'declined'],
  ['SUPERSEDED', 'declined'],
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
  const { key, repoId, repoName, identifier } = item as PullRequest;
  return { kind: 'pull_request', key, locator: { repoId, repository: repoName ?? '', number: identifier } };
}

type Translator = (payload: unknown, options: Options) => Translation;

/** Keys of tomorrow carry the pull request like all others of today. */
function ofWebhook(event: string): Translator | undefined {
  if (event === TEST_EVENT) return () => ({ outcome: 'ignored', reason: 'test_delivery' });
  return event.startsWith('pullrequest:') ? pullRequestEvent : undefined;
}

/** What Bitbucket's button for a test sends, where an installation has one. */
const TEST_EVENT = 'diagnostics:ping';

/** Pages and fetched objects were asked for, so they are in scope, also under a repository's new name. */
function ofRead(event: string): Translator | undefined {
  if (event === SHAPES.list) return list;
  if (event === SHAPES.pull) return fetched;
  return event === SHAPES.gone ? gone : undefined;
}

/** The state that an event carries counts, not what the event is about. */
function pullRequestEvent(payload: unknown, options: Options): Translation {
  const { pullrequest: named, repository } = read(schema.namedPull, payload);
  const destination = named.destination?.repository ?? repository;
  if (!destination) throw new SyncError('delivery_malformed', 'the pull request names no repository');
  const { uuid: id, full_name: name } = destination;
  const isFork = Boolean(repository?.parent ?? destination.parent);
  if (!inScope({ id, name, fork: isFork }, scopeOf(options)))
    return { outcome: 'ignored', reason: 'repository_not_in_scope' };
  const event = readable(schema.pullRequestEvent, payload);
  if (event) return itemsOrReferences([toItem(event.pullrequest, repository)], isWhole, reference);
  // It has drifted, and still says which pull request it is about.
  const { key } = identity(destination, named.id);
  const locator = { repoId: id, repository: name, number: String(named.id) };
  return { outcome: 'references', references: [{ kind: 'pull_request', key, locator }] };
}

function list(payload: unknown): Translation {
  return itemsOrReferences(
    read(schema.page, payload).values.map((pull) => toItem(pull)),
    isWhole,
    reference,
  );
}

/** Taken as it is, also with fields absent: fetching once more would bring the same. */
function fetched(payload: unknown): Translation {
  return { outcome: 'items', items: [toItem(read(schema.fetchedPullRequest, payload))] };
}

function gone(payload: unknown): Translation {
  const { repository, id, seen_at } = read(schema.gone, payload);
  return { outcome: 'items', items: [{ ...identity(repository, id), updatedAt: Date.parse(seen_at), gone: true }] };
}

/** A payload that lacks one of these has drifted: what the API says of the object is asked for. */
function isWhole(item: PullRequest): boolean {
  return [item.state, item.title, item.headBranch, item.baseBranch].every((field) => field !== undefined);
}

/**
 * There are no labels, no assignees and no time of merging. `mergedAt` is absent in every state: were it null while
 * open, that null would outlive the merge, which cannot say the time.
 */
function toItem(pull: schema.BitbucketPullRequest, eventRepository?: schema.BitbucketRepository): PullRequest {
  const repository = pull.destination?.repository ?? eventRepository;
  if (!repository) throw new SyncError('delivery_malformed', 'the pull request names no repository');
  return {
    ...identity(repository, pull.id),
    updatedAt: pull.updated_on.at,
    version: pull.updated_on.micros,
    ...present({
      url: pull.links?.html.href,
      title: pull.title,
      description: pull.description,
      author: pull.author === null ? null : pull.author?.uuid,
      reviewers: sorted(pull.reviewers?.map((account) => account.uuid)),
      createdAt: pull.created_on && new Date(pull.created_on.at).toISOString(),
      state: pull.state === undefined ? undefined : STATES.get(pull.state),
      rawState: pull.state,
      draft: pull.draft,
      headBranch: pull.source?.branch?.name,
      headSha: pull.source?.commit?.hash,
      commitMessages: pull.commit_messages,
      commitsSha: pull.commit_messages && pull.source?.commit?.hash,
      baseBranch: pull.destination?.branch?.name,
    }),
  };
}

export function keyOf(repoId: string, number: number): ItemKey {
  return pullRequestKey('bitbucket', HOST, repoId, String(number));
}

/** Numbers are unique within a repository only, so the repository's id is part of the key. */
function identity(repository: schema.BitbucketRepository, number: number) {
  return {
    kind: 'pull_request' as const,
    key: keyOf(repository.uuid, number),
    connector: 'bitbucket',
    host: HOST,
    repoId: repository.uuid,
    repoName: repository.full_name,
    identifier: String(number),
  };
}
