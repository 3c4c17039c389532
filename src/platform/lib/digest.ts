import { createHmac, hash, timingSafeEqual, webcrypto } from 'node:crypto';
import { LARGE, yieldToEventLoop } from './concurrency.ts';

/**
 * Compares a secret, or a value derived from one, with the wanted one. It compares digests of equal length in constant time, so the
 * duration reveals neither content nor length. Every check of a caller's proof uses this function.
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
  // The runtime first copies the body, which takes time.
  await yieldToEventLoop();
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', bytesOf(body))).toString('hex');
}

/** Buffers of sockets, files and texts are never shared between threads. */
function bytesOf({ buffer, byteOffset, byteLength }: Buffer): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}
