import { SyncError } from '../../model/errors.ts';
import type { Grammar } from '../../model/item.ts';
import { isSameSecret } from '../../platform/lib/digest.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { gitConnector } from '../kit/git.ts';
import { readable } from '../kit/payload.ts';
import {
  checkStandardWebhook,
  nameInHeader,
  requireSecrets,
  requireText,
  SIGNING_KEY,
  signingTokenProblem,
  singleHeader,
  standardSignature,
} from '../kit/verify.ts';
import { connect } from './connect.ts';
import { isFetchedFollowed, kinds, parseWebhook } from './items.ts';
import { options, PUBLIC_HOST, scopeOf, unrestricted } from './options.ts';
import { kindOfHook } from './schema.ts';
import { writes } from './writes.ts';

const EVENT = /^(?=.{1,100}$)[A-Za-z]+(?: [A-Za-z]+){0,8} Hook$/;
const NAME = /^[A-Za-z0-9_-]{1,100}$/;

/**
 * Proves that GitLab sent the request, by either of its ways (GL1); every live secret is tried, and each comparison
 * takes constant time.
 *
 * - A secret that begins with `whsec_` is a signing token: `webhook-signature` is an HMAC-SHA256 over id, time and the
 *   raw bytes (Standard Webhooks), no more than 5 minutes away from `now`.
 * - Any other secret is a secret token, which `X-Gitlab-Token` repeats in clear.
 *
 * If there is a signature, it must be valid: the token does not count then, right or wrong.
 *
 * Throws `signature_missing` (also when no secret is configured), `signature_mismatch`, and, for a proven request
 * without a usable event name, `delivery_malformed`.
 */
async function verify(request: WebhookRequest, secrets: readonly string[], now: number): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  const isSigned = request.headers['webhook-signature'] !== undefined;
  if (isSigned) await checkStandardWebhook(request, secrets, now);
  else checkToken(request, secrets);
  requireText(request.body);
  const deliveryId = idOf(request, isSigned);
  return { event: nameInHeader(request, 'x-gitlab-event', EVENT), ...(deliveryId === undefined ? {} : { deliveryId }) };
}

function checkToken(request: WebhookRequest, secrets: readonly string[]): void {
  if (request.headers['x-gitlab-token'] === undefined)
    throw new SyncError('signature_missing', 'the request has neither webhook-signature nor X-Gitlab-Token');
  const given = singleHeader(request, 'x-gitlab-token');
  const tokens = secrets.filter((secret) => !secret.startsWith(SIGNING_KEY));
  const matches = tokens.map((token) => given !== undefined && isSameSecret(given, token));
  if (!matches.includes(true))
    throw new SyncError('signature_mismatch', 'X-Gitlab-Token is none of the configured secrets');
}

/** The id of a delivery, which is the same on every repetition. A signed one comes first; older servers send none. */
function idOf(request: WebhookRequest, isSigned: boolean): string | undefined {
  const names = isSigned ? ['webhook-id'] : ['idempotency-key', 'webhook-id'];
  return names.map((name) => singleHeader(request, name)).find((value) => value !== undefined && NAME.test(value));
}

/** Names of events that differ from the kind: GitLab sends all work items as issues (GL11). */
const NAMES: Readonly<Record<string, string>> = { work_item: 'Issue', build: 'Job' };

/** The webhook event of a payload, by the name that its header has. */
function eventOf(payload: unknown): string | undefined {
  const data = readable(kindOfHook, payload);
  if (!data) return undefined;
  const name = NAMES[data.object_kind] ?? words(data.object_kind);
  return data.event_type?.startsWith('confidential_') ? `Confidential ${name} Hook` : `${name} Hook`;
}

/** `tag_push` → `Tag Push` */
function words(kind: string): string {
  return kind.replaceAll('_', ' ').replace(/\b[a-z]/g, (letter) => letter.toUpperCase());
}

/** GitLab's default pattern: one word closes a whole list, `Closes #4, #6 and group/project#7` (GL12). The forms of names are those of GL18. */
export const grammar: Grammar = {
  closing: [
    ...['close', 'closes', 'closed', 'closing'],
    ...['fix', 'fixes', 'fixed', 'fixing'],
    ...['resolve', 'resolves', 'resolved', 'resolving'],
    ...['implement', 'implements', 'implemented', 'implementing'],
  ],
  mentioning: ['related to'],
  closes: 'list',
  names: ['number', 'GL-'],
  addresses: [
    ['//{host}/{path}/-/issues/{number}', '//{host}/{path}/-/work_items/{number}', '//{host}/{path}/issues/{number}'],
  ],
  branchNumbers: true,
};

/** GitLab: gitlab.com and self-managed servers. */
export const gitlab = gitConnector({
  id: 'gitlab',
  title: 'GitLab',
  publicHost: PUBLIC_HOST,
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
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
  secretProblem: (secret) => (secret.startsWith(SIGNING_KEY) ? signingTokenProblem(secret) : undefined),
  fetchesReviews: ({ token }) => token !== undefined,
  verify,
  sign(body, secret, context) {
    if (secret.startsWith(SIGNING_KEY)) return standardSignature(body, secret, context);
    return { 'x-gitlab-token': secret, 'webhook-id': context.id };
  },
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted,
  container: 'project',
  scopeOf,
  kinds,
  fetchesCommits: ({ commits }) => commits,
  withIssues: ({ issues }) => issues,
  parseWebhook,
  isInScope: isFetchedFollowed,
  writes,
  connect,
});
