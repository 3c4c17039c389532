import type { Fetched, Known } from '../../connectors/connector.ts';
import type { ErrorCode } from '../../model/errors/codes.ts';
import { asSyncError, type SyncError } from '../../model/errors/sync-error.ts';
import type { Cancel, Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import { backoff, type Random } from '../../platform/lib/random.ts';
import type { Stage } from '../../platform/lib/stage.ts';
import type { Tracer } from '../../platform/lib/tracer.ts';
import { createWakeSignal, type WakeSignal } from '../../platform/lib/wake-signal.ts';
import { appendDeliveries } from '../../store/append-deliveries.ts';
import { packBodyAsync } from '../../store/bodies.ts';
import type { Store } from '../../store/database.ts';
import { findItem, readFields } from '../../store/items.ts';
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
} from '../../store/wanted-fetches.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { ActiveConnection } from './active-connection.ts';
import { readSpan } from './append.ts';
import type { Pauses } from './pauses.ts';

export interface FetchDeps {
  readonly store: Store;
  readonly connections: readonly ActiveConnection[];
  readonly pauses: Pauses;
  /** Notified when a fetched object is in the inbox. */
  readonly inbox: WakeSignal;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly tracer?: Tracer;
}

export interface Fetches extends Stage {
  /** Notify after a commit of `requestFetch`. */
  readonly wakeSignal: WakeSignal;
  /** True when no fetch runs and none is due, as far as wake-ups reported. */
  idle(): boolean;
}

const MOST_AT_ONCE = 4;
/** Longest pause between tries: for what may succeed any time, and for what a person must resolve. Milliseconds. */
const LONGEST_RETRY = 60_000;
const LONGEST_WAIT = 3_600_000;
/** Longest pause of a connection whose provider does not answer, milliseconds. */
const LONGEST_OUTAGE_PAUSE = 30_000;
/** Refusals of one object that a repetition does not change, and after how many of them worksync stops asking for it. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['not_found', 'forbidden', 'refused']);
const MOST_REFUSALS = 5;
/** Pause after the database failed, milliseconds. */
const STORE_PAUSE = 5_000;

/** Fetches the objects that reconcile asks for. What it gets becomes a delivery. */
export function createFetches(deps: FetchDeps): Fetches {
  const wakeSignal = createWakeSignal();
  const stopping = new AbortController();
  const lines = deps.connections.map((active) => createFetchQueue(deps, active, stopping.signal, () => notify()));
  let loop: Promise<void> | undefined;
  // Rings so far, and how many of them a finished look has answered.
  let wakeUps = 1;
  let answered = 0;
  let cancelTimer: Cancel = () => undefined;

  function notify(): void {
    wakeUps++;
    wakeSignal.notify();
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const heard = wakeUps;
      await revive();
      const pause = await look();
      answered = heard;
      cancelTimer = pause === undefined ? () => undefined : deps.clock.after(pause, notify);
      await wakeSignal.wait();
      cancelTimer();
    }
  }

  let isRevived = false;

  /** A store that takes no writes does not hold up the fetches: the next look tries again. */
  async function revive(): Promise<void> {
    if (isRevived) return;
    try {
      await reviveFetches(deps.store, deps.clock.now());
      isRevived = true;
    } catch (error) {
      deps.logger.error({ error: asSyncError(error) }, 'refused fetches could not be revived');
    }
  }

  /** Starts what may start. Returns milliseconds until the next check, where no wake-up will come. */
  async function look(): Promise<number | undefined> {
    try {
      await dropOrphans(deps);
      for (const line of lines) await line.fill();
      return await untilNext();
    } catch (error) {
      deps.logger.error({ error: asSyncError(error) }, 'fetches could not be read');
      return STORE_PAUSE;
    }
  }

  async function untilNext(): Promise<number | undefined> {
    const now = deps.clock.now();
    const next = await nextFetchTime(deps.store.query, now);
    const pauses = deps.connections.map(({ name }) => deps.pauses.left(name, 'fetch')).filter((left) => left > 0);
    const waits = next === undefined ? pauses : [...pauses, Math.min(next - now, LONGEST_WAIT)];
    return waits.length === 0 ? undefined : Math.min(...waits);
  }

  return {
    wakeSignal: { notify, wait: wakeSignal.wait },
    idle: () => answered === wakeUps && lines.every((line) => line.isIdle()),
    start() {
      if (!stopping.signal.aborted) loop ??= run();
    },
    async stop() {
      stopping.abort();
      wakeSignal.notify();
      await loop;
      await Promise.all(lines.map((line) => line.finish()));
      cancelTimer();
    },
  };
}

async function dropOrphans({ store, connections, logger }: FetchDeps): Promise<void> {
  const names = connections.map(({ name }) => name);
  for (const connection of await dropOrphanFetches(store.query, names))
    logger.warn({ connection }, 'fetches dropped: the connection is no longer configured');
}

interface Line {
  /** Starts due fetches up to the bound. */
  fill(): Promise<void>;
  isIdle(): boolean;
  finish(): Promise<void>;
}

/** The fetches of one connection. */
function createFetchQueue(deps: FetchDeps, active: ActiveConnection, signal: AbortSignal, onDone: () => void): Line {
  const underWay = new Map<string, Promise<void>>();
  /** Failures in a row that say that the provider is out of reach, rather than that one object is bad. */
  let outages = 0;

  async function run(wanted: WantedFetch): Promise<void> {
    try {
      const known = await knownOf(deps, active, wanted);
      const from = deps.clock.now();
      await keep(deps, wanted, { from, ...(await active.connection.fetch(wanted.reference, signal, known)) });
      outages = 0;
    } catch (thrown) {
      if (!signal.aborted) await onFailure(wanted, asSyncError(thrown));
    } finally {
      underWay.delete(wanted.key);
      onDone();
    }
  }

  async function onFailure(wanted: WantedFetch, error: SyncError): Promise<void> {
    outages = isOutage(error) ? outages + 1 : 0;
    const outage = outages > 0 ? backoff(deps.random, outages, undefined, LONGEST_OUTAGE_PAUSE) : 0;
    deps.pauses.recordFailure(active.name, error, 'fetch');
    if (outage > 0) deps.pauses.pause(active.name, outage);
    deps.logger.warn({ ...about(wanted), code: error.code, attempts: wanted.attempts + 1, error }, 'fetch failed');
    await postpone(deps, wanted, error);
  }

  return {
    async fill() {
      if (signal.aborted || deps.pauses.left(active.name, 'fetch') > 0) return;
      // Of one that ends meanwhile the answer may still tell: it was under way when the store was asked.
      const before = new Set(underWay.keys());
      const due = await dueFetches(deps.store.query, active.name, deps.clock.now(), LONGEST_WAIT, 2 * MOST_AT_ONCE);
      for (const wanted of due) {
        if (underWay.size >= MOST_AT_ONCE) return;
        if (!underWay.has(wanted.key) && !before.has(wanted.key))
          underWay.set(wanted.key, Promise.resolve(wanted).then(run));
      }
    },
    isIdle: () => underWay.size === 0,
    finish: async () => void (await Promise.all(underWay.values())),
  };
}

/** The commits of a head never change: those that were read are not read again. */
async function knownOf({ store }: FetchDeps, active: ActiveConnection, { reference }: WantedFetch): Promise<Known> {
  if (reference.kind !== 'pull_request' || !active.connector.fetchesCommits?.(active.options)) return {};
  const row = await findItem(store.query, reference.key);
  const item = row && readFields(row).item;
  return item?.kind === 'pull_request' && item.commitsSha !== undefined ? { commitsSha: item.commitsSha } : {};
}

/** One transaction appends the object to the inbox and deletes the request, unless the object was requested again. */
async function keep(deps: FetchDeps, wanted: WantedFetch, got: Fetched & { readonly from: number }) {
  const { store, clock, random, inbox, logger, tracer } = deps;
  const key = `fetch:${random.uuid()}`;
  const packed = await packBodyAsync(got.body);
  const { connection } = wanted;
  const row = await store.commit(async (transaction) => {
    const delivery = { connection, key, source: 'fetch' as const, event: got.event, body: got.body, packed };
    const [appended] = await appendDeliveries(transaction, [delivery], clock.now());
    await settleFetch(transaction, wanted);
    return appended;
  });
  inbox.notify();
  const came = { connection, event: got.event, from: got.from, to: clock.now(), wantedBy: wanted.deliveryId };
  if (row) tracer?.record(readSpan('fetch', row, came));
  // Under a number of its own: `delivery` is the one that asked.
  logger.debug({ ...about(wanted), fetched: row?.id, key, bytes: got.body.length }, 'object fetched');
}

/**
 * A limit is the connection's matter, so the row keeps its place. A refusal that no repetition changes ends the tries. A disk that is full takes no note, and neither does a workspace
 * that others own by now: they fetch it themselves, and no later for our failure.
 */
async function postpone(deps: FetchDeps, wanted: WantedFetch, error: SyncError) {
  const { store, clock, random, logger, pauses } = deps;
  const longest = error.verdict === 'retry' ? LONGEST_RETRY : LONGEST_WAIT;
  const isLast = REFUSALS.has(error.code) && wanted.attempts + 1 >= MOST_REFUSALS;
  const pause = error.code === 'rate_limited' ? 0 : backoff(random, wanted.attempts + 1, FIRST_PAUSE, longest);
  try {
    await store.commit(async (transaction) => {
      if (error.code === 'not_found' && (await isHeldAsGone(transaction, wanted)))
        await settleFetch(transaction, wanted);
      else
        await postponeFetch(
          transaction,
          wanted,
          `${error.code}: ${error.message}`,
          isLast ? NEVER : clock.now() + pause,
        );
    });
  } catch (failure) {
    logger.error({ ...about(wanted), error: failure }, 'fetch failure not recorded');
    // Its row is still due: without a pause it would be fetched again and again for as long as nothing can be written.
    pauses.pause(wanted.connection, STORE_PAUSE);
  }
}

/** Some vendors prove no more than that the thing cannot be seen: that contradicts nothing. */
async function isHeldAsGone(query: Scope, { reference }: WantedFetch): Promise<boolean> {
  return (await findItem(query, reference.key))?.gone === 1;
}

function isOutage({ code }: SyncError): boolean {
  return code === 'unreachable' || code === 'outcome_unknown' || code === 'server_failed';
}

function about({ connection, reference, deliveryId }: WantedFetch) {
  return { connection, item: reference.key, delivery: deliveryId };
}
