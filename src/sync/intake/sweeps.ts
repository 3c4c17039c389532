import { asSyncError, formatFailure, SyncError } from '../../model/errors/sync-error.ts';
import type { Item, ItemKey } from '../../model/item.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import { extendTrail, NO_PAGES } from '../../platform/lib/page-trail.ts';
import { piecesOf } from '../../platform/lib/pieces.ts';
import { backoff, type Random } from '../../platform/lib/random.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import { forgetOtherSweeps, recordSweep, recordSweepFailure, storedItemsAfter } from '../../store/connection-sweeps.ts';
import type { Store } from '../../store/database.ts';
import { findItems, readFields } from '../../store/items.ts';
import { ALL_UNITS } from '../../store/poll-states.ts';
import { beginUnitOfWork, flushRows } from '../../store/unit-of-work/unit-of-work.ts';
import { dueFetches, prefetchFetches, requestFetch } from '../../store/wanted-fetches.ts';
import type { ActiveConnection } from './active-connection.ts';
import { affectsAllUnits, type Pauses } from './pauses.ts';

export interface SweepDeps {
  readonly store: Store;
  readonly connections: readonly ActiveConnection[];
  readonly pauses: Pauses;
  /** Notified when objects are to be fetched. */
  readonly fetches: { notify(): void };
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
}

/** Between two pages, milliseconds: nobody waits for a sweep. */
const PACE = 1_000;
/** Tries of one page, and the first and longest pause between them, milliseconds. */
const MOST_TRIES = 6;
const FIRST_RETRY = 5_000;
const LONGEST_RETRY = 900_000;
/** Fetches asked for in one transaction. */
const ASKED_AT_ONCE = 100;
/** No more are asked for while so many wait to be tried. */
const MOST_DUE = 100;
/** The delivery id of a fetch that no delivery asked for. */
const NO_DELIVERY = 0;

/**
 * Finds deletions and restores that no event reported: lists everything that exists in a unit, and asks to fetch items that
 * worksync knows and the list lacks, and items that worksync believes gone and the list has. The fetch tells whether it is gone;
 * the list decides nothing. A list that was not read to its end says nothing at all, and neither does a unit that is not there
 * any more.
 */
export function sweepJobs(deps: SweepDeps): Job[] {
  return deps.connections
    .filter(({ connection }) => connection.sweep !== undefined)
    .map((active) => ({
      name: `sweep.${active.name}`,
      when: active.sweep,
      run: (signal) => sweepAll(deps, active, signal),
    }));
}

/** Never rejects. A unit that fails does not keep the others from being swept, unless they would fail in the same way. */
async function sweepAll(deps: SweepDeps, active: ActiveConnection, signal: AbortSignal): Promise<void> {
  const { result: units } = await attempt(deps, active, ALL_UNITS, signal, async () => {
    const found = await patiently(deps, active, signal, () => active.connection.units(signal));
    // Also takes back an earlier failure of the list of units.
    await deps.store.commit((transaction) => forgetOtherSweeps(transaction, active.name, found));
    return found;
  });
  for (const unit of units ?? []) {
    if (signal.aborted) return;
    const { error } = await attempt(deps, active, unit, signal, () => sweepUnit(deps, active, unit, signal));
    if (error && affectsAllUnits(error)) return;
  }
}

async function attempt<Result>(
  { store, clock, meter, logger }: SweepDeps,
  { name: connection }: ActiveConnection,
  unit: string,
  signal: AbortSignal,
  work: () => Promise<Result>,
): Promise<{ readonly result?: Result; readonly error?: SyncError }> {
  try {
    return { result: await work() };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (signal.aborted) return { error };
    meter.count('sweeps_total', { connection, outcome: 'failed' });
    logger.warn({ connection, unit, code: error.code, error }, 'sweep failed');
    const text = formatFailure(error);
    // By a commit: one that has lost the workspace leaves no failure to its owner.
    await store
      .commit((transaction) => recordSweepFailure(transaction, { connection, unit }, text, clock.now()))
      .catch((reason: unknown) => logger.error({ connection, unit, error: reason }, 'failure of a sweep not recorded'));
    return { error };
  }
}

async function sweepUnit(deps: SweepDeps, active: ActiveConnection, unit: string, signal: AbortSignal): Promise<void> {
  const { store, clock, meter, logger } = deps;
  const startedAt = clock.now();
  const listing = await listWhereOn(deps, active, unit, signal);
  const asked = listing ? await askForDoubtful(deps, active, { ...listing, startedAt }, signal) : 0;
  signal.throwIfAborted();
  const result = { at: clock.now(), listed: listing?.keys.size ?? 0, asked };
  await store.commit((transaction) => recordSweep(transaction, { connection: active.name, unit }, result));
  meter.count('sweeps_total', { connection: active.name, outcome: 'complete' });
  logger.info({ connection: active.name, unit, ...result }, 'unit swept');
}

interface Listing {
  readonly keys: ReadonlySet<ItemKey>;
  readonly containers: ReadonlySet<string>;
}

/** Undefined where the vendor has switched the list off: that says nothing about the items. */
async function listWhereOn(...given: Parameters<typeof listAll>): Promise<Listing | undefined> {
  try {
    return await listAll(...given);
  } catch (thrown) {
    if (asSyncError(thrown).code !== 'feature_off') throw thrown;
    return undefined;
  }
}

/** Throws where it does not reach the end. Kept in memory: a sweep that a restart interrupts begins anew. */
async function listAll(deps: SweepDeps, active: ActiveConnection, unit: string, signal: AbortSignal): Promise<Listing> {
  const keys = new Set<ItemKey>();
  const containers = new Set<string>();
  let trail = NO_PAGES;
  for (let page: string | undefined; ; ) {
    const asked = page;
    const read = await patiently(deps, active, signal, () => sweepPage(active, unit, asked, signal));
    for (const key of read.keys) keys.add(key);
    for (const container of read.containers) containers.add(container);
    if (read.next === undefined) return { keys, containers };
    const extended = extendTrail(trail, read);
    if (extended.fault) throw new SyncError('list_endless', `the list was left: ${extended.fault.message}`);
    trail = extended.trail;
    page = read.next;
    await sleep(deps.clock, PACE, signal);
  }
}

async function sweepPage(
  { connection }: ActiveConnection,
  unit: string,
  page: string | undefined,
  signal: AbortSignal,
) {
  if (!connection.sweep) throw new SyncError('internal', 'this connection has no sweep');
  return connection.sweep(unit, page, signal);
}

/** Waits where only time helps; a limit of the provider counts as no failure, since everybody waits for it. */
async function patiently<Result>(
  { clock, random, pauses }: SweepDeps,
  { name }: ActiveConnection,
  signal: AbortSignal,
  call: () => Promise<Result>,
): Promise<Result> {
  const leftOf = () => pauses.left(name, 'background');
  for (let tries = 1; ; ) {
    for (let left = leftOf(); left > 0; left = leftOf()) {
      await sleep(clock, left, signal);
      signal.throwIfAborted();
    }
    try {
      signal.throwIfAborted();
      return await call();
    } catch (thrown) {
      const error = asSyncError(thrown);
      const limit = pauses.recordFailure(name, error, 'background');
      if (signal.aborted || (limit === 0 && (error.verdict !== 'retry' || tries >= MOST_TRIES))) throw error;
      if (limit === 0) await sleep(clock, backoff(random, tries++, FIRST_RETRY, LONGEST_RETRY), signal);
    }
  }
}

/**
 * What came in while the list was read is not looked at: it is newer than the list.
 *
 * @returns how many were asked for
 */
async function askForDoubtful(
  deps: SweepDeps,
  active: ActiveConnection,
  { keys, containers, startedAt }: Listing & { readonly startedAt: number },
  signal: AbortSignal,
): Promise<number> {
  let asked = 0;
  for (let after: ItemKey | undefined = ''; after !== undefined && !signal.aborted; ) {
    const part = await storedItemsAfter(deps.store.query, { connection: active.name, seenBefore: startedAt }, after);
    const doubtful = part.items.filter(({ key, isGone }) => keys.has(key) === isGone).map(({ key }) => key);
    for (const some of piecesOf(doubtful, ASKED_AT_ONCE)) {
      if (signal.aborted) break;
      await waitForRoom(deps, active, signal);
      asked += await askFor(deps, active, some, { keys, containers });
    }
    after = part.after;
    await yieldToEventLoop();
  }
  return asked;
}

/** A vendor that lists too little, or a project that was emptied, must not bury what live deliveries ask for. */
async function waitForRoom(
  { store, clock }: SweepDeps,
  { name }: ActiveConnection,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted && (await dueFetches(store.query, name, clock.now(), 0, MOST_DUE)).length >= MOST_DUE)
    await sleep(clock, PACE, signal);
}

async function askFor(
  { store, clock, fetches }: SweepDeps,
  { name: connection, connector }: ActiveConnection,
  doubtful: readonly ItemKey[],
  { keys, containers }: Listing,
): Promise<number> {
  const now = clock.now();
  const asked = await store.commit(async (transaction) => {
    const rows = beginUnitOfWork(transaction);
    const items = (await findItems(rows, doubtful)).map((row) => readFields(row).item);
    // A list cannot lack items of containers that it does not cover.
    const lacking = items.filter((item) => keys.has(item.key) || containers.has(containerOf(item)));
    const references = lacking.map((item) => connector.reference(item));
    await prefetchFetches(rows, references);
    for (const reference of references)
      await requestFetch(rows, { connection, reference, deliveryId: NO_DELIVERY, now });
    await flushRows(rows);
    return references.length;
  });
  if (asked > 0) fetches.notify();
  return asked;
}

function containerOf(item: Item): string {
  return item.kind === 'pull_request' ? item.repoId : item.containerId;
}
