import { createHmac, hash, timingSafeEqual, webcrypto } from 'node:crypto';
import { LARGE, yieldToEventLoop } from './yield.ts';

/**
 * Whether a secret, or what was made with one, is the wanted one. Digests of one length are compared, and in constant time: how long it
 * takes tells nothing of the wanted one, neither its content nor its length. The only comparison that what proves somebody goes
 * through.
 */
export function isSameSecret(given: string | Buffer, wanted: string | Buffer): boolean {
  return timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', wanted, 'buffer'));
}

/** HMAC-SHA256. For a large body, the main thread is not blocked. */
export async function hmacOf(body: Buffer, key: Buffer): Promise<Buffer> {
  if (body.length <= LARGE) return createHmac('sha256', key).update(body).digest();
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await webcrypto.subtle.importKey('raw', bytesOf(key), algorithm, false, ['sign']);
  return Buffer.from(await webcrypto.subtle.sign('HMAC', imported, bytesOf(body)));
}

/** SHA-256, hexadecimal. For a large body, the main thread is not blocked. */
export async function sha256Of(body: Buffer): Promise<string> {
  if (body.length <= LARGE) return hash('sha256', body, 'hex');
  // The runtime copies it first, which takes time.
  await yieldToEventLoop();
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', bytesOf(body))).toString('hex');
}

/** Buffers of a socket, a file or a text are never shared between threads. */
function bytesOf({ buffer, byteOffset, byteLength }: Buffer): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}
