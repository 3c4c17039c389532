import { asSyncError, formatFailure, SyncError } from '../../model/errors/sync-error.ts';
import type { Item, ItemKey } from '../../model/item.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { extendTrail, NO_PAGES } from '../../platform/lib/page-trail.ts';
import { backoff } from '../../platform/lib/random.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import { piecesOf, yieldToEventLoop } from '../../platform/lib/yield.ts';
import { forgetOtherSweeps, recordSweep, recordSweepFailure, storedItemsAfter } from '../../store/connection-sweeps.ts';
import { findItems, readFields } from '../../store/items.ts';
import { ALL_UNITS } from '../../store/poll-states.ts';
import { beginUnitOfWork, flushRows } from '../../store/unit-of-work/unit-of-work.ts';
import { dueFetches, prefetchFetches, requestFetch } from '../../store/wanted-fetches.ts';
import type { ActiveConnection, IntakeContext } from './active-connection.ts';
import { affectsAllUnits, waitWhilePaused } from './pauses.ts';

type SweepContext = Omit<IntakeContext, 'inbox' | 'tracer'> & {
  /** Notified after a commit that requested fetches. */
  readonly fetches: { notify(): void };
};

/** The time between two pages, milliseconds. A sweep is never urgent. */
const PAGE_INTERVAL = 1_000;
/** The most attempts for one page, and the first and longest pause between them, milliseconds. */
const MOST_ATTEMPTS = 6;
const FIRST_RETRY = 5_000;
const LONGEST_RETRY = 900_000;
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
export function sweepJobs(context: SweepContext): Job[] {
  return context.connections
    .filter(({ connection }) => connection.sweep !== undefined)
    .map((active) => ({
      name: `sweep.${active.name}`,
      when: active.sweep,
      run: (signal) => sweepAll(context, active, signal),
    }));
}

/** Never rejects. A failing unit does not stop the sweep of the others, unless its failure affects all units. */
async function sweepAll(context: SweepContext, active: ActiveConnection, signal: AbortSignal): Promise<void> {
  const { result: units } = await recordFailures(context, active, ALL_UNITS, signal, async () => {
    const listed = await withRetries(context, active, signal, () => active.connection.units(signal));
    // This also clears an earlier failure of the list of units.
    await context.store.commit((transaction) => forgetOtherSweeps(transaction, active.name, listed));
    return listed;
  });
  for (const unit of units ?? []) {
    if (signal.aborted) return;
    const { error } = await recordFailures(context, active, unit, signal, () =>
      sweepUnit(context, active, unit, signal),
    );
    if (error && affectsAllUnits(error)) return;
  }
}

/** Runs the work, and records its failure in the row of the unit, the log and the metrics. */
async function recordFailures<Result>(
  { store, clock, meter, logger }: SweepContext,
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
    // A commit checks the lease, so a process that has lost the workspace records no failure for its new owner.
    await store
      .commit((transaction) => recordSweepFailure(transaction, { connection, unit }, text, clock.now()))
      .catch((reason: unknown) => logger.error({ connection, unit, error: reason }, 'failure of a sweep not recorded'));
    return { error };
  }
}

async function sweepUnit(
  context: SweepContext,
  active: ActiveConnection,
  unit: string,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, meter, logger } = context;
  const startedAt = clock.now();
  const listing = await listIfOn(context, active, unit, signal);
  const asked = listing ? await fetchDifferences(context, active, { ...listing, startedAt }, signal) : 0;
  signal.throwIfAborted();
  const result = { at: clock.now(), listed: listing?.keys.size ?? 0, asked };
  await store.commit((transaction) => recordSweep(transaction, { connection: active.name, unit }, result));
  meter.count('sweeps_total', { connection: active.name, outcome: 'complete' });
  logger.info({ connection: active.name, unit, ...result }, 'unit swept');
}

/** The items that exist in a unit, and the repositories, projects or teams that the list covers. */
interface Listing {
  readonly keys: ReadonlySet<ItemKey>;
  readonly containers: ReadonlySet<string>;
}

/** Returns undefined if the vendor has switched the list off, because that says nothing about the items. */
async function listIfOn(...args: Parameters<typeof listAll>): Promise<Listing | undefined> {
  try {
    return await listAll(...args);
  } catch (thrown) {
    if (asSyncError(thrown).code !== 'feature_off') throw thrown;
    return undefined;
  }
}

/** Throws if the list does not end. The list is in memory only, so a sweep that a restart interrupts begins again. */
async function listAll(
  context: SweepContext,
  active: ActiveConnection,
  unit: string,
  signal: AbortSignal,
): Promise<Listing> {
  const keys = new Set<ItemKey>();
  const containers = new Set<string>();
  let trail = NO_PAGES;
  for (let next: string | undefined; ; ) {
    const page = next;
    const answer = await withRetries(context, active, signal, () => sweepPage(active, unit, page, signal));
    for (const key of answer.keys) keys.add(key);
    for (const container of answer.containers) containers.add(container);
    if (answer.next === undefined) return { keys, containers };
    const extended = extendTrail(trail, answer);
    if (extended.fault) throw new SyncError('list_endless', `the list was left: ${extended.fault.message}`);
    trail = extended.trail;
    next = answer.next;
    await sleep(context.clock, PAGE_INTERVAL, signal);
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

/**
 * Repeats the call after temporary failures. A rate limit does not count as a failure, because it concerns all
 * requests.
 */
async function withRetries<Result>(
  context: SweepContext,
  { name }: ActiveConnection,
  signal: AbortSignal,
  call: () => Promise<Result>,
): Promise<Result> {
  const { clock, random, pauses } = context;
  for (let attempt = 1; ; ) {
    await waitWhilePaused(context, name, signal);
    try {
      signal.throwIfAborted();
      return await call();
    } catch (thrown) {
      const error = asSyncError(thrown);
      const limit = pauses.recordFailure(name, error, 'background');
      const isFinal = limit === 0 && (error.verdict !== 'retry' || attempt >= MOST_ATTEMPTS);
      if (signal.aborted || isFinal) throw error;
      if (limit === 0) await sleep(clock, backoff(random, attempt++, FIRST_RETRY, LONGEST_RETRY), signal);
    }
  }
}

/**
 * Requests a fetch of each item whose state differs from the list. Ignores items that changed since the sweep started,
 * because they are newer than the list.
 *
 * @returns the number of requested fetches
 */
async function fetchDifferences(
  context: SweepContext,
  active: ActiveConnection,
  { keys, containers, startedAt }: Listing & { readonly startedAt: number },
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
    for (const some of piecesOf(different, REQUESTS_PER_COMMIT)) {
      await waitForRoom(context, active, signal);
      if (signal.aborted) break;
      requested += await requestFetches(context, active, some, { keys, containers });
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
  { store, clock }: SweepContext,
  { name }: ActiveConnection,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted && (await dueFetches(store.query, name, clock.now(), 0, MOST_DUE)).length >= MOST_DUE)
    await sleep(clock, PAGE_INTERVAL, signal);
}

async function requestFetches(
  { store, clock, fetches }: SweepContext,
  { name: connection, connector }: ActiveConnection,
  different: readonly ItemKey[],
  { keys, containers }: Listing,
): Promise<number> {
  const now = clock.now();
  const requested = await store.commit(async (transaction) => {
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
  if (requested > 0) fetches.notify();
  return requested;
}

function containerOf(item: Item): string {
  return item.kind === 'pull_request' ? item.repoId : item.containerId;
}
