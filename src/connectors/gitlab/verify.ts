import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import { SyncError } from '../../errors/sync-error.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { mismatch, readName, requireSecrets, requireText, single } from '../kit/hmac.ts';

const SIGNING_KEY = 'whsec_';
/** Standard Webhooks asks for 24 bytes at least; a key that decodes to nothing would let everybody sign. */
const SHORTEST_KEY = 24;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
/** One or several, with a space between them; versions that are not known are passed over. */
const SIGNATURES = /^v\d+[a-z]?,[A-Za-z0-9+/]+={0,2}(?: v\d+[a-z]?,[A-Za-z0-9+/]+={0,2}){0,9}$/;
const SENT_AT = /^\d{1,12}$/;
const LARGEST_SKEW = 5 * 60_000;

const EVENT = /^(?=.{1,100}$)[A-Za-z]+(?: [A-Za-z]+){0,8} Hook$/;
const NAME = /^[A-Za-z0-9_-]{1,100}$/;

/**
 * Proves that GitLab sent the request, by either of its ways (providers' facts §2.1); every live secret is tried, and
 * each comparison takes constant time.
 *
 * - A secret that begins with `whsec_` is a signing token: `webhook-signature` is an HMAC-SHA256 over id, time and the
 *   raw bytes (Standard Webhooks), no more than 5 minutes away from `now`.
 * - Any other secret is a secret token, which `X-Gitlab-Token` repeats in clear.
 *
 * A signature that is there must hold: the token is then not looked at, right or wrong.
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
  if (isSigned) checkSignature(request, secrets, now);
  else checkToken(request, secrets);
  requireText(request.body);
  const deliveryId = idOf(request, isSigned);
  return { event: readName(request, 'x-gitlab-event', EVENT), ...(deliveryId === undefined ? {} : { deliveryId }) };
}

function checkSignature(request: WebhookRequest, secrets: readonly string[], now: number): void {
  const given = single(request, 'webhook-signature');
  const id = single(request, 'webhook-id');
  const sentAt = single(request, 'webhook-timestamp');
  if (given === undefined || !SIGNATURES.test(given)) throw mismatch('is not one of Standard Webhooks');
  if (id === undefined || id === '') throw mismatch('comes without a webhook-id');
  if (sentAt === undefined || !SENT_AT.test(sentAt)) throw mismatch('comes without a webhook-timestamp');
  const signatures = given.split(' ').flatMap((text) => (text.startsWith('v1,') ? [text.slice('v1,'.length)] : []));
  const signed = Buffer.concat([Buffer.from(`${id}.${sentAt}.`), request.body]);
  const matches = secrets.flatMap(signingKey).map((key) => {
    const wanted = createHmac('sha256', key).update(signed).digest('base64');
    return signatures.map((signature) => isEqual(signature, wanted)).includes(true);
  });
  if (matches.length === 0) throw mismatch('needs a signing token: webhookSecrets holds none that begins with whsec_');
  if (!matches.includes(true)) throw mismatch('was made with another key, or the body was changed');
  // Looked at last: only then is it known that GitLab wrote this time.
  if (Math.abs(now - Number(sentAt) * 1_000) > LARGEST_SKEW)
    throw mismatch("is older than 5 minutes, or this machine's clock is wrong");
}

/** Empty for a secret that is no signing token, and for one that cannot be used. */
function signingKey(secret: string): Buffer[] {
  const encoded = secret.startsWith(SIGNING_KEY) ? secret.slice(SIGNING_KEY.length) : '';
  const key = BASE64.test(encoded) ? Buffer.from(encoded, 'base64') : Buffer.alloc(0);
  return key.length < SHORTEST_KEY ? [] : [key];
}

function checkToken(request: WebhookRequest, secrets: readonly string[]): void {
  if (request.headers['x-gitlab-token'] === undefined)
    throw new SyncError('signature_missing', 'the request has neither webhook-signature nor X-Gitlab-Token');
  const given = single(request, 'x-gitlab-token');
  const tokens = secrets.filter((secret) => !secret.startsWith(SIGNING_KEY));
  const matches = tokens.map((token) => given !== undefined && isEqual(given, token));
  if (!matches.includes(true)) throw new SyncError('signature_mismatch', 'the token is another one');
}

/** Over digests: neither the time nor an early end tells of length or content. */
function isEqual(left: string, right: string): boolean {
  return timingSafeEqual(hash('sha256', left, 'buffer'), hash('sha256', right, 'buffer'));
}

/** The same on every repetition. What is signed comes first; older servers send none. */
function idOf(request: WebhookRequest, isSigned: boolean): string | undefined {
  const names = isSigned ? ['webhook-id'] : ['idempotency-key', 'webhook-id'];
  return names.map((name) => single(request, name)).find((value) => value !== undefined && NAME.test(value));
}
