import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { checkHmac, hexDigest, readName, requireSecrets } from '../kit/hmac.ts';

/**
 * Proves that Linear sent the request: `Linear-Signature` is an HMAC-SHA256 over the raw bytes with the webhook's secret (LI1).
 *
 * The time that is signed stands in the body, which is not read here. A request that is sent again later is harmless: it has an
 * older state of an issue than worksync knows, and is superseded.
 */
export async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  await checkHmac(request.body, secrets, hexDigest(request, 'linear-signature'));
  return { event: readName(request, 'linear-event'), deliveryId: readName(request, 'linear-delivery') };
}
