import { isUtf8 } from 'node:buffer';
import { SyncError } from '../../errors/sync-error.ts';
import { hmacOf } from '../../lib/digest.ts';
import { isSameSecret } from '../../lib/same-secret.ts';
import type { WebhookRequest } from '../connector.ts';

/** Throws `signature_missing` where no signature could prove anything: no secret is configured, or an empty one. */
export function requireSecrets(secrets: readonly string[]): void {
  if (secrets.length === 0 || secrets.includes(''))
    throw new SyncError('signature_missing', 'no webhook secret is configured, so no signature can be checked');
}

/** The one value of a header; undefined where it is absent or repeated. */
export function single({ headers }: WebhookRequest, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

/**
 * The digest in a header. Throws `signature_missing` where it is absent, `signature_mismatch` where it is not
 * exactly one digest.
 *
 * @param form matches the whole value; its first group is the digest in lower-case hex, 64 digits
 */
export function hexDigest(request: WebhookRequest, name: string, form = /^([0-9a-f]{64})$/): Buffer {
  if (request.headers[name] === undefined)
    throw new SyncError('signature_missing', `the request has no ${name} header`);
  const hex = form.exec(single(request, name) ?? '')?.[1];
  if (hex === undefined) throw mismatch('is not one SHA-256 digest');
  return Buffer.from(hex, 'hex');
}

/**
 * Checks an HMAC-SHA256 over the raw bytes. Every live secret is tried, whether or not one has matched, and each
 * comparison takes constant time. Rejects with `signature_mismatch`.
 */
export async function checkHmac(body: Buffer, secrets: readonly string[], digest: Buffer): Promise<void> {
  requireText(body);
  let valid = false;
  for (const secret of secrets) {
    const wanted = await hmacOf(body, Buffer.from(secret));
    valid = isSameSecret(digest, wanted) || valid;
  }
  if (!valid) throw mismatch('was made with another secret, or the body was changed');
}

/** Throws `signature_mismatch` for bytes that no vendor sends: what is signed here is always JSON. */
export function requireText(body: Buffer): void {
  if (body.length === 0 || !isUtf8(body)) throw mismatch('covers a body that is not UTF-8 text');
}

export function mismatch(what: string): SyncError {
  return new SyncError('signature_mismatch', `the signature ${what}`);
}

/** A name or id in a header of a proven request. Throws `delivery_malformed` where it is not usable. */
export function readName(request: WebhookRequest, name: string, form = /^[A-Za-z0-9_-]{1,100}$/): string {
  const value = single(request, name);
  if (value !== undefined && form.test(value)) return value;
  throw new SyncError('delivery_malformed', `the request has no usable ${name} header`);
}
