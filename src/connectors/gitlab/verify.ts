import { SyncError } from '../../model/errors/sync-error.ts';
import { isSameSecret } from '../../platform/lib/digest.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import {
  checkStandardWebhook,
  nameInHeader,
  requireSecrets,
  requireText,
  SIGNING_KEY,
  singleHeader,
} from '../kit/verify.ts';

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
export async function verify(
  request: WebhookRequest,
  secrets: readonly string[],
  now: number,
): Promise<VerifiedRequest> {
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
