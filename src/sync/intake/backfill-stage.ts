import type { HistoryPage } from '../../connectors/connector.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import { type Cancel, onClockSetBack } from '../../platform/lib/clock.ts';
import { extendTrail, NO_PAGES, type PageTrail } from '../../platform/lib/page-trail.ts';
import { backoff } from '../../platform/lib/random.ts';
import type { Stage } from '../../platform/lib/scheduler.ts';
import { createWakeSignal, type WakeSignal } from '../../platform/lib/wake-signal.ts';
import { LARGE } from '../../platform/lib/yield.ts';
import { appendDeliveries } from '../../store/append-deliveries.ts';
import {
  advanceBackfill,
  type BackfillBounds,
  type BackfillRow,
  clampBackfillTimes,
  finishBackfillUnit,
  isBackfillAhead,
  nextBackfillUnit,
  postponeBackfill,
  splitBackfill,
} from '../../store/backfills.ts';
import { packBodyAsync, type StoredBody } from '../../store/bodies.ts';
import { ALL_UNITS } from '../../store/poll-states.ts';
import type { ActiveConnection, IntakeContext } from './active-connection.ts';
import { readSpan } from './append.ts';

export interface Backfills extends Stage {
  /** To call after a commit of `requestBackfill`. */
  notify(): void;
}

/**
 * The time between two pages of a connection, milliseconds, because polls, fetches and people share the vendor's
 * limits.
 */
const PAGE_INTERVAL = 1_000;
/** The time between two checks while the stages behind have enough to do, milliseconds. */
const AHEAD_PAUSE = 1_000;
/** The pending work from a backfill above which no page is read, so that live deliveries do not wait behind it. */
const MOST_PENDING: BackfillBounds = { deliveries: 20, fetches: 200, changes: 1_000 };
/**
 * The pauses after a failure: the first, the longest for a temporary failure, and the longest for one that a person
 * must resolve.
 */
const FIRST_RETRY = 5_000;
const LONGEST_RETRY = 900_000;
const LONGEST_WAIT = 3_600_000;
/** The pause after the database failed, milliseconds. */
const STORE_PAUSE = 5_000;

/** Reads older items of connections on request, page by page from the newest. Continues after a restart. */
export function createBackfills(context: IntakeContext): Backfills {
  const readers = context.connections
    .filter(({ connection }) => connection.history !== undefined)
    .map((active) => createReader(context, active));
  return {
    notify() {
      for (const reader of readers) reader.wakeSignal.notify();
    },
    start() {
      for (const reader of readers) reader.start();
    },
    async stop() {
      await Promise.all(readers.map((reader) => reader.stop()));
    },
  };
}

/**
 * The trail of each unit. It is in memory only: after a restart a circle of pages is found again, and the stored number
 * of pages limits the walk in any case.
 */
type Trails = Map<string, PageTrail>;

/** Reads the backfill of one connection, one page at a time. */
function createReader(context: IntakeContext, active: ActiveConnection): Stage & { readonly wakeSignal: WakeSignal } {
  const { store, clock, logger } = context;
  const wakeSignal = createWakeSignal();
  const stopping = new AbortController();
  const trails: Trails = new Map();
  const clampTimes = () => clampBackfillTimes(store, active.name, clock.now());
  const clampTimesIfSetBack = onClockSetBack(clock, clampTimes, true);
  let loop: Promise<void> | undefined;
  let cancel: Cancel = () => undefined;

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const pause = await readNext();
      cancel = pause === undefined ? () => undefined : clock.after(pause, wakeSignal.notify);
      await wakeSignal.wait();
      cancel();
    }
  }

  /** Never throws. @returns the pause before the next page, milliseconds; undefined if there is nothing to read */
  async function readNext(): Promise<number | undefined> {
    try {
      const next = await nextUnit(context, active.name, clampTimesIfSetBack);
      return typeof next === 'object' ? await readUnit(context, { active, trails }, next, stopping.signal) : next;
    } catch (error) {
      logger.error({ error: asSyncError(error) }, 'backfill cannot read or write its state');
      return STORE_PAUSE;
    }
  }

  return {
    wakeSignal,
    start() {
      if (!stopping.signal.aborted) loop ??= run();
    },
    async stop() {
      stopping.abort();
      wakeSignal.notify();
      await loop;
      cancel();
    },
  };
}

/** @returns a number if no unit may be read now: the pause, milliseconds; undefined if there is no unit to read */
async function nextUnit(
  context: IntakeContext,
  connection: string,
  clampTimesIfSetBack: () => Promise<boolean>,
): Promise<BackfillRow | number | undefined> {
  const { store, clock, pauses } = context;
  const now = clock.now();
  const unit = await nextBackfillUnit(store.query, connection, now);
  if (unit === undefined) return undefined;
  if (await clampTimesIfSetBack()) return nextUnit(context, connection, clampTimesIfSetBack);
  const wait = unit.not_before - now;
  if (wait > 0) return wait;
  const paused = pauses.left(connection, 'background');
  if (paused > 0) return paused;
  return (await isBackfillAhead(store.query, connection, MOST_PENDING)) ? AHEAD_PAUSE : unit;
}

interface Reader {
  readonly active: ActiveConnection;
  readonly trails: Trails;
}

/** @returns the pause before the next page, milliseconds; undefined after the signal aborted */
async function readUnit(
  context: IntakeContext,
  reader: Reader,
  unit: BackfillRow,
  signal: AbortSignal,
): Promise<number | undefined> {
  try {
    if (unit.unit === ALL_UNITS) await listUnits(context, reader.active, unit, signal);
    else await readPage(context, reader, unit, signal);
    return PAGE_INTERVAL;
  } catch (thrown) {
    if (signal.aborted) return undefined;
    return onFailure(context, unit, asSyncError(thrown));
  }
}

/** Replaces the row of the whole connection by a row for each unit. */
async function listUnits(
  { store }: IntakeContext,
  { connection }: ActiveConnection,
  requested: BackfillRow,
  signal: AbortSignal,
): Promise<void> {
  const units = await connection.units(signal);
  await store.commit((transaction) => splitBackfill(transaction, requested, units));
}

/** Stores a page and the position after it in one transaction, so that a crash stores no page twice. */
async function readPage(
  context: IntakeContext,
  { active, trails }: Reader,
  unit: BackfillRow,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, random, inbox, meter, logger, tracer } = context;
  const connection = active.name;
  const from = clock.now();
  const answer = (await active.connection.history?.(positionOf(unit), signal)) as HistoryPage;
  const { event, body, total, next } = answer;
  const previousTrail = unit.page === null ? undefined : trails.get(unit.unit);
  const { trail, fault } = extendTrail({ ...(previousTrail ?? NO_PAGES), pages: unit.pages }, answer);
  const error = fault && new SyncError('list_endless', `the list was left: ${fault.message}`);
  const packed = await packBodyAsync(body);
  const items = await countItems(active, answer, packed);

  const row = await store.commit(async (transaction) => {
    const now = clock.now();
    if (!(await advanceBackfill(transaction, unit, { items, total, next }, now))) return undefined;
    if (error)
      await finishBackfillUnit(transaction, { ...unit, page: next ?? null }, now, `${error.code}: ${error.message}`);
    const key = `backfill:${random.uuid()}`;
    const delivery = { connection, key, source: 'backfill' as const, event, body, packed };
    return (await appendDeliveries(transaction, [delivery], now))[0];
  });
  // The backfill was stopped or requested again meanwhile.
  if (!row) return;

  if (error || next === undefined) trails.delete(unit.unit);
  else trails.set(unit.unit, trail);
  if (error) logger.warn({ connection, unit: unit.unit, code: error.code, error }, 'backfill failed');
  inbox.notify();
  tracer?.record(readSpan('backfill', row, { connection, event, from, to: clock.now() }));
  meter.count('backfill_pages_total', { connection, outcome: 'read' });
  logger.debug({ connection, unit: unit.unit, pages: unit.pages + 1, items }, 'page of a backfill read');
}

function positionOf({ unit, since, page }: BackfillRow) {
  return { unit, ...(since === null ? {} : { since }), ...(page === null ? {} : { page }) };
}

/**
 * Returns the number of items on a page, for the progress; 0 if the page cannot be read. Quarantine shows such a page.
 */
async function countItems(active: ActiveConnection, { event, body }: HistoryPage, stored: StoredBody): Promise<number> {
  const { connector, options, translateInWorker } = active;
  try {
    const translation =
      translateInWorker && body.length > LARGE
        ? await translateInWorker({ source: 'backfill', event, stored })
        : connector.translate({ source: 'backfill', event, body }, options);
    if (translation.outcome === 'ignored') return 0;
    const items = translation.outcome === 'items' ? translation.items.length : 0;
    return items + (translation.references?.length ?? 0);
  } catch {
    return 0;
  }
}

/**
 * Ends the unit if it can never be read, or if the vendor has switched it off. Postpones it after any other failure;
 * another unit may be read meanwhile. Failures are stored by commits, which check the lease, so a process that has lost
 * the workspace records no failure for its new owner.
 *
 * @returns the pause before the next page, milliseconds
 */
async function onFailure(context: IntakeContext, unit: BackfillRow, error: SyncError): Promise<number> {
  const { store, clock, random, pauses, meter, logger } = context;
  const { connection } = unit;
  if (error.code === 'feature_off') {
    await store.commit((transaction) => finishBackfillUnit(transaction, unit, clock.now()));
    return PAGE_INTERVAL;
  }
  const limit = pauses.recordFailure(connection, error, 'background');
  meter.count('backfill_pages_total', { connection, outcome: limit > 0 ? 'limited' : 'failed' });
  logger.warn({ connection, unit: unit.unit, code: error.code, error }, 'backfill failed');
  const text = `${error.code}: ${error.message}`;
  if (error.verdict === 'never') {
    await store.commit((transaction) => finishBackfillUnit(transaction, unit, clock.now(), text));
    return PAGE_INTERVAL;
  }
  const longest = error.verdict === 'retry' ? LONGEST_RETRY : LONGEST_WAIT;
  const pause = limit > 0 ? limit : backoff(random, unit.attempts, FIRST_RETRY, longest);
  const postponed = { error: text, notBefore: clock.now() + pause };
  await store.commit((transaction) => postponeBackfill(transaction, unit, postponed));
  return PAGE_INTERVAL;
}
