import type { Delivery } from '../../model/delivery.ts';
import type { Item, ItemReference } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { read, readJson } from '../kit/json.ts';
import * as issues from './issues.ts';
import * as mergeRequests from './merge-requests.ts';
import type { Options } from './options.ts';
import * as schema from './schema.ts';

/** The connector's own names of what polls and fetches bring, by the list that it stands in. */
export const SHAPES = {
  merge_requests: {
    list: 'merge_requests.list',
    one: 'merge_requests.get',
    gone: 'merge_requests.gone',
  },
  issues: {
    list: 'issues.list',
    one: 'issues.get',
    gone: 'issues.gone',
  },
} as const;

type Translator = (payload: unknown, options: Options) => Translation;

const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['Merge Request Hook', mergeRequests.mergeRequestHook],
  ['Note Hook', noteHook],
]);

const OF_ISSUE_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['Issue Hook', issues.issueHook],
  ['Work Item Hook', issues.issueHook],
  ['Confidential Issue Hook', issues.issueHook],
  ['Confidential Note Hook', noteHook],
]);

/** Pages and fetched objects were asked for, so they are in scope, also under a project's new path. */
const OF_READ: ReadonlyMap<string, Translator> = new Map<string, Translator>([
  [SHAPES.merge_requests.list, mergeRequests.mergeRequestList],
  [SHAPES.merge_requests.one, mergeRequests.fetchedMergeRequest],
  [SHAPES.merge_requests.gone, mergeRequests.goneMergeRequest],
  [SHAPES.issues.list, issues.issueList],
  [SHAPES.issues.one, issues.fetchedIssue],
  [SHAPES.issues.gone, issues.goneIssue],
]);

/**
 * Pure. Throws `delivery_malformed` for a body that is not what its event promises; also for one without `object_kind`,
 * which is what a custom webhook template leaves.
 */
export function translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation {
  const translateIt = delivery.source === 'webhook' ? ofWebhook(delivery.event, options) : OF_READ.get(delivery.event);
  if (!translateIt) return { outcome: 'ignored', reason: 'event_not_followed' };
  return translateIt(readJson(delivery.body), options);
}

function ofWebhook(event: string, { issues: withIssues }: Options): Translator | undefined {
  return OF_WEBHOOK.get(event) ?? (withIssues ? OF_ISSUE_WEBHOOK.get(event) : undefined);
}

/** What `fetch` needs to get this item. */
export function reference(item: Item): ItemReference {
  return item.kind === 'work_item' ? issues.referenceOf(item) : mergeRequests.referenceOf(item);
}

/** A comment carries what it stands on. */
function noteHook(payload: unknown, options: Options): Translation {
  const { noteable_type: on } = read(schema.noteHook, payload).object_attributes;
  if (on === 'MergeRequest') return mergeRequests.noteOnMergeRequest(payload, options);
  if (options.issues && (on === 'Issue' || on === 'WorkItem')) return issues.noteOnIssue(payload, options);
  return { outcome: 'ignored', reason: options.issues ? 'not_followed_there' : 'not_a_merge_request' };
}
