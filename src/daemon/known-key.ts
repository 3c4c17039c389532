import { createHash } from 'node:crypto';
import type { Store } from '../store/database.ts';
import { readMeta, writeMeta } from '../store/meta.ts';
import type { Throttle } from '../throttle/throttle.ts';

/** Name of the fact that tells one key from another: a digest, from which nobody gets the key. */
const KEY_DIGEST = 'workspace.key';

/** A refusal of another key says nothing about this one: with a new key the daemon goes on at once. */
export async function noteKey(store: Store, throttle: Throttle, key: string): Promise<void> {
  const digest = createHash('sha256').update(key).digest('base64url').slice(0, 16);
  if ((await readMeta(store.query, KEY_DIGEST)) === digest) return;
  await throttle.resume();
  await store.commit((transaction) => writeMeta(transaction, KEY_DIGEST, digest));
}
