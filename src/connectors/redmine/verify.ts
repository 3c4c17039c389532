import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { checkHmac, hexDigest, requireSecrets } from '../kit/hmac.ts';

/** Redmine names the event in the body only, which is not read here. */
export const EVENT = 'webhook';

/**
 * Proves that Redmine sent the request: `X-Redmine-Signature-256` is an HMAC-SHA256 over the raw bytes with the
 * webhook's secret (RM1). A webhook without a secret is not signed, and refused. Deliveries have no id.
 */
export async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  await checkHmac(request.body, secrets, hexDigest(request, 'x-redmine-signature-256', /^sha256=([0-9a-f]{64})$/));
  return { event: EVENT };
}
