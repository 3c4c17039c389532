import { SyncError } from '../../model/errors/sync-error.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { checkStandardWebhook, EVENT_IN_BODY, nameInHeader, requireSecrets, requireText } from '../kit/verify.ts';

/** Standard Webhooks, as standardwebhooks.com has it: every secret is a signing token, `whsec_…`. */
export async function verify(
  request: WebhookRequest,
  secrets: readonly string[],
  now: number,
): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  if (request.headers['webhook-signature'] === undefined)
    throw new SyncError('signature_missing', 'the request has no webhook-signature header');
  await checkStandardWebhook(request, secrets, now);
  requireText(request.body);
  return { event: EVENT_IN_BODY, deliveryId: nameInHeader(request, 'webhook-id') };
}
