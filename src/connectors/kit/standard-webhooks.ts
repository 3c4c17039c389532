import { hmacOf } from '../../platform/lib/digest.ts';
import { isSameSecret } from '../../platform/lib/same-secret.ts';
import type { WebhookRequest } from '../connector.ts';
import { mismatch, single } from './hmac.ts';

/** What a signing token begins with; the rest is the key in base64. */
export const SIGNING_KEY = 'whsec_';
/** Standard Webhooks asks for 24 bytes at least; a key that decodes to nothing would let everybody sign. */
const SHORTEST_KEY = 24;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
/** One or several, with a space between them; worksync ignores unknown versions. */
const SIGNATURES = /^v\d+[a-z]?,[A-Za-z0-9+/]+={0,2}(?: v\d+[a-z]?,[A-Za-z0-9+/]+={0,2}){0,9}$/;
const SENT_AT = /^\d{1,12}$/;
const LARGEST_SKEW = 5 * 60_000;

/**
 * Checks a signature of Standard Webhooks (standardwebhooks.com): `webhook-signature` is an HMAC-SHA256 over id, time
 * and the raw bytes, no more than 5 minutes away from `now`. Every live secret is tried, and each comparison takes
 * constant time. Rejects with `signature_mismatch`.
 */
export async function checkStandardWebhook(
  request: WebhookRequest,
  secrets: readonly string[],
  now: number,
): Promise<void> {
  const given = single(request, 'webhook-signature');
  const id = single(request, 'webhook-id');
  const sentAt = single(request, 'webhook-timestamp');
  if (given === undefined || !SIGNATURES.test(given)) throw mismatch('is not one of Standard Webhooks');
  if (id === undefined || id === '') throw mismatch('comes without a webhook-id');
  if (sentAt === undefined || !SENT_AT.test(sentAt)) throw mismatch('comes without a webhook-timestamp');
  const signatures = given.split(' ').flatMap((text) => (text.startsWith('v1,') ? [text.slice('v1,'.length)] : []));
  const signed = Buffer.concat([Buffer.from(`${id}.${sentAt}.`), request.body]);
  const matches: boolean[] = [];
  for (const key of secrets.flatMap(signingKey)) {
    const wanted = (await hmacOf(signed, key)).toString('base64');
    matches.push(signatures.map((signature) => isSameSecret(signature, wanted)).includes(true));
  }
  if (matches.length === 0)
    throw mismatch('needs a signing token: webhookSecrets contains none that begins with whsec_');
  if (!matches.includes(true)) throw mismatch('was made with another key, or the body was changed');
  // Checked last: only a valid signature proves that the sender wrote this time.
  if (Math.abs(now - Number(sentAt) * 1_000) > LARGEST_SKEW)
    throw mismatch("is older than 5 minutes, or this machine's clock is wrong");
}

/** Empty for a secret that is no signing token, and for one that cannot be used. */
function signingKey(secret: string): Buffer[] {
  const encoded = secret.startsWith(SIGNING_KEY) ? secret.slice(SIGNING_KEY.length) : '';
  const key = BASE64.test(encoded) ? Buffer.from(encoded, 'base64') : Buffer.alloc(0);
  return key.length < SHORTEST_KEY ? [] : [key];
}
