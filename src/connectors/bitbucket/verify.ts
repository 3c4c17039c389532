import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { checkHmac, hexDigest, readName, requireSecrets } from '../kit/hmac.ts';

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
  requireSecrets(secrets);
  await checkHmac(request.body, secrets, hexDigest(request, 'x-hub-signature', SIGNATURE));
  return { event: readName(request, 'x-event-key', EVENT) };
}
