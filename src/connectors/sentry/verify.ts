import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { checkHmac, hexDigest, readName, requireSecrets } from '../kit/hmac.ts';

/**
 * Proves that Sentry sent the request: `Sentry-Hook-Signature` is an HMAC-SHA256 over the raw bytes with the client
 * secret of the integration (SE1).
 */
export async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  await checkHmac(request.body, secrets, hexDigest(request, 'sentry-hook-signature'));
  return { event: readName(request, 'sentry-hook-resource'), deliveryId: readName(request, 'request-id') };
}
