import { SyncError } from '../../model/errors/sync-error.ts';
import { isSameSecret } from '../../platform/lib/digest.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { EVENT_IN_BODY, requireSecrets, requireText, signatureMismatch, singleHeader } from '../kit/verify.ts';

/** For those who rather set a header of their own on the subscription. */
const HEADER = 'x-worksync-secret';
const BASIC = /^Basic ([A-Za-z0-9+/]{1,4000}={0,2})$/;

/**
 * Proves that Azure DevOps sent the request. It signs nothing: a service hook repeats the password that its
 * subscription was made with, as HTTP Basic authentication or as a header of its own (AZ1). Every live secret is
 * compared, in constant time; a user name is not looked at. `Authorization`, where it is sent, decides alone.
 *
 * The id of the event stands in the body too: the bytes themselves tell a repetition.
 */
export async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  const given = passwordOf(request);
  let valid = false;
  for (const secret of secrets) valid = isSameSecret(given, secret) || valid;
  if (!valid) throw new SyncError('signature_mismatch', 'the password does not match');
  requireText(request.body);
  return { event: EVENT_IN_BODY };
}

function passwordOf(request: WebhookRequest): string {
  const { headers } = request;
  if (headers['authorization'] === undefined && headers[HEADER] === undefined)
    throw new SyncError('signature_missing', `the request has neither Authorization nor ${HEADER}`);
  if (headers['authorization'] === undefined) {
    const own = singleHeader(request, HEADER);
    if (own === undefined) throw signatureMismatch('is not one password');
    return own;
  }
  const encoded = BASIC.exec(singleHeader(request, 'authorization') ?? '')?.[1];
  const decoded = encoded === undefined ? '' : Buffer.from(encoded, 'base64').toString('utf8');
  const colon = decoded.indexOf(':');
  if (colon === -1) throw signatureMismatch('is not one of HTTP Basic authentication');
  return decoded.slice(colon + 1);
}
