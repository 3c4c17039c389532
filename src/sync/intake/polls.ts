import { asSyncError, formatFailure, type SyncError } from '../../model/errors/sync-error.ts';
import type { Cancel } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import { backoff } from '../../platform/lib/random.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import { ALL_UNITS, clearFailures, outdatedFailures, recordPollFailure } from '../../store/poll-states.ts';
import type { ActiveConnection } from './active-connection.ts';
import { affectsAllUnits, type Pauses } from './pauses.ts';
import { type WalkDeps, walkUnit } from './poll-walk.ts';

export interface PollDeps extends WalkDeps {
  readonly connections: readonly ActiveConnection[];
  readonly pauses: Pauses;
  readonly logger: Logger;
  readonly meter: Meter;
}

export interface Polls {
  readonly jobs: readonly Job[];
  /**
   * Polls every unit of one connection, or of all that are not switched off, once from now on; resolves when that is
   * done. Failures are recorded as ever, and not thrown. A connection that the provider has limited is left out.
   */
  pollNow(connection?: string): Promise<void>;
  /** Resolves when the requests in hand are done; what waits to be tried again is given up. */
  stop(): Promise<void>;
}

/** First and longest pause before what failed is tried again; the longest is at most the interval. Milliseconds. */
const FIRST_RETRY = 5_000;
const LONGEST_RETRY = 900_000;

/** Polls all connections, each on its own schedule. */
export function createPolls(deps: PollDeps): Polls {
  const pollers = new Map(deps.connections.map((active) => [active.name, createPoller(deps, active)]));
  return {
    jobs: [...pollers.values()].map(({ job }) => job),
    async stop() {
      await Promise.all([...pollers.values()].map((poller) => poller.stop()));
    },
    async pollNow(connection) {
      const chosen = deps.connections.filter(({ name, schedule }) =>
        connection === undefined ? schedule !== 'off' : name === connection,
      );
      await Promise.all(chosen.map(async ({ name }) => pollers.get(name)?.pollNow()));
    },
  };
}

interface Poller {
  readonly job: Job;
  stop(): Promise<void>;
  pollNow(): Promise<void>;
}

/** One connection: its schedule, its retries, and never two cycles at once. */
function createPoller(deps: PollDeps, active: ActiveConnection): Poller {
  const stopping = new AbortController();
  let cancelRetry: Cancel = () => undefined;
  let work: Promise<void> = Promise.resolve();
  let busy = false;
  let failures = 0;

  /** After the work in hand; never rejects. */
  function afterwards(units?: ReadonlySet<string>): Promise<void> {
    work = work.then(() => run(units));
    return work;
  }

  async function run(only?: ReadonlySet<string>): Promise<void> {
    if (stopping.signal.aborted) return;
    const pause = deps.pauses.left(active.name, 'poll');
    if (pause > 0) return retryIn(pause, only);
    busy = true;
    cancelRetry();
    try {
      const { again } = await pollUnits(deps, active, stopping.signal, only);
      failures = again.size > 0 ? failures + 1 : 0;
      if (again.size > 0) retryIn(retryDelay(), again);
    } finally {
      busy = false;
    }
  }

  function retryDelay(): number {
    const longest = Math.min(LONGEST_RETRY, everyMs(active) ?? LONGEST_RETRY);
    return Math.max(deps.pauses.left(active.name, 'poll'), backoff(deps.random, failures - 1, FIRST_RETRY, longest));
  }

  function retryIn(ms: number, units?: ReadonlySet<string>): void {
    cancelRetry();
    if (active.schedule === 'off' || stopping.signal.aborted) return;
    cancelRetry = deps.clock.after(ms, () => void afterwards(units));
  }

  return {
    job: {
      name: `poll.${active.name}`,
      when: active.schedule,
      // The first poll runs at once: it finds events that came while no daemon ran.
      atStart: 0,
      // A moment that falls into a cycle, also one that tries again, is left out.
      run: () => (busy ? work : afterwards()),
    },
    async stop() {
      stopping.abort();
      cancelRetry();
      await work;
    },
    pollNow: () => afterwards(),
  };
}

function everyMs({ schedule }: ActiveConnection): number | undefined {
  return schedule !== 'off' && 'everyMs' in schedule ? schedule.everyMs : undefined;
}

/**
 * One cycle over all units, or over those given. `again` names what failed and is worth trying before the schedule's
 * next moment. A failure that meets every unit ends the cycle.
 */
async function pollUnits(
  deps: PollDeps,
  active: ActiveConnection,
  signal: AbortSignal,
  only?: ReadonlySet<string>,
): Promise<{ again: ReadonlySet<string> }> {
  const again = new Set<string>();
  const units = await unitsOf(deps, active, signal, only);
  if (units instanceof Error) {
    if (isWorthRetrying(units)) again.add(ALL_UNITS);
    return { again };
  }
  for (const [index, unit] of units.entries()) {
    const error = await pollUnit(deps, active, unit, signal);
    if (signal.aborted) return { again };
    if (!error) continue;
    const endsCycle = affectsAllUnits(error);
    if (isWorthRetrying(error)) for (const each of endsCycle ? units.slice(index) : [unit]) again.add(each);
    if (endsCycle) break;
  }
  return { again };
}

function isWorthRetrying(error: SyncError): boolean {
  return error.verdict === 'retry' || error.code === 'rate_limited' || error.code === 'disk_full';
}

async function unitsOf(
  deps: PollDeps,
  active: ActiveConnection,
  signal: AbortSignal,
  only?: ReadonlySet<string>,
): Promise<readonly string[] | SyncError> {
  try {
    await active.names?.refresh(active.connection, signal);
    const units = await active.connection.units(signal);
    // A good cycle costs no commit.
    const outdated = await outdatedFailures(deps.store.query, active.name, units);
    if (outdated.length > 0)
      await deps.store.commit((transaction) => clearFailures(transaction, active.name, outdated));
    return only === undefined || only.has(ALL_UNITS) ? units : units.filter((unit) => only.has(unit));
  } catch (thrown) {
    return await failed(deps, active, ALL_UNITS, thrown, signal);
  }
}

async function pollUnit(
  deps: PollDeps,
  active: ActiveConnection,
  unit: string,
  signal: AbortSignal,
): Promise<SyncError | undefined> {
  try {
    const outcome = await walkUnit(deps, active, unit, signal);
    deps.meter.count('polls_total', { connection: active.name, outcome });
    deps.logger.debug({ connection: active.name, unit, outcome }, 'unit polled');
    return undefined;
  } catch (thrown) {
    return await failed(deps, active, unit, thrown, signal);
  }
}

/** Makes a failure visible, in the row, the log and the figures; pauses the connection where the provider limits it. */
async function failed(
  deps: PollDeps,
  active: ActiveConnection,
  unit: string,
  thrown: unknown,
  signal: AbortSignal,
): Promise<SyncError> {
  const error = asSyncError(thrown);
  if (signal.aborted) return error;
  if (error.code === 'not_found' || error.code === 'refused') active.names?.recheckSoon();
  const connection = active.name;
  const pause = deps.pauses.recordFailure(connection, error, 'poll');
  const isOff = error.code === 'feature_off';
  deps.meter.count('polls_total', { connection, outcome: isOff ? 'off' : pause > 0 ? 'limited' : 'failed' });
  deps.logger[isOff ? 'debug' : 'warn']({ connection, unit, code: error.code, error }, 'poll failed');
  const text = formatFailure(error);
  const { store, clock, logger } = deps;
  // By a commit: one that has lost the workspace leaves no failure to its owner.
  await store
    .commit((transaction) => recordPollFailure(transaction, connection, unit, text, clock.now()))
    .catch((reason: unknown) => logger.error({ connection, unit, error: reason }, 'poll failure not recorded'));
  return error;
}
