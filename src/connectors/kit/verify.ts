import { isUtf8 } from 'node:buffer';
import { createHmac } from 'node:crypto';
import { SyncError } from '../../model/errors.ts';
import { hmacOf, isSameSecret } from '../../platform/lib/digest.ts';
import type { SampleContext, VerifiedRequest, WebhookRequest } from '../connector.ts';

/** Throws `signature_missing` if no signature can be checked: no secret is configured, or an empty one. */
export function requireSecrets(secrets: readonly string[]): void {
  if (secrets.length === 0 || secrets.includes(''))
    throw new SyncError('signature_missing', 'no webhook secret is configured, so no signature can be checked');
}

/** Returns the only value of a header; undefined if it is absent or repeated. */
export function singleHeader({ headers }: WebhookRequest, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** The event of every webhook of a vendor that names events only in the body, which `verify` does not read. */
export const EVENT_IN_BODY = 'webhook';

/** The form of a signature, by the prefix of its digits. */
const FORMS = { '': /^([0-9a-f]{64})$/, 'sha256=': /^sha256=([0-9a-f]{64})$/ } as const;

/** A vendor's signature: an HMAC-SHA256 over the raw bytes, in a header as lower-case hexadecimal digits. */
interface Scheme {
  readonly header: string;
  readonly prefix?: keyof typeof FORMS;
  /** The header that names the event, and the form of its names. Absent: the body names it. */
  readonly event?: { readonly header: string; readonly form?: RegExp };
  readonly delivery?: string;
}

/**
 * Returns functions that check such a signature, and that sign a sample. The check tries every live secret, even after one has
 * matched, and compares in constant time.
 *
 * `verify` throws `signature_missing` (also when no secret is configured), `signature_mismatch`, and, for a good signature
 * without a usable event name or delivery id, `delivery_malformed`.
 */
export function hmacSigning({ header, prefix = '', event, delivery }: Scheme) {
  const form = FORMS[prefix];
  return {
    async verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
      requireSecrets(secrets);
      await checkHmac(request.body, secrets, hexDigest(request, header, form));
      return {
        event: event ? nameInHeader(request, event.header, event.form) : EVENT_IN_BODY,
        ...(delivery !== undefined && { deliveryId: nameInHeader(request, delivery) }),
      };
    },
    sign(body: Buffer, secret: string, { id }: Pick<SampleContext, 'id'>): Readonly<Record<string, string>> {
      const digest = createHmac('sha256', secret).update(body).digest('hex');
      return { ...(delivery !== undefined && { [delivery]: id }), [header]: `${prefix}${digest}` };
    },
  };
}

/** Throws `signature_missing` if the header is absent, `signature_mismatch` if it is not exactly one digest. */
function hexDigest(request: WebhookRequest, name: string, form: RegExp): Buffer {
  if (request.headers[name] === undefined)
    throw new SyncError('signature_missing', `the request has no ${name} header`);
  const hex = form.exec(singleHeader(request, name) ?? '')?.[1];
  if (hex === undefined) throw signatureMismatch('is not one SHA-256 digest');
  return Buffer.from(hex, 'hex');
}

async function checkHmac(body: Buffer, secrets: readonly string[], digest: Buffer): Promise<void> {
  requireText(body);
  let valid = false;
  for (const secret of secrets) {
    const expected = await hmacOf(body, Buffer.from(secret));
    valid = isSameSecret(digest, expected) || valid;
  }
  if (!valid) throw signatureMismatch('was made with another secret, or the body was changed');
}

/** Throws `signature_mismatch` for a body that is not UTF-8 text, because every signed body is JSON. */
export function requireText(body: Buffer): void {
  if (body.length === 0 || !isUtf8(body)) throw signatureMismatch('covers a body that is not UTF-8 text');
}

export function signatureMismatch(what: string, hint?: string): SyncError {
  return new SyncError('signature_mismatch', `the signature ${what}`, hint === undefined ? {} : { hint });
}

/** Returns a name or id in a header of a verified request. Throws `delivery_malformed` if it has another form. */
export function nameInHeader(request: WebhookRequest, name: string, form = /^[A-Za-z0-9_-]{1,100}$/): string {
  const value = singleHeader(request, name);
  if (value !== undefined && form.test(value)) return value;
  throw new SyncError('delivery_malformed', `the request has no usable ${name} header`);
}

/** The prefix of a signing token of Standard Webhooks; the rest is the key in base64. */
export const SIGNING_KEY = 'whsec_';

/** Standard Webhooks requires at least 24 bytes. With a key that decodes to nothing, every sender could sign. */
const SHORTEST_KEY = 24;

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** One to ten signatures with spaces between them. Those of unknown versions are ignored. */
const SIGNATURES = /^v\d+[a-z]?,[A-Za-z0-9+/]+={0,2}(?: v\d+[a-z]?,[A-Za-z0-9+/]+={0,2}){0,9}$/;

const SENT_AT = /^\d{1,12}$/;

const LARGEST_SKEW = 5 * 60_000;

/**
 * Checks a signature of Standard Webhooks (standardwebhooks.com): `webhook-signature` is an HMAC-SHA256 over id, time
 * and the raw bytes, and the time is within 5 minutes of `now`. Tries every live secret, and compares in constant time.
 * Rejects with `signature_mismatch`, or with `signature_expired` if the time is further away.
 */
export async function checkStandardWebhook(
  request: WebhookRequest,
  secrets: readonly string[],
  now: number,
): Promise<void> {
  const header = singleHeader(request, 'webhook-signature');
  const id = singleHeader(request, 'webhook-id');
  const sentAt = singleHeader(request, 'webhook-timestamp');
  if (header === undefined || !SIGNATURES.test(header)) throw signatureMismatch('is not one of Standard Webhooks');
  if (id === undefined || id === '') throw signatureMismatch('comes without a webhook-id');
  if (sentAt === undefined || !SENT_AT.test(sentAt)) throw signatureMismatch('comes without a webhook-timestamp');
  const signatures = header.split(' ').flatMap((text) => (text.startsWith('v1,') ? [text.slice('v1,'.length)] : []));
  const signed = Buffer.concat([Buffer.from(`${id}.${sentAt}.`), request.body]);
  const matches: boolean[] = [];
  for (const key of secrets.flatMap(signingKeys)) {
    const expected = (await hmacOf(signed, key)).toString('base64');
    matches.push(signatures.map((signature) => isSameSecret(signature, expected)).includes(true));
  }
  if (matches.length === 0)
    throw signatureMismatch('needs a signing token, and webhookSecrets contains none', SIGNING_TOKEN_HINT);
  if (!matches.includes(true)) throw signatureMismatch('was made with another key, or the body was changed');
  // Checked last, because only a valid signature proves that the sender wrote this time.
  if (Math.abs(now - Number(sentAt) * 1_000) > LARGEST_SKEW)
    throw new SyncError(
      'signature_expired',
      'the signed time is more than 5 minutes away from the time of this machine',
    );
}

const SIGNING_TOKEN_HINT =
  'Put the signing token of the sender into webhookSecrets: whsec_ and at least 24 bytes in base64. If you choose it yourself, make one with: echo "whsec_$(openssl rand -base64 32)"';

/** Returns why a secret is no signing token. */
export function signingTokenProblem(secret: string): string | undefined {
  if (signingKeys(secret).length > 0) return undefined;
  return `it is no signing token, so no webhook can be verified with it. ${SIGNING_TOKEN_HINT}`;
}

/** Returns the key of a signing token; empty if the secret is no signing token, or its key is too short. */
function signingKeys(secret: string): Buffer[] {
  const encoded = secret.startsWith(SIGNING_KEY) ? secret.slice(SIGNING_KEY.length) : '';
  const key = BASE64.test(encoded) ? Buffer.from(encoded, 'base64') : Buffer.alloc(0);
  return key.length < SHORTEST_KEY ? [] : [key];
}

/** Returns the three headers of Standard Webhooks. The secret is a signing token. */
export function standardSignature(body: Buffer, secret: string, { id, at }: Pick<SampleContext, 'id' | 'at'>) {
  const sentAt = Math.floor(at / 1_000);
  const key = Buffer.from(secret.slice(SIGNING_KEY.length), 'base64');
  const digest = createHmac('sha256', key).update(`${id}.${sentAt}.`).update(body).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': String(sentAt), 'webhook-signature': `v1,${digest}` };
}
