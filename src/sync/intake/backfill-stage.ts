import type { HistoryPage } from '../../connectors/connector.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { Cancel } from '../../platform/lib/clock.ts';
import { onClockSetBack } from '../../platform/lib/clock-set-back.ts';
import { LARGE } from '../../platform/lib/large.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import { extendTrail, NO_PAGES, type PageTrail } from '../../platform/lib/page-trail.ts';
import { backoff } from '../../platform/lib/random.ts';
import type { Stage } from '../../platform/lib/stage.ts';
import { createWakeSignal, type WakeSignal } from '../../platform/lib/wake-signal.ts';
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
import type { ActiveConnection } from './active-connection.ts';
import { readSpan } from './append.ts';
import type { Pauses } from './pauses.ts';
import type { WalkDeps } from './poll-walk.ts';

export interface BackfillDeps extends WalkDeps {
  readonly connections: readonly ActiveConnection[];
  readonly pauses: Pauses;
  readonly logger: Logger;
  readonly meter: Meter;
}

export interface Backfills extends Stage {
  /** Notify after a commit of `askBackfill`. */
  notify(): void;
}

/** Between two pages of a connection, milliseconds: polls, fetches and people share the provider's limits with it. */
const PACE = 1_000;
/** While enough of what it read still waits, it checks again after this time, milliseconds. */
const FULL_PAUSE = 1_000;
const MOST_WAITING: BackfillBounds = { deliveries: 20, fetches: 200, changes: 1_000 };
/** First and longest pause after a failure: for what may succeed any time, and for what a person must resolve. Milliseconds. */
const FIRST_RETRY = 5_000;
const LONGEST_RETRY = 900_000;
const LONGEST_WAIT = 3_600_000;
/** Pause after the database failed, milliseconds. */
const STORE_PAUSE = 5_000;

/** Reads what connections have had since a time, as somebody asked, page by page from the newest. Goes on after a restart. */
export function createBackfills(deps: BackfillDeps): Backfills {
  const readers = deps.connections
    .filter(({ connection }) => connection.history !== undefined)
    .map((active) => createReader(deps, active));
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

/** One connection: a page at a time, the pauses of the provider shared with polls and fetches. */
function createReader(deps: BackfillDeps, active: ActiveConnection): Stage & { readonly wakeSignal: WakeSignal } {
  const wakeSignal = createWakeSignal();
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  let cancel: Cancel = () => undefined;
  const trails: Trails = new Map();
  const redate = () => clampBackfillTimes(deps.store, active.name, deps.clock.now());
  const mindTheClock = onClockSetBack(deps.clock, redate, true);

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const pause = await step();
      cancel = pause === undefined ? () => undefined : deps.clock.after(pause, wakeSignal.notify);
      await wakeSignal.wait();
      cancel();
    }
  }

  /** Never throws. @returns when to go on, milliseconds; undefined where there is nothing to do */
  async function step(): Promise<number | undefined> {
    try {
      const next = await nextToRead(deps, active, mindTheClock);
      return typeof next === 'object' ? await read(deps, { active, trails }, next, stopping.signal) : next;
    } catch (error) {
      deps.logger.error({ error: asSyncError(error) }, 'backfill cannot read or write its state');
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

/**
 * The trail of each unit, by its name. A restart forgets them: a circle is then found again, and the stored number of pages
 * bounds the walk anyway.
 */
type Trails = Map<string, PageTrail>;

interface Reader {
  readonly active: ActiveConnection;
  readonly trails: Trails;
}

/** @returns when to look again, milliseconds, where none may be read now; undefined where there is nothing to read */
async function nextToRead(
  deps: BackfillDeps,
  active: ActiveConnection,
  mindTheClock: () => Promise<boolean>,
): Promise<BackfillRow | number | undefined> {
  const { store, clock, pauses } = deps;
  const { name } = active;
  const now = clock.now();
  const unit = await nextBackfillUnit(store.query, name, now);
  if (unit === undefined) return undefined;
  if (await mindTheClock()) return nextToRead(deps, active, mindTheClock);
  const wait = unit.not_before - now;
  if (wait > 0) return wait;
  const paused = pauses.left(name, 'background');
  if (paused > 0) return paused;
  return (await isBackfillAhead(store.query, name, MOST_WAITING)) ? FULL_PAUSE : unit;
}

async function read(
  deps: BackfillDeps,
  reader: Reader,
  unit: BackfillRow,
  signal: AbortSignal,
): Promise<number | undefined> {
  try {
    if (unit.unit === ALL_UNITS) await list(deps, reader.active, unit, signal);
    else await readPage(deps, reader, unit, signal);
    return PACE;
  } catch (thrown) {
    if (signal.aborted) return undefined;
    return onFailure(deps, unit, asSyncError(thrown));
  }
}

async function list(
  { store }: BackfillDeps,
  { connection }: ActiveConnection,
  asked: BackfillRow,
  signal: AbortSignal,
) {
  const units = await connection.units(signal);
  await store.commit((transaction) => splitBackfill(transaction, asked, units));
}

/** The page and the position after it are one transaction, so a process that dies in between stores none twice. */
async function readPage(deps: BackfillDeps, { active, trails }: Reader, unit: BackfillRow, signal: AbortSignal) {
  const { store, clock, random, inbox, meter, logger, tracer } = deps;
  const { since, page } = unit;
  const position = { unit: unit.unit, ...(since === null ? {} : { since }), ...(page === null ? {} : { page }) };
  const from = clock.now();
  const read = (await active.connection.history?.(position, signal)) as HistoryPage;
  const { event, body, total, next } = read;
  const known = page === null ? undefined : trails.get(unit.unit);
  const { trail, fault } = extendTrail({ ...(known ?? NO_PAGES), pages: unit.pages }, read);
  const error = fault && new SyncError('list_endless', `the list was left: ${fault.message}`);
  const packed = await packBodyAsync(body);
  const items = await countItems(active, read, packed);
  const row = await store.commit(async (transaction) => {
    const now = clock.now();
    if (!(await advanceBackfill(transaction, unit, { items, total, next }, now))) return undefined;
    if (error)
      await finishBackfillUnit(transaction, { ...unit, page: next ?? null }, now, `${error.code}: ${error.message}`);
    const key = `backfill:${random.uuid()}`;
    const delivery = { connection: active.name, key, source: 'backfill' as const, event, body, packed };
    return (await appendDeliveries(transaction, [delivery], now))[0];
  });
  if (!row) return;
  if (error || next === undefined) trails.delete(unit.unit);
  else trails.set(unit.unit, trail);
  if (error) logger.warn({ connection: active.name, unit: unit.unit, code: error.code, error }, 'backfill failed');
  inbox.notify();
  tracer?.record(readSpan('backfill', row, { connection: active.name, event, from, to: clock.now() }));
  meter.count('backfill_pages_total', { connection: active.name, outcome: 'read' });
  logger.debug({ connection: active.name, unit: unit.unit, pages: unit.pages + 1, items }, 'page of a backfill read');
}

/** For the progress; what cannot be read shows in quarantine. */
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
 * What can never be read ends its unit; everything else is tried again. By commits: one that has lost the workspace leaves no
 * failure to its owner. @returns when to go on, milliseconds
 */
async function onFailure(deps: BackfillDeps, unit: BackfillRow, error: SyncError): Promise<number> {
  const { store, clock, random, pauses, meter, logger } = deps;
  const { connection } = unit;
  // What the vendor has switched off has no history.
  if (error.code === 'feature_off') {
    await store.commit((transaction) => finishBackfillUnit(transaction, unit, clock.now()));
    return PACE;
  }
  const limit = pauses.recordFailure(connection, error, 'background');
  meter.count('backfill_pages_total', { connection, outcome: limit > 0 ? 'limited' : 'failed' });
  logger.warn({ connection, unit: unit.unit, code: error.code, error }, 'backfill failed');
  const text = `${error.code}: ${error.message}`;
  if (error.verdict === 'never') {
    await store.commit((transaction) => finishBackfillUnit(transaction, unit, clock.now(), text));
    return PACE;
  }
  const longest = error.verdict === 'retry' ? LONGEST_RETRY : LONGEST_WAIT;
  const pause = limit > 0 ? limit : backoff(random, unit.attempts, FIRST_RETRY, longest);
  const postponed = { error: text, notBefore: clock.now() + pause };
  await store.commit((transaction) => postponeBackfill(transaction, unit, postponed));
  // Another unit may be read meanwhile.
  return PACE;
}
