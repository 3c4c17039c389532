import { hash, timingSafeEqual } from 'node:crypto';

/**
 * Whether a secret, or what was made with one, is the wanted one. Digests of one length are compared, and in constant time: how long it
 * takes tells nothing of the wanted one, neither its content nor its length. The only comparison that what proves somebody goes
 * through.
 */
export function isSameSecret(given: string | Buffer, wanted: string | Buffer): boolean {
  return timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', wanted, 'buffer'));
}
