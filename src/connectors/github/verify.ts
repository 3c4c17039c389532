import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { checkHmac, hexDigest, readName, requireSecrets } from '../kit/hmac.ts';

const SIGNATURE = /^sha256=([0-9a-f]{64})$/;

/**
 * Checks `X-Hub-Signature-256` over the raw bytes (GitHub, "Validating webhook deliveries"), and ignores the older SHA-1
 * header. Every live secret is tried, whether or not one has matched, and each comparison takes constant time.
 *
 * Throws `signature_missing` (also when no secret is configured), `signature_mismatch`, and, for a good signature
 * without a usable event name or delivery id, `delivery_malformed`.
 */
export async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  await checkHmac(request.body, secrets, hexDigest(request, 'x-hub-signature-256', SIGNATURE));
  return {
    event: readName(request, 'x-github-event'),
    deliveryId: readName(request, 'x-github-delivery'),
  };
}
