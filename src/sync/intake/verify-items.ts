import { asSyncError } from '../../model/errors/sync-error.ts';
import type { ItemKey } from '../../model/item.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import { forPurpose } from '../../platform/lib/purpose.ts';
import { backoff, type Random } from '../../platform/lib/random.ts';
import type { Stage } from '../../platform/lib/stage.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { appendDeliveries } from '../../store/append-deliveries.ts';
import { packBodyAsync } from '../../store/bodies.ts';
import type { Store } from '../../store/database.ts';
import { isUnverified, readFields, type UnverifiedPosition, unverifiedAfter } from '../../store/items.ts';
import type { ActiveConnection } from './active-connection.ts';
import type { Pauses } from './pauses.ts';

export interface VerifyDeps {
  readonly store: Store;
  readonly connections: readonly ActiveConnection[];
  readonly pauses: Pauses;
  /** Notified when a fetched object is in the inbox. */
  readonly inbox: WakeSignal;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/** Time between two fetches of a connection, milliseconds, because some vendors report no limit. */
const PACE = 2_000;
/** Items read from the database at once. */
const AT_ONCE = 20;
/** Time between two rounds over the items that are still unverified, milliseconds. */
const LOOK_EVERY = 3_600_000;
/** The first and the longest pause after a temporary failure, milliseconds. */
const FIRST_RETRY = 5_000;
const LONGEST_RETRY = 900_000;
/** Attempts for one item before the others continue; the next round tries it again. */
const MOST_TRIES = 6;

/** The position before the first item; open items come first. */
const START: UnverifiedPosition = { finished: 0, key: '' };

/**
 * After a restore, fetches every item once, open ones first, because nothing is written about an item before the provider has
 * confirmed it. The fetches take at most a fifth of the vendor's limit: see `Budget`. What cannot be fetched waits for its next
 * delivery; it is tried again after a restart.
 */
export function createVerification(deps: VerifyDeps): Stage {
  let stopping: AbortController | undefined;
  let running: Promise<unknown> = Promise.resolve();
  return {
    start() {
      if (stopping) return;
      stopping = new AbortController();
      const { signal } = stopping;
      running = Promise.all(deps.connections.map((active) => verifyConnection(deps, active, signal)));
    },
    async stop() {
      stopping?.abort();
      await running;
      stopping = undefined;
    },
  };
}

/** Never rejects. Ends when no item of the connection is unverified. */
async function verifyConnection(deps: VerifyDeps, active: ActiveConnection, signal: AbortSignal): Promise<void> {
  const { store, clock, logger } = deps;
  const tried = new Set<ItemKey>();
  while (!signal.aborted) {
    try {
      const isAny = (await unverifiedAfter(store.query, active.name, START, 1)).length > 0;
      if (!isAny) return;
      await verifyAll(deps, active, tried, signal);
    } catch (error) {
      if (!signal.aborted)
        logger.error(
          { connection: active.name, error: asSyncError(error) },
          'items of a restore could not be verified',
        );
    }
    await sleep(clock, LOOK_EVERY, signal);
  }
}

async function verifyAll(
  deps: VerifyDeps,
  active: ActiveConnection,
  tried: Set<ItemKey>,
  signal: AbortSignal,
): Promise<void> {
  for (let place: UnverifiedPosition | undefined = START; place && !signal.aborted; ) {
    const rows = await unverifiedAfter(deps.store.query, active.name, place, AT_ONCE);
    for (const row of rows) {
      if (signal.aborted) return;
      // A delivery may have confirmed it meanwhile.
      if (tried.has(row.key) || !(await isUnverified(deps.store.query, row.key))) continue;
      if (await verify(deps, active, row, signal)) tried.add(row.key);
      await sleep(deps.clock, PACE, signal);
    }
    place = rows.at(-1);
  }
}

type Row = Awaited<ReturnType<typeof unverifiedAfter>>[number];

/**
 * Fetches one item. Waits where only time helps, and passes over what the vendor refuses.
 *
 * @returns whether it need not be tried again: it was fetched, or refused
 */
async function verify(deps: VerifyDeps, active: ActiveConnection, row: Row, signal: AbortSignal): Promise<boolean> {
  const { clock, pauses, logger } = deps;
  for (let failures = 0; failures < MOST_TRIES; ) {
    for (let left = pauses.left(active.name, 'background'); left > 0 && !signal.aborted; ) {
      await sleep(clock, left, signal);
      left = pauses.left(active.name, 'background');
    }
    if (signal.aborted) return false;
    try {
      await fetchItem(deps, active, row, signal);
      return true;
    } catch (thrown) {
      const error = asSyncError(thrown);
      if (signal.aborted) return false;
      const isLimit = error.code === 'rate_limited';
      if (!isLimit && error.verdict !== 'retry') {
        logger.warn({ connection: active.name, item: row.key, code: error.code, error }, 'item not verified');
        return true;
      }
      if (!isLimit) failures++;
      await sleep(clock, error.retryAfter ?? backoff(deps.random, failures, FIRST_RETRY, LONGEST_RETRY), signal);
    }
  }
  return false;
}

async function fetchItem(
  { store, clock, random, inbox }: VerifyDeps,
  { name: connection, connector, connection: vendor }: ActiveConnection,
  row: Row,
  signal: AbortSignal,
): Promise<void> {
  const { item } = readFields(row);
  const known = item.kind === 'pull_request' && item.commitsSha !== undefined ? { commitsSha: item.commitsSha } : {};
  const { event, body } = await forPurpose('restore', () => vendor.fetch(connector.reference(item), signal, known));
  const packed = await packBodyAsync(body);
  const delivery = { connection, key: `fetch:${random.uuid()}`, source: 'fetch' as const, event, body, packed };
  await store.commit((transaction) => appendDeliveries(transaction, [delivery], clock.now()));
  inbox.notify();
}
