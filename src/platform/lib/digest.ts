import { createHmac, hash, webcrypto } from 'node:crypto';
import { LARGE } from './large.ts';
import { yieldToEventLoop } from './yield.ts';

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
