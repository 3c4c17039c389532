import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { checkHmac, hexDigest, readName, requireSecrets } from '../kit/hmac.ts';

/** The name before the digest tells the algorithm. Other vendors send SHA-1 in this header, which is no proof here. */
const SIGNATURE = /^sha256=([0-9a-f]{64})$/;
const EVENT = /^[A-Za-z0-9_:-]{1,100}$/;

/**
 * Checks `X-Hub-Signature` over the raw bytes (Bitbucket Cloud, "Manage webhooks": secure webhooks). Every live secret
 * is tried, whether or not one has matched, and each comparison takes constant time.
 *
 * Returns no delivery id. Bitbucket sends a failed delivery again with the same bytes, so intake recognises it by their
 * SHA-256. Bitbucket does not document that `X-Request-UUID` stays the same; if it changes, each attempt would count as a new
 * delivery. Two deliveries with equal bytes say the same about the same pull request: one of them is enough.
 *
 * Throws `signature_missing` (also when no secret is configured), `signature_mismatch`, and, for a good signature
 * without a usable event key, `delivery_malformed`.
 */
export async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  await checkHmac(request.body, secrets, hexDigest(request, 'x-hub-signature', SIGNATURE));
  return { event: readName(request, 'x-event-key', EVENT) };
}
