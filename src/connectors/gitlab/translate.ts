import { SyncError } from '../../errors/sync-error.ts';
import type { Delivery } from '../../model/delivery.ts';
import type { Item, ItemReference } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { read, readJson } from '../kit/json.ts';
import { NOT_FOUND } from '../kit/outcome.ts';
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
    judged: 'merge_requests.judged',
    missing: 'merge_requests.missing',
  },
  issues: {
    list: 'issues.list',
    one: 'issues.get',
    gone: 'issues.gone',
    judged: 'issues.judged',
    missing: 'issues.missing',
  },
} as const;

type Translator = (payload: unknown, options: Options) => Translation;

const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['Merge Request Hook', ofKind('merge_request', mergeRequests.mergeRequestHook)],
  ['Note Hook', ofKind('note', noteHook)],
  ['System Hook', systemHook],
]);

const OF_ISSUE_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['Issue Hook', ofKind('issue', issues.issueHook)],
  ['Work Item Hook', ofKind('issue', issues.issueHook)],
  ['Confidential Issue Hook', ofKind('issue', issues.issueHook)],
  ['Confidential Note Hook', ofKind('note', noteHook)],
]);

const NOT_FOLLOWED = { outcome: 'ignored', reason: 'event_not_followed' } as const;

/** Pages and fetched objects were asked for, so they are in scope, also under a project's new path. */
const OF_READ: ReadonlyMap<string, Translator> = new Map<string, Translator>([
  [SHAPES.merge_requests.list, mergeRequests.mergeRequestList],
  [SHAPES.merge_requests.one, mergeRequests.fetchedMergeRequest],
  [SHAPES.merge_requests.gone, mergeRequests.goneMergeRequest],
  [SHAPES.merge_requests.judged, mergeRequests.judgedMergeRequest],
  [SHAPES.merge_requests.missing, () => NOT_FOUND],
  [SHAPES.issues.list, issues.issueList],
  [SHAPES.issues.one, issues.fetchedIssue],
  [SHAPES.issues.gone, issues.goneIssue],
  [SHAPES.issues.judged, issues.judgedIssue],
  [SHAPES.issues.missing, () => NOT_FOUND],
]);

/**
 * Pure. Throws `delivery_malformed` for a body that is not what its event promises; also for one without `object_kind`,
 * which is what a custom webhook template leaves.
 */
export function translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation {
  const translateIt = delivery.source === 'webhook' ? ofWebhook(delivery.event, options) : OF_READ.get(delivery.event);
  return translateIt ? translateIt(readJson(delivery.body), options) : NOT_FOLLOWED;
}

/** The body repeats what the header names; one that does not was made by a custom template. */
function ofKind(kind: 'merge_request' | 'note' | 'issue', translateIt: Translator): Translator {
  const kinds = kind === 'issue' ? ['issue', 'work_item'] : [kind];
  return (payload, options) => {
    const { object_kind: told } = read(schema.hookKind, payload);
    if (told !== undefined && kinds.includes(told)) return translateIt(payload, options);
    throw new SyncError('delivery_malformed', `object_kind: expected ${kinds.join(' or ')}`);
  };
}

/** One hook for a whole server, made by its administrators. Of what it sends, merge requests come as in all other hooks. */
function systemHook(payload: unknown, options: Options): Translation {
  const { object_kind: kind } = read(schema.hookKind, payload);
  return kind === 'merge_request' ? mergeRequests.mergeRequestHook(payload, options) : NOT_FOLLOWED;
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
  const { object_attributes, merge_request, issue } = read(schema.noteHook, payload);
  const on = object_attributes?.noteable_type ?? (merge_request ? 'MergeRequest' : issue ? 'Issue' : undefined);
  if (on === 'MergeRequest') return mergeRequests.noteOnMergeRequest(payload, options);
  if (options.issues && (on === 'Issue' || on === 'WorkItem')) return issues.noteOnIssue(payload, options);
  return { outcome: 'ignored', reason: options.issues ? 'not_followed_there' : 'not_a_merge_request' };
}
