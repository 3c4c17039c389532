import type { Item, ItemKey } from '../../model/item.ts';
import { sleep } from '../../platform/lib/clock.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import { entitiesOf } from '../../store/entities.ts';
import { findItems, openItemsAfter, readFields } from '../../store/items.ts';
import type { ActiveConnection } from './active-connection.ts';
import { FETCH_INTERVAL, fetchWithRetries, type VerificationContext } from './verify-items.ts';

const HOUR = 3_600_000;
/** The number of open items that are read from the database at once. */
const BATCH_SIZE = 100;

/**
 * Returns jobs that read reviews once an hour, for connections whose rules need them and that get no webhooks. A job reads those of
 * each open pull request that is linked to a task and has changed since the last read. Its requests count as polls.
 */
export function reviewJobs(context: VerificationContext): Job[] {
  return context.connections
    .filter(({ readsReviews }) => readsReviews)
    .map((active) => ({
      name: `reviews.${active.name}`,
      when: { everyMs: HOUR },
      run: (signal) => readReviews(context, active, signal),
    }));
}

async function readReviews(context: VerificationContext, active: ActiveConnection, signal: AbortSignal): Promise<void> {
  for (let after: ItemKey | undefined = ''; after !== undefined; ) {
    const keys: readonly ItemKey[] = await openItemsAfter(context.store.query, after, BATCH_SIZE);
    for (const item of await itemsToRead(context, active, keys)) {
      if (signal.aborted) return;
      await fetchWithRetries(context, active, { item, purpose: 'poll', wantsReviews: true }, signal);
      await sleep(context.clock, FETCH_INTERVAL, signal);
    }
    after = keys.length < BATCH_SIZE ? undefined : keys.at(-1);
  }
}

async function itemsToRead(
  { store }: VerificationContext,
  { name }: ActiveConnection,
  keys: readonly ItemKey[],
): Promise<readonly Item[]> {
  const links = (await entitiesOf(store.query, keys)).filter(({ kind, hand }) => kind === 'link' && hand !== 'gone');
  const linked = new Set(links.map(({ item_key }) => item_key));
  const rows = await findItems(store.query, keys);
  const own = rows.filter(({ key, connection }) => connection === name && linked.has(key));
  return own
    .map((row) => readFields(row).item)
    .filter((item) => item.kind === 'pull_request' && (item.reviewsReadAt ?? 0) < item.updatedAt);
}
