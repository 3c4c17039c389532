import { hash } from 'node:crypto';
import type { Store } from '../store/database.ts';
import { readMeta, writeMeta } from '../store/meta.ts';
import type { Throttle } from '../sync/quota/throttle.ts';

/** Name of the fact that tells one key from another: a digest, from which nobody gets the key. */
const KEY_DIGEST = 'workspace.key';

/** A key, and where it is used: as the configuration says it. */
export interface UsedKey {
  readonly key: string;
  readonly workspace: { readonly url?: string; readonly id: string };
}

/** A refusal of another key, or elsewhere, says nothing about this one: once that is corrected, the daemon goes on at once. */
export async function noteKey(
  store: Store,
  throttle: Pick<Throttle, 'resume'>,
  { key, workspace: { url, id } }: UsedKey,
): Promise<void> {
  const digest = hash('sha256', JSON.stringify([url, id, key]), 'base64url').slice(0, 16);
  if ((await readMeta(store.query, KEY_DIGEST)) === digest) return;
  await throttle.resume();
  await store.commit((transaction) => writeMeta(transaction, KEY_DIGEST, digest));
}
