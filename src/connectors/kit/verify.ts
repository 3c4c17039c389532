import { isUtf8 } from 'node:buffer';
import { createHmac } from 'node:crypto';
import { SyncError } from '../../model/errors/sync-error.ts';
import { hmacOf } from '../../platform/lib/digest.ts';
import { isSameSecret } from '../../platform/lib/same-secret.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';

/** Throws `signature_missing` where no signature could prove anything: no secret is configured, or an empty one. */
export function requireSecrets(secrets: readonly string[]): void {
  if (secrets.length === 0 || secrets.includes(''))
    throw new SyncError('signature_missing', 'no webhook secret is configured, so no signature can be checked');
}

/** The one value of a header; undefined where it is absent or repeated. */
export function singleHeader({ headers }: WebhookRequest, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** The event of a vendor that names it in the body only, which `verify` does not read. */
export const EVENT_IN_BODY = 'webhook';

/** By what stands before the digits. */
const FORMS = { '': /^([0-9a-f]{64})$/, 'sha256=': /^sha256=([0-9a-f]{64})$/ } as const;

/** How a vendor signs: an HMAC-SHA256 over the raw bytes, in a header as lower-case hexadecimal digits. */
interface Scheme<Header, Delivery> {
  readonly header: Header;
  readonly prefix?: keyof typeof FORMS;
  /** The header that names the event, and the form of its names; absent: the body names it. */
  readonly event?: { readonly header: string; readonly form?: RegExp };
  /** The header with the id of the delivery. */
  readonly delivery?: Delivery;
}

/**
 * Checks such a signature, and makes one for a sample. Every live secret is tried, whether or not one has matched, and each
 * comparison takes constant time.
 *
 * `verify` throws `signature_missing` (also when no secret is configured), `signature_mismatch`, and, for a good signature
 * without a usable event name or delivery id, `delivery_malformed`.
 */
export function hmacSigning<const Header extends string, const Delivery extends string = never>(
  scheme: Scheme<Header, Delivery>,
) {
  const { header, prefix = '', event, delivery } = scheme;
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
    /** @param moment where deliveries have an id */
    sign(body: Buffer, secret: string, moment?: { readonly id: string }) {
      const digest = createHmac('sha256', secret).update(body).digest('hex');
      const named = delivery === undefined ? [] : [[delivery, moment?.id]];
      const headers: unknown = Object.fromEntries([...named, [header, `${prefix}${digest}`]]);
      return headers as Readonly<Record<Header | Delivery, string>>;
    },
  };
}

/** Throws `signature_missing` where the header is absent, `signature_mismatch` where it is not exactly one digest. */
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
    const wanted = await hmacOf(body, Buffer.from(secret));
    valid = isSameSecret(digest, wanted) || valid;
  }
  if (!valid) throw signatureMismatch('was made with another secret, or the body was changed');
}

/** Throws `signature_mismatch` for bytes that no vendor sends: what is signed here is always JSON. */
export function requireText(body: Buffer): void {
  if (body.length === 0 || !isUtf8(body)) throw signatureMismatch('covers a body that is not UTF-8 text');
}

export function signatureMismatch(what: string): SyncError {
  return new SyncError('signature_mismatch', `the signature ${what}`);
}

/** A name or id in a header of a proven request. Throws `delivery_malformed` where it is not usable. */
export function nameInHeader(request: WebhookRequest, name: string, form = /^[A-Za-z0-9_-]{1,100}$/): string {
  const value = singleHeader(request, name);
  if (value !== undefined && form.test(value)) return value;
  throw new SyncError('delivery_malformed', `the request has no usable ${name} header`);
}

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
  const given = singleHeader(request, 'webhook-signature');
  const id = singleHeader(request, 'webhook-id');
  const sentAt = singleHeader(request, 'webhook-timestamp');
  if (given === undefined || !SIGNATURES.test(given)) throw signatureMismatch('is not one of Standard Webhooks');
  if (id === undefined || id === '') throw signatureMismatch('comes without a webhook-id');
  if (sentAt === undefined || !SENT_AT.test(sentAt)) throw signatureMismatch('comes without a webhook-timestamp');
  const signatures = given.split(' ').flatMap((text) => (text.startsWith('v1,') ? [text.slice('v1,'.length)] : []));
  const signed = Buffer.concat([Buffer.from(`${id}.${sentAt}.`), request.body]);
  const matches: boolean[] = [];
  for (const key of secrets.flatMap(signingKey)) {
    const wanted = (await hmacOf(signed, key)).toString('base64');
    matches.push(signatures.map((signature) => isSameSecret(signature, wanted)).includes(true));
  }
  if (matches.length === 0)
    throw signatureMismatch('needs a signing token: webhookSecrets contains none that begins with whsec_');
  if (!matches.includes(true)) throw signatureMismatch('was made with another key, or the body was changed');
  // Checked last: only a valid signature proves that the sender wrote this time.
  if (Math.abs(now - Number(sentAt) * 1_000) > LARGEST_SKEW)
    throw signatureMismatch("is older than 5 minutes, or this machine's clock is wrong");
}

/** Empty for a secret that is no signing token, and for one that cannot be used. */
function signingKey(secret: string): Buffer[] {
  const encoded = secret.startsWith(SIGNING_KEY) ? secret.slice(SIGNING_KEY.length) : '';
  const key = BASE64.test(encoded) ? Buffer.from(encoded, 'base64') : Buffer.alloc(0);
  return key.length < SHORTEST_KEY ? [] : [key];
}
