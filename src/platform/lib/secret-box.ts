import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { Random } from './clock.ts';

/** Bytes of a key. */
export const SECRET_KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = 'v1.';

/**
 * Encrypts texts that must be stored and read again. An encrypted text opens only with the same key and for the same place: a
 * copy in another row does not open there.
 */
export type SecretBox = ReturnType<typeof createSecretBox>;

export class SealError extends Error {}

/** AES-256-GCM; each text has a random nonce of its own. */
export function createSecretBox(key: Buffer, random: Random) {
  if (key.length !== SECRET_KEY_BYTES) throw new RangeError(`a key has ${SECRET_KEY_BYTES} bytes`);
  return {
    /** @param place identity of the row and column that holds it; authenticated, not stored */
    seal(plain: string, place: string): string {
      const nonce = random.bytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(place));
      const hidden = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
      return VERSION + Buffer.concat([nonce, cipher.getAuthTag(), hidden]).toString('base64url');
    },
    /** Throws `SealError` for another key or place, and for a text that was changed. */
    open(sealed: string, place: string): string {
      const bytes = sealed.startsWith(VERSION) ? Buffer.from(sealed.slice(VERSION.length), 'base64url') : undefined;
      if (bytes === undefined || bytes.length < NONCE_BYTES + TAG_BYTES) throw new SealError('not an encrypted text');
      const nonce = bytes.subarray(0, NONCE_BYTES);
      const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
      const cipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
      cipher.setAAD(Buffer.from(place)).setAuthTag(tag);
      try {
        return cipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + cipher.final('utf8');
      } catch (error) {
        throw new SealError('encrypted with another key or for another place, or changed since', { cause: error });
      }
    },
  };
}

/** A key as people write it: 32 bytes in base64 (also the one of addresses) or hex. Undefined for anything else. */
export function parseSecretKey(text: string): Buffer | undefined {
  const written = text.trim();
  if (/^[0-9a-f]{64}$/i.test(written)) return Buffer.from(written, 'hex');
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(written)) return undefined;
  return Buffer.from(written, 'base64');
}
