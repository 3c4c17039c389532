import type { Fetched } from '../../connectors/connector.ts';
import { forPurpose, type Purpose } from '../../connectors/kit/refusal.ts';
import { asSyncError } from '../../model/errors.ts';
import type { Item, ItemKey } from '../../model/item.ts';
import { sleep } from '../../platform/lib/clock.ts';
import type { Job, Stage } from '../../platform/lib/scheduler.ts';
import { entitiesOf } from '../../store/changes/entities.ts';
import {
  findItems,
  itemSummary,
  itemsAfter,
  readFields,
  type UnverifiedPosition,
  unverifiedAfter,
} from '../../store/items/items.ts';
import type { Store } from '../../store/workspace-scope.ts';
import type { ActiveConnection, WorkspaceContext } from '../workspace-context.ts';
import { MOST_ATTEMPTS, retryPause } from './pauses.ts';
import { appendRead, waitWhilePaused } from './read-pages.ts';

/** The time between two fetches of a connection, milliseconds, because some vendors report no limit. */
const FETCH_INTERVAL = 2_000;
/** The number of items that are read from the database at once. */
const BATCH_SIZE = 20;
/** The time between two rounds over the items that are still unverified, milliseconds. */
const ROUND_INTERVAL = 3_600_000;

/** The position before the first item. Open items come first. */
const START: UnverifiedPosition = { finished: 0, key: '' };

/**
 * After a restore, fetches every item once, open items first, because worksync writes nothing about an item before the
 * vendor has confirmed it. The fetches use at most a fifth of the vendor's limit: see `Budget`. An item that cannot be
 * fetched waits for its next delivery, or for a restart.
 */
export function createVerification(context: WorkspaceContext): Stage {
  let stopping: AbortController | undefined;
  let running: Promise<unknown> = Promise.resolve();
  return {
    start() {
      if (stopping) return;
      stopping = new AbortController();
      const { signal } = stopping;
      running = Promise.all(context.connections.map((active) => verifyConnection(context, active, signal)));
    },
    async stop() {
      stopping?.abort();
      await running;
      stopping = undefined;
    },
  };
}

/** Never rejects. Ends when no item of the connection is unverified. */
async function verifyConnection(
  context: WorkspaceContext,
  active: ActiveConnection,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, random, logger } = context;
  const done = new Set<ItemKey>();
  for (let failures = 0; !signal.aborted; ) {
    try {
      const isAnyUnverified = (await unverifiedAfter(store.query, active.name, START, 1)).length > 0;
      if (!isAnyUnverified) return;
      await fetchEach(context, active, unverifiedItems(store, active.name, done), 'restore', signal, done);
      failures = 0;
    } catch (error) {
      failures++;
      if (!signal.aborted)
        logger.error(
          { connection: active.name, error: asSyncError(error) },
          'items of a restore could not be verified',
        );
    }
    await sleep(clock, failures === 0 ? ROUND_INTERVAL : retryPause(random, failures), signal);
  }
}

/** Yields the unverified items of a connection, except those that are done. */
async function* unverifiedItems(
  { query }: Store,
  connection: string,
  done: ReadonlySet<ItemKey>,
): AsyncGenerator<Item> {
  for (let position: UnverifiedPosition | undefined = START; position; ) {
    const rows = await unverifiedAfter(query, connection, position, BATCH_SIZE);
    for (const row of rows) {
      // A delivery may have confirmed it meanwhile.
      if (!done.has(row.key) && (await itemSummary(query, row.key)).isUnverified) yield readFields(row).item;
    }
    position = rows.at(-1);
  }
}

/** Fetches items one after the other. @param done receives those that were fetched, or that the vendor refused */
async function fetchEach(
  context: WorkspaceContext,
  active: ActiveConnection,
  items: AsyncGenerator<Item>,
  purpose: Purpose,
  signal: AbortSignal,
  done = new Set<ItemKey>(),
): Promise<void> {
  for await (const item of items) {
    if (signal.aborted) return;
    if (await fetchWithRetries(context, active, item, purpose, signal)) done.add(item.key);
    await sleep(context.clock, FETCH_INTERVAL, signal);
  }
}

/**
 * Fetches one item. Retries a few times after temporary failures; a rate limit does not count as one. Throws only what the database
 * throws.
 *
 * @returns whether a further attempt is useless, because the item was fetched or the vendor refused it
 */
async function fetchWithRetries(
  context: WorkspaceContext,
  { name, connector, connection }: ActiveConnection,
  item: Item,
  purpose: Purpose,
  signal: AbortSignal,
): Promise<boolean> {
  const { store, clock, random, logger } = context;
  const commitsSha = item.kind === 'pull_request' ? item.commitsSha : undefined;
  // Only reads of reviews count as polls.
  const known = { wantsReviews: purpose === 'poll', ...(commitsSha !== undefined && { commitsSha }) };
  for (let failures = 0; failures < MOST_ATTEMPTS; ) {
    await waitWhilePaused(context, name, signal);
    if (signal.aborted) return false;
    let fetched: Fetched;
    try {
      fetched = await forPurpose(purpose, () => connection.fetch(connector.reference(item), signal, known));
    } catch (thrown) {
      const error = asSyncError(thrown);
      if (signal.aborted) return false;
      const isLimit = error.code === 'rate_limited';
      if (!isLimit && error.verdict !== 'retry') {
        const { key: itemKey } = item;
        const fields = {
          connection: name,
          item: (await itemSummary(store.query, itemKey)).name,
          itemKey,
          code: error.code,
          error,
        };
        logger.warn(fields, 'item not fetched');
        return true;
      }
      if (!isLimit) failures++;
      await sleep(clock, error.retryAfter ?? retryPause(random, failures), signal);
      continue;
    }
    await appendRead(context, { ...fetched, connection: name, key: `fetch:${random.uuid()}`, source: 'fetch' });
    return true;
  }
  return false;
}

/** The time between two reads of reviews, milliseconds. */
const REVIEWS_EVERY = 3_600_000;
/** The number of open items that are read from the database at once. */
const OPEN_BATCH_SIZE = 100;

/**
 * Returns jobs that read reviews once an hour, for connections whose rules need them and that get no webhooks. A job reads those of
 * each open pull request that is linked to a task and has changed since the last read. Its requests count as polls.
 */
export function reviewJobs(context: WorkspaceContext): Job[] {
  return context.connections
    .filter(({ readsReviews }) => readsReviews)
    .map((active) => ({
      name: `reviews.${active.name}`,
      when: { everyMs: REVIEWS_EVERY },
      run: (signal) => fetchEach(context, active, itemsToReview(context, active), 'poll', signal),
    }));
}

/** Yields the items of a connection whose reviews may have changed. */
async function* itemsToReview(context: WorkspaceContext, active: ActiveConnection): AsyncGenerator<Item> {
  for (let after: ItemKey | undefined = ''; after !== undefined; ) {
    const keys: readonly ItemKey[] = await itemsAfter(context.store.query, after, OPEN_BATCH_SIZE);
    yield* await itemsToRead(context, active, keys);
    after = keys.length < OPEN_BATCH_SIZE ? undefined : keys.at(-1);
  }
}

async function itemsToRead(
  { store }: WorkspaceContext,
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
