import { asSyncError } from '../../model/errors/sync-error.ts';
import type { Item, ItemKey } from '../../model/item.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { forPurpose, type Purpose } from '../../platform/lib/purpose.ts';
import { backoff } from '../../platform/lib/random.ts';
import type { Stage } from '../../platform/lib/scheduler.ts';
import { appendDeliveries } from '../../store/append-deliveries.ts';
import { packBodyAsync } from '../../store/bodies.ts';
import { isUnverified, itemName, readFields, type UnverifiedPosition, unverifiedAfter } from '../../store/items.ts';
import type { ActiveConnection, IntakeContext } from './active-connection.ts';
import { waitWhilePaused } from './pauses.ts';

export type VerificationContext = Omit<IntakeContext, 'meter' | 'tracer'>;

/** The time between two fetches of a connection, milliseconds, because some vendors report no limit. */
export const FETCH_INTERVAL = 2_000;
/** The number of items that are read from the database at once. */
const BATCH_SIZE = 20;
/** The time between two rounds over the items that are still unverified, milliseconds. */
const ROUND_INTERVAL = 3_600_000;
/** The first and the longest pause after a temporary failure of the vendor or of the database, milliseconds. */
const FIRST_RETRY = 5_000;
const LONGEST_RETRY = 900_000;
/** The attempts for one item before the others continue. The next round tries it again. */
const MOST_ATTEMPTS = 6;

/** The position before the first item. Open items come first. */
const START: UnverifiedPosition = { finished: 0, key: '' };

/**
 * After a restore, fetches every item once, open items first, because worksync writes nothing about an item before the
 * vendor has confirmed it. The fetches use at most a fifth of the vendor's limit: see `Budget`. An item that cannot be
 * fetched waits for its next delivery, or for a restart.
 */
export function createVerification(context: VerificationContext): Stage {
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
  context: VerificationContext,
  active: ActiveConnection,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, random, logger } = context;
  const done = new Set<ItemKey>();
  for (let failures = 0; !signal.aborted; ) {
    try {
      const isAnyUnverified = (await unverifiedAfter(store.query, active.name, START, 1)).length > 0;
      if (!isAnyUnverified) return;
      await verifyAll(context, active, done, signal);
      failures = 0;
    } catch (error) {
      failures++;
      if (!signal.aborted)
        logger.error(
          { connection: active.name, error: asSyncError(error) },
          'items of a restore could not be verified',
        );
    }
    await sleep(clock, failures === 0 ? ROUND_INTERVAL : backoff(random, failures, FIRST_RETRY, LONGEST_RETRY), signal);
  }
}

/** @param done the items that were fetched or refused in this or an earlier round */
async function verifyAll(
  context: VerificationContext,
  active: ActiveConnection,
  done: Set<ItemKey>,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock } = context;
  for (let position: UnverifiedPosition | undefined = START; position && !signal.aborted; ) {
    const rows = await unverifiedAfter(store.query, active.name, position, BATCH_SIZE);
    for (const row of rows) {
      if (signal.aborted) return;
      // A delivery may have confirmed it meanwhile.
      if (done.has(row.key) || !(await isUnverified(store.query, row.key))) continue;
      const request = { item: readFields(row).item, purpose: 'restore' } as const;
      if (await fetchWithRetries(context, active, request, signal)) done.add(row.key);
      await sleep(clock, FETCH_INTERVAL, signal);
    }
    position = rows.at(-1);
  }
}

interface FetchRequest {
  readonly item: Item;
  readonly purpose: Purpose;
  readonly wantsReviews?: boolean;
}

/**
 * Fetches one item. Retries a few times after temporary failures; a rate limit does not count as one.
 *
 * @returns whether a further attempt is useless, because the item was fetched or the vendor refused it
 */
export async function fetchWithRetries(
  context: VerificationContext,
  active: ActiveConnection,
  request: FetchRequest,
  signal: AbortSignal,
): Promise<boolean> {
  const { store, clock, random, logger } = context;
  for (let failures = 0; failures < MOST_ATTEMPTS; ) {
    await waitWhilePaused(context, active.name, signal);
    if (signal.aborted) return false;
    try {
      await fetchItem(context, active, request, signal);
      return true;
    } catch (thrown) {
      const error = asSyncError(thrown);
      if (signal.aborted) return false;
      const isLimit = error.code === 'rate_limited';
      if (!isLimit && error.verdict !== 'retry') {
        const { key: itemKey } = request.item;
        const item = await itemName(store.query, itemKey);
        const fields = { connection: active.name, item, itemKey, code: error.code, error };
        logger.warn(fields, 'item not fetched');
        return true;
      }
      if (!isLimit) failures++;
      await sleep(clock, error.retryAfter ?? backoff(random, failures, FIRST_RETRY, LONGEST_RETRY), signal);
    }
  }
  return false;
}

async function fetchItem(
  { store, clock, random, inbox }: VerificationContext,
  { name, connector, connection }: ActiveConnection,
  { item, purpose, wantsReviews = false }: FetchRequest,
  signal: AbortSignal,
): Promise<void> {
  const commitsSha = item.kind === 'pull_request' ? item.commitsSha : undefined;
  const known = { wantsReviews, ...(commitsSha !== undefined && { commitsSha }) };
  const { event, body } = await forPurpose(purpose, () => connection.fetch(connector.reference(item), signal, known));
  const packed = await packBodyAsync(body);
  const delivery = { connection: name, key: `fetch:${random.uuid()}`, source: 'fetch' as const, event, body, packed };
  await store.commit((transaction) => appendDeliveries(transaction, [delivery], clock.now()));
  inbox.notify();
}
