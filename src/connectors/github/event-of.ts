import type { EmitterWebhookEvent } from '@octokit/webhooks';
import type { WebhookEventName } from '@octokit/webhooks/types';

/** An event, and fields that every payload that GitHub documents for it has. */
type Sign<Name extends WebhookEventName = WebhookEventName> = {
  [Event in Name]: readonly [event: Event, fields: readonly (keyof EmitterWebhookEvent<Event>['payload'])[]];
}[Name];

/** The fields by which to tell the followed events apart, the most specific first. */
const SIGNS: readonly Sign[] = [
  ['pull_request_review_thread', ['pull_request', 'thread']],
  ['pull_request_review_comment', ['pull_request', 'comment']],
  ['pull_request_review', ['pull_request', 'review']],
  ['pull_request', ['pull_request', 'number']],
  ['issue_comment', ['issue', 'comment']],
  ['issues', ['issue', 'action']],
  ['ping', ['zen', 'hook']],
];

/** Fields of other events, which contain an issue or a pull request beside their own subject. */
const OTHERS = ['check_run', 'check_suite', 'deployment', 'deployment_status', 'workflow_run', 'workflow_job'];

/** Pure: the event that a payload of this shape belongs to; undefined for an event that is not followed. */
export function eventOf(payload: unknown): WebhookEventName | undefined {
  if (typeof payload !== 'object' || payload === null) return undefined;
  if (OTHERS.some((field) => field in payload)) return undefined;
  return SIGNS.find(([, fields]) => fields.every((field) => field in payload))?.[0];
}
