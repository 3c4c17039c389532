import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { checkHmac, hexDigest, requireSecrets } from '../kit/hmac.ts';

/** What happened stands in the body only, which is not read here. */
export const EVENT = 'webhook';

/** Proves that Shortcut sent the request: `Payload-Signature` is an HMAC-SHA256 over the raw bytes (SH1). */
export async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  await checkHmac(request.body, secrets, hexDigest(request, 'payload-signature'));
  return { event: EVENT };
}
