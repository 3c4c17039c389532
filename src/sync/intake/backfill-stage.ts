import type { HistoryPage } from '../../connectors/connector.ts';
import { undefinedOn } from '../../connectors/kit/refusal.ts';
import { asSyncError, type SyncError } from '../../model/errors.ts';
import { createWakeSignal, onClockSetBack, type WakeSignal } from '../../platform/lib/clock.ts';
import { LARGE } from '../../platform/lib/concurrency.ts';
import { NO_PAGES, type PageTrail } from '../../platform/lib/page-trail.ts';
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
} from '../../store/connections/backfills.ts';
import { packBodyAsync, type StoredBody } from '../../store/deliveries/inbox.ts';
import type { ActiveConnection, WorkspaceContext } from '../workspace-context.ts';
import { LONGEST_RETRY, retryPause } from './pauses.ts';
import { appendRead, endlessList, type PageSelection, readPages } from './read-pages.ts';

/**
 * The time between two pages of a connection, milliseconds, because polls, fetches and people share the vendor's
 * limits.
 */
const PAGE_INTERVAL = 1_000;
/** The time between two checks while the stages behind have enough to do, milliseconds. */
const AHEAD_PAUSE = 1_000;
/** The pending work from a backfill above which no page is read, so that live deliveries do not wait behind it. */
const MOST_PENDING: BackfillBounds = { deliveries: 20, fetches: 200, changes: 1_000 };
/** The longest pause after a failure that a person must resolve, milliseconds. */
const LONGEST_WAIT = 3_600_000;
/** The pause of all units after a failure of the database, milliseconds. */
const FAILURE_PAUSE = 5_000;

/** Reads older items of connections on request, page by page from the newest. Continues after a restart. */
export function createBackfills(context: WorkspaceContext) {
  const stopping = new AbortController();
  const { signal } = stopping;
  const backfills = context.connections
    .filter(({ connection }) => connection.history !== undefined)
    .map((active) => ({ active, wakeSignal: createWakeSignal() }));
  let loops: Promise<unknown> | undefined;

  function notify(): void {
    for (const { wakeSignal } of backfills) wakeSignal.notify();
  }

  return {
    /** To call after a commit of `requestBackfill`. */
    notify,
    start() {
      if (signal.aborted) return;
      loops ??= Promise.all(
        backfills.map(({ active, wakeSignal }) =>
          readPages(context, selectBackfill(context, active, wakeSignal, signal), signal),
        ),
      );
    },
    async stop() {
      stopping.abort();
      notify();
      await loops;
    },
  };
}

type ReadPage = HistoryPage & {
  readonly trail: PageTrail;
  /** The time of the request, epoch milliseconds. */
  readonly from: number;
};

/** Selects, page by page, the unit with the fewest pages read. While there is none to read, waits until `wakeSignal` is notified. */
function selectBackfill(
  context: WorkspaceContext,
  active: ActiveConnection,
  wakeSignal: WakeSignal,
  signal: AbortSignal,
): PageSelection<BackfillRow, ReadPage | undefined> {
  const { store, clock, random, pauses, meter, logger } = context;
  const { name, connection: vendor } = active;
  const clampTimesIfSetBack = onClockSetBack(clock, () => clampBackfillTimes(store, name, clock.now()), true);
  /** In memory only: after a restart a circle is found again, and the stored number of pages limits the walk in any case. */
  const trails = new Map<string, PageTrail>();
  let pause = 0;

  async function wait(ms: number | undefined): Promise<void> {
    const cancel = ms === undefined ? undefined : clock.after(ms, wakeSignal.notify);
    await wakeSignal.wait();
    cancel?.();
  }

  /** @returns a number if no unit may be read now: the pause, milliseconds; undefined if there is no unit to read */
  async function nextUnit(): Promise<BackfillRow | number | undefined> {
    const now = clock.now();
    const unit = await nextBackfillUnit(store.query, name, now);
    if (unit === undefined) return undefined;
    if (await clampTimesIfSetBack()) return nextUnit();
    const left = Math.max(unit.not_before - now, pauses.left(name, 'background'));
    if (left > 0) return left;
    return (await isBackfillAhead(store.query, name, MOST_PENDING)) ? AHEAD_PAUSE : unit;
  }

  function onStoreFailure(error: unknown): number {
    logger.error({ error: asSyncError(error) }, 'backfill cannot read its state');
    return FAILURE_PAUSE;
  }

  return {
    connection: name,
    reader: 'backfill',
    async next() {
      if (pause > 0) await wait(pause);
      pause = PAGE_INTERVAL;
      while (!signal.aborted) {
        const unit = await nextUnit().catch(onStoreFailure);
        if (typeof unit === 'object') return unit;
        await wait(unit);
      }
      return undefined;
    },
    async selectUnits(requested) {
      const units = await vendor.units(signal);
      await store.commit((query) => splitBackfill(query, requested, units));
    },
    async request(unit) {
      const from = clock.now();
      const page = vendor.history && (await undefinedOn(vendor.history(positionOf(unit), signal), 'feature_off'));
      const before = unit.page === null ? undefined : trails.get(unit.unit);
      return page && { ...page, from, trail: { ...(before ?? NO_PAGES), pages: unit.pages } };
    },
    async keep(unit, page, { trail, fault }) {
      if (!page) return store.commit((query) => finishBackfillUnit(query, unit, clock.now()));
      const { event, body, total, next, from } = page;
      const packed = await packBodyAsync(body);
      const items = await countItems(active, page, packed);
      const error = fault && textOf(endlessList(fault));
      const read = { connection: name, key: `backfill:${random.uuid()}`, event, body, packed, from };
      const isKept = await appendRead(context, { ...read, source: 'backfill' }, (query, now) =>
        advanceBackfill(query, unit, { items, total, next, error }, now),
      );
      // The backfill was stopped or requested again meanwhile.
      if (!isKept) return;
      if (fault || next === undefined) trails.delete(unit.unit);
      else trails.set(unit.unit, trail);
      meter.count('backfill_pages_total', { connection: name, outcome: 'read' });
      logger.debug({ connection: name, unit: unit.unit, pages: unit.pages + 1, items }, 'page of a backfill read');
    },
    /** Ends a unit that can never be read. Postpones any other; another unit may be read meanwhile. */
    onFailure(unit, error, limit) {
      if (error.code === 'database_failed' || error.code === 'disk_full') pause = FAILURE_PAUSE;
      const longest = error.verdict === 'retry' ? LONGEST_RETRY : LONGEST_WAIT;
      const notBefore = clock.now() + (limit > 0 ? limit : retryPause(random, unit.attempts, longest));
      return (query) =>
        error.verdict === 'never'
          ? finishBackfillUnit(query, unit, clock.now(), textOf(error))
          : postponeBackfill(query, unit, { error: textOf(error), notBefore });
    },
  };
}

function textOf({ code, message }: SyncError): string {
  return `${code}: ${message}`;
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
