import type { SweepPage } from '../../connectors/connector.ts';
import { undefinedOn } from '../../connectors/kit/refusal.ts';
import { formatFailure } from '../../model/errors.ts';
import type { Item, ItemKey } from '../../model/item.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { chunksOf, yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import type { PageTrail } from '../../platform/lib/page-trail.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import {
  ALL_UNITS,
  forgetOtherSweeps,
  recordSweep,
  recordUnitFailure,
  storedItemsAfter,
} from '../../store/connections/unit-states.ts';
import { dueFetches, prefetchFetches, requestFetch } from '../../store/deliveries/wanted-fetches.ts';
import { findItems, readFields } from '../../store/items/items.ts';
import { beginUnitOfWork, flushRows } from '../../store/unit-of-work/unit-of-work.ts';
import type { ActiveConnection, WorkspaceContext } from '../workspace-context.ts';
import { affectsAllUnits, MOST_ATTEMPTS, retryPause } from './pauses.ts';
import { type PageSelection, readPages, waitWhilePaused } from './read-pages.ts';

/** The time between two pages, milliseconds. A sweep is never urgent. */
const PAGE_INTERVAL = 1_000;
/** The most fetches requested in one transaction. */
const REQUESTS_PER_COMMIT = 100;
/** The number of due fetches from which no more are requested. */
const MOST_DUE = 100;
/** The delivery id of a fetch that no delivery requested. */
const NO_DELIVERY = 0;

/**
 * Finds deletions and restorations that no event reported. A sweep lists everything that exists in a unit, and requests
 * a fetch of each known item that the list lacks, and of each gone item that the list contains. The fetch decides
 * whether the item is gone. A list that was not read to its end is not used.
 */
export function sweepJobs(context: WorkspaceContext): Job[] {
  return context.connections
    .filter(({ connection }) => connection.sweep !== undefined)
    .map((active) => ({
      name: `sweep.${active.name}`,
      when: active.sweep,
      run: (signal) => readPages(context, selectSweep(context, active, signal), signal),
    }));
}

/** The items that exist in a unit, and the repositories, projects or teams that the list covers. */
interface Listing {
  readonly keys: Set<ItemKey>;
  readonly containers: Set<string>;
  readonly startedAt: number;
  /** The page to request next, and the trail of those before it; absent at the start. */
  readonly page?: string;
  readonly trail?: PageTrail;
}

/**
 * Selects all units one after the other, and all pages of each. The list is in memory only, so a sweep that a restart
 * interrupts begins again. A failing unit does not stop the sweep of the others, unless its failure affects all units.
 */
function selectSweep(
  context: WorkspaceContext,
  active: ActiveConnection,
  signal: AbortSignal,
): PageSelection<{ readonly unit: string }, (SweepPage & { readonly trail?: PageTrail | undefined }) | undefined> {
  const { store, clock, random, meter, logger } = context;
  const { name: connection, connection: vendor } = active;
  let units: readonly string[] = [ALL_UNITS];
  let listing: Listing;
  /** Consecutive failures of the vendor. A failure of the store is reported at once, so it counts as the last. */
  let failures = 0;
  let pause = 0;

  function continueWith(rest: readonly string[]): void {
    units = rest;
    listing = { keys: new Set(), containers: new Set(), startedAt: clock.now() };
    failures = 0;
    pause = 0;
  }

  continueWith([ALL_UNITS]);
  return {
    connection,
    reader: 'sweep',
    async next() {
      if (pause > 0) await sleep(clock, pause, signal);
      await waitWhilePaused(context, connection, signal);
      return units[0] === undefined ? undefined : { unit: units[0] };
    },
    async selectUnits() {
      const listed = await vendor.units(signal);
      failures = MOST_ATTEMPTS;
      // This also clears an earlier failure of the list of units.
      await store.commit((query) => forgetOtherSweeps(query, connection, listed));
      continueWith(listed);
    },
    async request({ unit }) {
      const page = vendor.sweep && (await undefinedOn(vendor.sweep(unit, listing.page, signal), 'feature_off'));
      return page && { ...page, trail: listing.trail };
    },
    /** Compares the list once it is complete. A list that the vendor has switched off says nothing about the items. */
    async keep({ unit }, page, { trail, fault }) {
      if (fault) return;
      for (const key of page?.keys ?? []) listing.keys.add(key);
      for (const container of page?.containers ?? []) listing.containers.add(container);
      if (page?.next !== undefined) {
        listing = { ...listing, page: page.next, trail };
        failures = 0;
        pause = PAGE_INTERVAL;
        return;
      }
      failures = MOST_ATTEMPTS;
      const asked = page ? await fetchDifferences(context, active, listing, signal) : 0;
      signal.throwIfAborted();
      const result = { at: clock.now(), listed: page ? listing.keys.size : 0, asked };
      await store.commit((query) => recordSweep(query, connection, unit, result));
      meter.count('sweeps_total', { connection, outcome: 'complete' });
      logger.info({ connection, unit, ...result }, 'unit swept');
      continueWith(units.slice(1));
    },
    /** Repeats the request after a temporary failure. A rate limit does not count as a failure, because it concerns all requests. */
    onFailure({ unit }, error, limit) {
      pause = 0;
      if (limit > 0) return undefined;
      if (error.verdict === 'retry' && ++failures < MOST_ATTEMPTS) {
        pause = retryPause(random, failures);
        return undefined;
      }
      continueWith(unit === ALL_UNITS || affectsAllUnits(error) ? [] : units.slice(1));
      return (query) => recordUnitFailure(query, 'sweeps', connection, unit, formatFailure(error), clock.now());
    },
  };
}

/**
 * Requests a fetch of each item whose state differs from the list. Ignores items that changed since the sweep started,
 * because they are newer than the list.
 *
 * @returns the number of requested fetches
 */
async function fetchDifferences(
  context: WorkspaceContext,
  active: ActiveConnection,
  { keys, containers, startedAt }: Listing,
  signal: AbortSignal,
): Promise<number> {
  let requested = 0;
  for (let after: ItemKey | undefined = ''; after !== undefined && !signal.aborted; ) {
    const stored = await storedItemsAfter(
      context.store.query,
      { connection: active.name, seenBefore: startedAt },
      after,
    );
    const different = stored.items.filter(({ key, isGone }) => keys.has(key) === isGone).map(({ key }) => key);
    for (const some of chunksOf(different, REQUESTS_PER_COMMIT)) {
      await waitForRoom(context, active, signal);
      if (signal.aborted) break;
      const count = await requestFetches(context, active, some, { keys, containers });
      if (count > 0) context.fetches.notify();
      requested += count;
    }
    after = stored.after;
    await yieldToEventLoop();
  }
  return requested;
}

/**
 * Waits until few fetches are due. Otherwise a truncated list or an emptied project would delay the fetches of live
 * deliveries.
 */
async function waitForRoom(
  { store, clock }: WorkspaceContext,
  { name }: ActiveConnection,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted && (await dueFetches(store.query, name, clock.now(), 0, MOST_DUE)).length >= MOST_DUE)
    await sleep(clock, PAGE_INTERVAL, signal);
}

async function requestFetches(
  { store, clock }: WorkspaceContext,
  { name: connection, connector }: ActiveConnection,
  different: readonly ItemKey[],
  { keys, containers }: Pick<Listing, 'keys' | 'containers'>,
): Promise<number> {
  const now = clock.now();
  return store.commit(async (transaction) => {
    const rows = beginUnitOfWork(transaction);
    const items = (await findItems(rows, different)).map((row) => readFields(row).item);
    // An item can be missing only from a list that covers its repository, project or team.
    const covered = items.filter((item) => keys.has(item.key) || containers.has(containerOf(item)));
    const references = covered.map((item) => connector.reference(item));
    await prefetchFetches(rows, references);
    for (const reference of references)
      await requestFetch(rows, { connection, reference, deliveryId: NO_DELIVERY, now });
    await flushRows(rows);
    return references.length;
  });
}

function containerOf(item: Item): string {
  return item.kind === 'pull_request' ? item.repoId : item.containerId;
}
