import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { checkHmac, hexDigest, readName, requireSecrets } from '../kit/hmac.ts';

/** Jira names the event in the body only, which is not read here. */
export const EVENT = 'webhook';

/**
 * Proves that Jira sent the request: `X-Hub-Signature` is an HMAC-SHA256 over the raw bytes with the webhook's secret
 * (JI2). Only admin webhooks sign so; those that apps register bring a token instead, and are refused.
 */
export async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  await checkHmac(request.body, secrets, hexDigest(request, 'x-hub-signature', /^sha256=([0-9a-f]{64})$/));
  return { event: EVENT, deliveryId: readName(request, 'x-atlassian-webhook-identifier') };
}
