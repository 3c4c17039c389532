// Design: src/decisions/polls-and-walks.md

import type { PollPage, PollPosition } from '../../connectors/connector.ts';
import { omitUndefined } from '../../connectors/kit/payload.ts';
import { formatFailure, SyncError } from '../../model/errors.ts';
import type { Cancel } from '../../platform/lib/clock.ts';
import { sha256Of } from '../../platform/lib/digest.ts';
import { extendTrail, NO_PAGES } from '../../platform/lib/page-trail.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import {
  ALL_UNITS,
  clearFailures,
  loadPollState,
  outdatedFailures,
  type PollState,
  recordUnitFailure,
  savePollState,
  type Walk,
} from '../../store/connections/unit-states.ts';
import { importKey } from '../../store/deliveries/inbox.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { ActiveConnection, WorkspaceContext } from '../workspace-context.ts';
import { affectsAllUnits, LONGEST_RETRY, retryPause } from './pauses.ts';
import { appendRead, type PageSelection, readPages } from './read-pages.ts';

export type Polls = ReturnType<typeof createPolls>;

/** Polls all connections, each on its own schedule. */
export function createPolls(context: WorkspaceContext) {
  const pollers = context.connections.map((active) => createPoller(context, active));
  return {
    jobs: pollers.map(({ job }) => job),
    /** Resolves when the running requests are done. Cancels the retries. */
    async stop() {
      await Promise.all(pollers.map((poller) => poller.stop()));
    },
    /**
     * Polls every unit of one connection once, or of all connections that are not switched off. Resolves when that is
     * done. Failures are recorded and not thrown. Skips a connection that its vendor limits.
     */
    async pollNow(connection?: string) {
      const selected = pollers.filter(({ name, job }) =>
        connection === undefined ? job.when !== 'off' : name === connection,
      );
      await Promise.all(selected.map((poller) => poller.pollNow()));
    },
  };
}

/** Polls one connection: its schedule, its retries, and one cycle at a time. */
function createPoller(context: WorkspaceContext, active: ActiveConnection) {
  const stopping = new AbortController();
  let cancelRetry: Cancel = () => undefined;
  let cycles: Promise<void> = Promise.resolve();
  let isRunning = false;
  let failures = 0;

  /** Starts a cycle after the running one. Never rejects. */
  function enqueueCycle(units?: ReadonlySet<string>): Promise<void> {
    cycles = cycles.then(() => runCycle(units));
    return cycles;
  }

  async function runCycle(only?: ReadonlySet<string>): Promise<void> {
    if (stopping.signal.aborted) return;
    const pause = context.pauses.left(active.name, 'poll');
    if (pause > 0) return retryIn(pause, only);
    isRunning = true;
    cancelRetry();
    try {
      const unitsToRetry = new Set<string>();
      const { signal } = stopping;
      await readPages(context, selectPolls(context, active, signal, unitsToRetry, only), signal);
      failures = unitsToRetry.size > 0 ? failures + 1 : 0;
      if (unitsToRetry.size > 0) retryIn(retryDelay(), unitsToRetry);
    } finally {
      isRunning = false;
    }
  }

  /** Returns the pause before a retry: at most the interval of the schedule, unless the vendor limits the connection. */
  function retryDelay(): number {
    const longest = Math.min(LONGEST_RETRY, everyMs(active) ?? LONGEST_RETRY);
    return Math.max(context.pauses.left(active.name, 'poll'), retryPause(context.random, failures - 1, longest));
  }

  function retryIn(ms: number, units?: ReadonlySet<string>): void {
    cancelRetry();
    if (active.schedule === 'off' || stopping.signal.aborted) return;
    cancelRetry = context.clock.after(ms, () => void enqueueCycle(units));
  }

  const job: Job = {
    name: `poll.${active.name}`,
    when: active.schedule,
    // The first poll runs at once, because it finds the events since the last daemon stopped.
    atStart: 0,
    // A scheduled time during a cycle, or during a retry, starts no other cycle.
    run: () => (isRunning ? cycles : enqueueCycle()),
  };
  return {
    name: active.name,
    job,
    async stop() {
      stopping.abort();
      cancelRetry();
      await cycles;
    },
    pollNow: () => enqueueCycle(),
  };
}

function everyMs({ schedule }: ActiveConnection): number | undefined {
  return schedule !== 'off' && 'everyMs' in schedule ? schedule.everyMs : undefined;
}

type Page = Extract<PollPage, { outcome: 'page' }>;

/** An answer, and what was known when it was requested. */
type PolledPage = PollPage & {
  readonly state: PollState;
  readonly walk: Walk;
  readonly trail: Walk['trail'];
  /** The time of the request, epoch milliseconds. */
  readonly from: number;
  readonly namesVersion: number | undefined;
};

/**
 * Selects all units, or those of `only`, one after the other, and of each the pages from where its last walk stopped.
 *
 * @param retry receives the units to poll again before the schedule does
 */
function selectPolls(
  context: WorkspaceContext,
  { name: connection, connection: vendor, names }: ActiveConnection,
  signal: AbortSignal,
  retry: Set<string>,
  only?: ReadonlySet<string>,
): PageSelection<{ readonly unit: string }, PolledPage> {
  const { store, clock, random, meter, logger } = context;
  let units: readonly string[] = [ALL_UNITS];
  return {
    connection,
    reader: 'poll',
    next: async () => (units[0] === undefined ? undefined : { unit: units[0] }),
    async selectUnits() {
      await names?.refresh(vendor, signal);
      const all = await vendor.units(signal);
      const outdated = await outdatedFailures(store.query, connection, all);
      // A cycle without failures needs no commit.
      if (outdated.length > 0) await store.commit((query) => clearFailures(query, connection, outdated));
      units = only === undefined || only.has(ALL_UNITS) ? all : all.filter((unit) => only.has(unit));
    },
    async request({ unit }) {
      const state = await loadPollState(store.query, connection, unit);
      const from = clock.now();
      const walk = walkOf(state, from);
      const namesVersion = names?.version();
      const answer = await vendor.poll(positionOf(unit, state, walk), signal);
      return { ...answer, state, walk, trail: walk.trail, from, namesVersion };
    },
    async keep({ unit }, page) {
      const { state, walk, from, namesVersion } = page;
      const digest = page.outcome === 'page' ? await sha256Of(page.body) : '';
      const after =
        page.outcome === 'page' ? afterPage(state, walk, page, digest, clock.now()) : afterUnchanged(state, walk);
      const save = async (query: Scope, now: number) => {
        // If a name was bound again meanwhile, the page belongs to another repository or project: it is requested again.
        if (names?.version() !== namesVersion) return false;
        await savePollState(query, connection, unit, after, after.walk ? undefined : now);
        return true;
      };
      const isNew = page.outcome === 'page' && !isSamePage(state, walk, page, digest);
      const key = state.watermark === undefined ? importKey(random.uuid()) : `poll:${random.uuid()}`;
      const isSaved = isNew
        ? await appendRead(context, { connection, key, source: 'poll', event: page.event, body: page.body, from }, save)
        : await store.commit((query) => save(query, clock.now()));
      if (!isSaved || after.walk) return;
      units = units.slice(1);
      const outcome = isNew ? 'complete' : 'unchanged';
      meter.count('polls_total', { connection, outcome });
      logger.debug({ connection, unit, outcome }, 'unit polled');
    },
    onFailure({ unit }, error) {
      if (error.code === 'not_found' || error.code === 'refused') names?.recheckSoon();
      const endsCycle = unit === ALL_UNITS || affectsAllUnits(error);
      if (isWorthRetrying(error)) for (const each of endsCycle ? units : [unit]) retry.add(each);
      units = endsCycle ? [] : units.slice(1);
      return (query) => recordUnitFailure(query, 'polls', connection, unit, formatFailure(error), clock.now());
    },
  };
}

function isWorthRetrying({ verdict, code }: SyncError): boolean {
  return verdict === 'retry' || code === 'rate_limited' || code === 'disk_full';
}

/**
 * The age of the last page, in milliseconds, above which a walk begins again. It is longer than any pause that a vendor
 * imposes, because the first walk of a large repository can take days at 60 requests an hour, and must still end.
 */
const STALE = 7_200_000;
/** The time of the last page of a walk that must begin again: always stale. */
const ABANDONED = new Date(0).toISOString();
/** How far the clock of a vendor may be ahead, milliseconds. */
const AHEAD = 300_000;

/**
 * Returns the walk to continue, or a new one. A first walk that begins again keeps its first start time. An item that
 * was read as open before and has been closed since is in no list of open items: only its change after that time shows
 * it.
 *
 * A unit has a watermark, up to which everything is known, and at most one walk: the read of its pages, the newest
 * first.
 *
 *   no walk     the next poll begins one
 *   walking     each page is stored with the position after it; the next poll resumes there
 *   complete    the last page moves the watermark, only forwards, and keeps the validator of the first page
 *
 * Only a complete walk keeps its validator, because a 304 must never hide a page that was not read.
 */
export function walkOf(state: PollState, now: number): Walk {
  const { walk, watermark } = state;
  const age = walk ? now - Date.parse(walk.readAt) : Number.NaN;
  // A negative age means that the wall clock was set back: it counts as stale.
  if (walk && age >= 0 && age <= STALE) return walk;
  const first = walk && watermark === undefined ? Date.parse(walk.startedAt) : now;
  return { startedAt: new Date(Math.min(first, now)).toISOString(), readAt: new Date(now).toISOString() };
}

/** Returns the position to request. Only the first page has a validator. */
export function positionOf(unit: string, state: PollState, walk: Walk): PollPosition {
  const { page, startedAt } = walk;
  const etag = page === undefined ? state.etag : undefined;
  return { unit, startedAt, ...omitUndefined({ watermark: state.watermark, page, etag }) };
}

/** Returns the state after a page. After the last page it has no `walk`. */
export function afterPage(state: PollState, walk: Walk, page: Page, digest: string, now: number): PollState {
  const candidate = later(walk.candidate, clamp(page.newest, now));
  const isFirst = walk.page === undefined;
  const etag = isFirst ? page.etag : walk.etag;
  if (page.next === undefined)
    return { watermark: later(state.watermark, candidate), etag, digest: isFirst ? digest : undefined };
  const { trail, fault } = extendTrail(walk.trail ?? NO_PAGES, page);
  // A walk whose pages do not end begins again. After too many empty pages, the next poll continues instead.
  if (fault && fault.kind !== 'empty') return { ...state, walk: { startedAt: walk.startedAt, readAt: ABANDONED } };
  const readAt = new Date(now).toISOString();
  return { ...state, walk: { page: page.next, candidate, startedAt: walk.startedAt, readAt, etag, trail } };
}

/** Returns the state after a 304: the walk is complete, the watermark stays. */
export function afterUnchanged(state: PollState, walk: Walk): PollState {
  if (walk.page !== undefined)
    throw new SyncError('answer_malformed', 'the vendor answered 304 to an unconditional request for a later page');
  return { ...state, walk: undefined };
}

/**
 * Returns whether this walk and the last complete walk consist of the same single page. Then nothing changed, and
 * nothing need be stored. This replaces the validators that some vendors do not send.
 */
export function isSamePage(state: PollState, walk: Walk, page: Page, digest: string): boolean {
  return walk.page === undefined && page.next === undefined && state.digest === digest;
}

/** Returns the later of two times, as written. Text that is no time is ignored. */
function later(a: string | undefined, b: string | undefined): string | undefined {
  if (b === undefined || Number.isNaN(Date.parse(b))) return a;
  return a === undefined || Date.parse(b) > Date.parse(a) ? b : a;
}

function clamp(time: string | undefined, now: number): string | undefined {
  return time !== undefined && Date.parse(time) > now + AHEAD ? new Date(now).toISOString() : time;
}
