import type { Fetched, Known } from '../../connectors/connector.ts';
import { asSyncError, type ErrorCode, type StoredFailure, type SyncError } from '../../model/errors.ts';
import { backoff, type Cancel } from '../../platform/lib/clock.ts';
import { fetchKey, importKey } from '../../store/deliveries/inbox.ts';
import {
  dropOrphanFetches,
  dueFetches,
  FIRST_PAUSE,
  NEVER,
  nextFetchTime,
  postponeFetch,
  reviveFetches,
  settleFetch,
  type WantedFetch,
} from '../../store/deliveries/wanted-fetches.ts';
import { findItem, itemSummary, readFields } from '../../store/items/items.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { ActiveConnection, WorkspaceContext } from '../workspace-context.ts';
import { appendRead } from './read-pages.ts';

export type Fetches = ReturnType<typeof createFetches>;

/** A failure, and when it happened, epoch milliseconds. */
export type FetchFailure = StoredFailure & { readonly at: number };

/** The most fetches of a connection at a time. */
const MOST_RUNNING = 4;
/**
 * The longest pause after a failure that may end at any time, and after one that a person must resolve, milliseconds.
 */
const LONGEST_RETRY = 60_000;
const LONGEST_WAIT = 3_600_000;
/** The longest pause of a connection whose vendor is unreachable, milliseconds. */
const LONGEST_OUTAGE_PAUSE = 30_000;
/**
 * Errors for one object that a retry rarely changes, and the number of attempts after which such a fetch is given up.
 */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['not_found', 'forbidden', 'refused']);
const MOST_REFUSALS = 5;
/** The number of attempts after which a failure is reported, and the most failures that are remembered. */
const LASTING = 5;
const MOST_LASTING = 100;
/** The pause after the database failed, milliseconds. */
const STORE_PAUSE = 5_000;

/** Fetches the objects that reconcile requests, and appends each as a delivery. */
export function createFetches(context: WorkspaceContext) {
  const stopping = new AbortController();
  const queues = context.connections.map((active) => createFetchQueue(context, active, stopping.signal));
  let loop: Promise<void> | undefined;
  let isWaiting = false;
  let isRevived = false;
  let cancelTimer: Cancel = () => undefined;

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      await revive();
      const pause = await startDueFetches();
      cancelTimer = pause === undefined ? () => undefined : context.clock.after(pause, context.fetches.notify);
      isWaiting = true;
      await context.fetches.wait();
      isWaiting = false;
      cancelTimer();
    }
  }

  /**
   * After a restart, tries fetches again that were given up, or that fail again and again. A database that accepts no writes does not block other
   * fetches.
   */
  async function revive(): Promise<void> {
    if (isRevived) return;
    try {
      await reviveFetches(context.store, context.clock.now(), LASTING);
      isRevived = true;
    } catch (error) {
      context.logger.error({ error: asSyncError(error) }, 'refused fetches could not be revived');
    }
  }

  /** @returns milliseconds until the next pass, if no notification comes before */
  async function startDueFetches(): Promise<number | undefined> {
    try {
      await dropOrphans(context);
      for (const queue of queues) await queue.fill();
      return await untilNext();
    } catch (error) {
      context.logger.error({ error: asSyncError(error) }, 'fetches could not be read');
      return STORE_PAUSE;
    }
  }

  async function untilNext(): Promise<number | undefined> {
    const { store, clock, connections, pauses } = context;
    const now = clock.now();
    const next = await nextFetchTime(store.query, now);
    const left = connections.map(({ name }) => pauses.left(name, 'fetch')).filter((ms) => ms > 0);
    const waits = next === undefined ? left : [...left, Math.min(next - now, LONGEST_WAIT)];
    return waits.length === 0 ? undefined : Math.min(...waits);
  }

  return {
    /** Whether no fetch runs, and the stage waits for the next notification. */
    idle: () => isWaiting && queues.every((queue) => queue.isIdle()),
    /** Returns the failure of an object of a connection that was tried `LASTING` times, and is tried again. */
    failureOf: (connection: string) => queues.find(({ name }) => name === connection)?.failure(),
    start() {
      if (!stopping.signal.aborted) loop ??= run();
    },
    async stop() {
      stopping.abort();
      context.fetches.notify();
      await loop;
      await Promise.all(queues.map((queue) => queue.finish()));
      cancelTimer();
    },
  };
}

async function dropOrphans({ store, connections, logger }: WorkspaceContext): Promise<void> {
  const names = connections.map(({ name }) => name);
  for (const connection of await dropOrphanFetches(store.query, names))
    logger.warn({ connection }, 'fetches dropped: the connection is no longer configured');
}

/** Creates the queue of the fetches of one connection. */
function createFetchQueue(context: WorkspaceContext, active: ActiveConnection, signal: AbortSignal) {
  const { store, clock, random, pauses, logger } = context;
  const running = new Map<string, Promise<void>>();
  /** Failures in a row because the vendor is unreachable. */
  let outages = 0;
  /** The latest lasting failures by the key of the fetch, in the order of their last attempts. */
  const failing = new Map<string, FetchFailure>();

  async function run(wanted: WantedFetch): Promise<void> {
    try {
      const known = await knownOf(context, active, wanted);
      const from = clock.now();
      const fetched = await active.connection.fetch(wanted.reference, signal, known);
      await append(context, wanted, { from, ...fetched });
      outages = 0;
      failing.delete(wanted.key);
    } catch (thrown) {
      if (!signal.aborted) await onFailure(wanted, asSyncError(thrown));
    } finally {
      running.delete(wanted.key);
      context.fetches.notify();
    }
  }

  async function onFailure(wanted: WantedFetch, error: SyncError): Promise<void> {
    outages = isOutage(error) ? outages + 1 : 0;
    const outage = outages > 0 ? backoff(random, outages, undefined, LONGEST_OUTAGE_PAUSE) : 0;
    pauses.recordFailure(active.name, error, 'fetch');
    if (outage > 0) pauses.pause(active.name, outage);
    const { key } = wanted.reference;
    const { name: item } = await itemSummary(store.query, key).catch(() => ({ name: key }));
    const fields = { ...logFields(wanted), item, code: error.code, attempts: wanted.attempts + 1, error };
    logger.warn(fields, 'fetch failed');
    failing.delete(wanted.key);
    const { code, message, hint } = error;
    const isRepeated = await postpone(context, wanted, error);
    if (!isRepeated || wanted.attempts + 1 < LASTING) return;
    failing.set(wanted.key, { code, message, hint, at: clock.now() });
    const [oldest = ''] = failing.keys();
    if (failing.size > MOST_LASTING) failing.delete(oldest);
  }

  return {
    /** Starts due fetches up to the limit. */
    async fill() {
      if (signal.aborted || pauses.left(active.name, 'fetch') > 0) return;
      // The query may still return a fetch that ends while it runs.
      const before = new Set(running.keys());
      const due = await dueFetches(store.query, active.name, clock.now(), LONGEST_WAIT, 2 * MOST_RUNNING);
      for (const wanted of due) {
        if (running.size >= MOST_RUNNING) return;
        if (!running.has(wanted.key) && !before.has(wanted.key))
          running.set(wanted.key, Promise.resolve(wanted).then(run));
      }
    },
    name: active.name,
    isIdle: () => running.size === 0,
    failure: (): FetchFailure | undefined => failing.values().next().value,
    finish: async () => void (await Promise.all(running.values())),
  };
}

/** Returns the head whose commits are stored: the commits of a head never change, so they are not read again. */
async function knownOf(
  { store }: WorkspaceContext,
  active: ActiveConnection,
  { reference }: WantedFetch,
): Promise<Known> {
  if (reference.kind !== 'pull_request' || !active.connector.fetchesCommits?.(active.options)) return {};
  const row = await findItem(store.query, reference.key);
  const item = row && readFields(row).item;
  return item?.kind === 'pull_request' && item.commitsSha !== undefined ? { commitsSha: item.commitsSha } : {};
}

/** One transaction appends the object to the inbox and deletes the request, unless the object was requested again. */
async function append(context: WorkspaceContext, wanted: WantedFetch, fetched: Fetched & { readonly from: number }) {
  const { random, logger } = context;
  const { connection, deliveryId: wantedBy, isImport, webhook } = wanted;
  const key = isImport ? importKey(random.uuid()) : fetchKey(random.uuid(), webhook);
  const row = await appendRead(context, { ...fetched, connection, key, source: 'fetch', wantedBy }, async (query) => {
    await settleFetch(query, wanted);
    return true;
  });
  // The field `delivery` is the delivery that requested the fetch, so the new one has a field of its own.
  logger.debug({ ...logFields(wanted), fetched: row?.id, key, bytes: fetched.body.length }, 'object fetched');
}

/**
 * Stores the failure and the time of the next attempt.
 *
 * - A rate limit concerns the connection, so the fetch keeps its place.
 * - After the last refusal there is no further attempt.
 * - An item that is already gone stays gone: some vendors answer `not_found` only because the item is not visible.
 * - If the commit fails, because the disk is full or another process owns the workspace, nothing is stored.
 *
 * @returns whether the fetch is tried again by itself
 */
async function postpone(context: WorkspaceContext, wanted: WantedFetch, error: SyncError): Promise<boolean> {
  const { store, clock, random, logger, pauses } = context;
  const longest = error.verdict === 'retry' ? LONGEST_RETRY : LONGEST_WAIT;
  const isLast = REFUSALS.has(error.code) && wanted.attempts + 1 >= MOST_REFUSALS;
  const pause = error.code === 'rate_limited' ? 0 : backoff(random, wanted.attempts + 1, FIRST_PAUSE, longest);
  try {
    return await store.commit(async (transaction) => {
      const isSettled = error.code === 'not_found' && (await isGone(transaction, wanted));
      const text = `${error.code}: ${error.message}`;
      if (isSettled) await settleFetch(transaction, wanted);
      else await postponeFetch(transaction, wanted, text, isLast ? NEVER : clock.now() + pause);
      return !isSettled && !isLast;
    });
  } catch (failure) {
    logger.error({ ...logFields(wanted), error: failure }, 'fetch failure not recorded');
    // The row is still due. Without a pause it would be fetched again and again while nothing can be stored.
    pauses.pause(wanted.connection, STORE_PAUSE);
    return true;
  }
}

async function isGone(query: Scope, { reference }: WantedFetch): Promise<boolean> {
  return (await findItem(query, reference.key))?.gone === 1;
}

function isOutage({ code }: SyncError): boolean {
  return code === 'unreachable' || code === 'outcome_unknown' || code === 'server_failed';
}

function logFields({ connection, reference, deliveryId }: WantedFetch) {
  return { connection, itemKey: reference.key, delivery: deliveryId };
}
