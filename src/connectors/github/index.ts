import type { EmitterWebhookEvent } from '@octokit/webhooks';
import type { WebhookEventName } from '@octokit/webhooks/types';
import type { Grammar } from '../../model/item.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { gitConnector } from '../kit/git.ts';
import { hmacSigning } from '../kit/verify.ts';
import { connect } from './connect.ts';
import { kinds, parseWebhook, payloadOf } from './items.ts';
import { hasCredential, options, PUBLIC_HOST, scopeOf, shortestPoll, unrestricted } from './options.ts';
import { writes } from './writes.ts';

/** The keyword must be repeated for each issue: `Resolves #1, resolves #2` (GH8). The forms of names are those of GH15. */
export const grammar: Grammar = {
  closing: ['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  closes: 'next',
  names: ['number', 'GH-'],
  addresses: [['//{host}/{path}/issues/{number}']],
};

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
function eventOf(payload: unknown): WebhookEventName | undefined {
  if (typeof payload !== 'object' || payload === null) return undefined;
  if (OTHERS.some((field) => field in payload)) return undefined;
  return SIGNS.find(([, fields]) => fields.every((field) => field in payload))?.[0];
}

/** GitHub: github.com, hosts under ghe.com, and GitHub Enterprise Server. */
export const github = gitConnector({
  id: 'github',
  title: 'GitHub',
  publicHost: PUBLIC_HOST,
  capabilities: {
    namesDeliveries: true,
    workItems: true,
    supportsLabels: true,
    supportsAssignees: true,
    supportsReviewers: true,
    supportsDraft: true,
    reopensClosed: true,
  },
  grammar,
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: (given) => given.host,
  shortestPoll,
  fetchesReviews: hasCredential,
  exclusive: ({ host, app }) => app && `GitHub App ${app.id} of ${host}`,
  /** `X-Hub-Signature-256` (GitHub, "Validating webhook deliveries"); the older SHA-1 header is ignored. */
  ...hmacSigning({
    header: 'x-hub-signature-256',
    prefix: 'sha256=',
    event: { header: 'x-github-event' },
    delivery: 'x-github-delivery',
  }),
  unrestricted,
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  container: 'repository',
  scopeOf,
  kinds,
  fetchesCommits: ({ commits }) => commits,
  withIssues: ({ issues }) => issues,
  parseWebhook,
  parsePayload: payloadOf,
  writes,
  connect,
});
