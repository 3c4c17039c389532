import { isUtf8 } from 'node:buffer';
import { createHmac, timingSafeEqual } from 'node:crypto';
import { SyncError } from '../../errors/sync-error.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';

/** The name before the digest says the algorithm. GitHub's SHA-1 comes under the same header: it is no proof here. */
const SIGNATURE = /^sha256=([0-9a-f]{64})$/;
const EVENT = /^[A-Za-z0-9_:-]{1,100}$/;

/**
 * Checks `X-Hub-Signature` over the raw bytes (Bitbucket Cloud, "Manage webhooks": secure webhooks). Every live secret
 * is tried, whether or not one has matched, and each comparison takes constant time.
 *
 * No delivery id is returned. A failed delivery is sent again with the same bytes, so their SHA-256 recognises it;
 * whether `X-Request-UUID` stays the same is not documented, and if it does not, each attempt would be a new delivery.
 * Two deliveries with equal bytes say the same about the same pull request: one of them is enough.
 *
 * Throws `signature_missing` (also when no secret is configured), `signature_mismatch`, and, for a good signature
 * without a usable event key, `delivery_malformed`.
 */
export async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  if (secrets.length === 0 || secrets.includes(''))
    throw new SyncError('signature_missing', 'no webhook secret is configured, so nothing can be proved');
  checkSignature(request.body, secrets, readDigest(request));
  return { event: readEvent(request) };
}

function readDigest({ headers }: WebhookRequest): Buffer {
  const signature = headers['x-hub-signature'];
  if (signature === undefined) throw new SyncError('signature_missing', 'the request has no X-Hub-Signature header');
  const hex = typeof signature === 'string' ? SIGNATURE.exec(signature)?.[1] : undefined;
  if (hex === undefined) throw mismatch('is not one SHA-256 digest');
  return Buffer.from(hex, 'hex');
}

function checkSignature(body: Buffer, secrets: readonly string[], digest: Buffer): void {
  if (body.length === 0 || !isUtf8(body)) throw mismatch('stands over a body that is not UTF-8 text');
  let valid = false;
  for (const secret of secrets)
    valid = timingSafeEqual(createHmac('sha256', secret).update(body).digest(), digest) || valid;
  if (!valid) throw mismatch('was made with another secret, or the body was changed');
}

function mismatch(what: string): SyncError {
  return new SyncError('signature_mismatch', `the signature ${what}`);
}

function readEvent({ headers }: WebhookRequest): string {
  const event = headers['x-event-key'];
  if (typeof event === 'string' && EVENT.test(event)) return event;
  throw new SyncError('delivery_malformed', 'the request has no usable x-event-key header');
}
