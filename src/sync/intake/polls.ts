import { asSyncError, formatFailure, type SyncError } from '../../model/errors/sync-error.ts';
import type { Cancel } from '../../platform/lib/clock.ts';
import { backoff } from '../../platform/lib/random.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import { ALL_UNITS, clearFailures, outdatedFailures, recordPollFailure } from '../../store/poll-states.ts';
import type { ActiveConnection, IntakeContext } from './active-connection.ts';
import { affectsAllUnits } from './pauses.ts';
import { walkUnit } from './poll-walk.ts';

export interface Polls {
  readonly jobs: readonly Job[];
  /**
   * Polls every unit of one connection once, or of all connections that are not switched off. Resolves when that is
   * done. Failures are recorded and not thrown. Skips a connection that its vendor limits.
   */
  pollNow(connection?: string): Promise<void>;
  /** Resolves when the running requests are done. Cancels the retries. */
  stop(): Promise<void>;
}

/**
 * The first and the longest pause before a retry, milliseconds. The longest is at most the interval of the schedule.
 */
const FIRST_RETRY = 5_000;
const LONGEST_RETRY = 900_000;

/** Polls all connections, each on its own schedule. */
export function createPolls(context: IntakeContext): Polls {
  const pollers = new Map(context.connections.map((active) => [active.name, createPoller(context, active)]));
  return {
    jobs: [...pollers.values()].map(({ job }) => job),
    async stop() {
      await Promise.all([...pollers.values()].map((poller) => poller.stop()));
    },
    async pollNow(connection) {
      const selected = context.connections.filter(({ name, schedule }) =>
        connection === undefined ? schedule !== 'off' : name === connection,
      );
      await Promise.all(selected.map(async ({ name }) => pollers.get(name)?.pollNow()));
    },
  };
}

interface Poller {
  readonly job: Job;
  stop(): Promise<void>;
  pollNow(): Promise<void>;
}

/** Polls one connection: its schedule, its retries, and one cycle at a time. */
function createPoller(context: IntakeContext, active: ActiveConnection): Poller {
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
      const unitsToRetry = await pollUnits(context, active, stopping.signal, only);
      failures = unitsToRetry.size > 0 ? failures + 1 : 0;
      if (unitsToRetry.size > 0) retryIn(retryDelay(), unitsToRetry);
    } finally {
      isRunning = false;
    }
  }

  function retryDelay(): number {
    const longest = Math.min(LONGEST_RETRY, everyMs(active) ?? LONGEST_RETRY);
    return Math.max(
      context.pauses.left(active.name, 'poll'),
      backoff(context.random, failures - 1, FIRST_RETRY, longest),
    );
  }

  function retryIn(ms: number, units?: ReadonlySet<string>): void {
    cancelRetry();
    if (active.schedule === 'off' || stopping.signal.aborted) return;
    cancelRetry = context.clock.after(ms, () => void enqueueCycle(units));
  }

  return {
    job: {
      name: `poll.${active.name}`,
      when: active.schedule,
      // The first poll runs at once, because it finds the events since the last daemon stopped.
      atStart: 0,
      // A scheduled time during a cycle, or during a retry, starts no other cycle.
      run: () => (isRunning ? cycles : enqueueCycle()),
    },
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

/**
 * Runs one cycle over all units, or over `only`. A failure that affects all units ends the cycle.
 *
 * @returns the units to retry before the schedule polls them again
 */
async function pollUnits(
  context: IntakeContext,
  active: ActiveConnection,
  signal: AbortSignal,
  only?: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const retry = new Set<string>();
  const units = await listUnits(context, active, signal, only);
  if (units instanceof Error) {
    if (isWorthRetrying(units)) retry.add(ALL_UNITS);
    return retry;
  }
  for (const [index, unit] of units.entries()) {
    const error = await pollUnit(context, active, unit, signal);
    if (signal.aborted) return retry;
    if (!error) continue;
    const endsCycle = affectsAllUnits(error);
    if (isWorthRetrying(error)) for (const each of endsCycle ? units.slice(index) : [unit]) retry.add(each);
    if (endsCycle) break;
  }
  return retry;
}

function isWorthRetrying(error: SyncError): boolean {
  return error.verdict === 'retry' || error.code === 'rate_limited' || error.code === 'disk_full';
}

async function listUnits(
  context: IntakeContext,
  active: ActiveConnection,
  signal: AbortSignal,
  only?: ReadonlySet<string>,
): Promise<readonly string[] | SyncError> {
  try {
    await active.names?.refresh(active.connection, signal);
    const units = await active.connection.units(signal);
    const outdated = await outdatedFailures(context.store.query, active.name, units);
    // A cycle without failures needs no commit.
    if (outdated.length > 0)
      await context.store.commit((transaction) => clearFailures(transaction, active.name, outdated));
    return only === undefined || only.has(ALL_UNITS) ? units : units.filter((unit) => only.has(unit));
  } catch (thrown) {
    return await recordFailure(context, active, ALL_UNITS, thrown, signal);
  }
}

async function pollUnit(
  context: IntakeContext,
  active: ActiveConnection,
  unit: string,
  signal: AbortSignal,
): Promise<SyncError | undefined> {
  try {
    const outcome = await walkUnit(context, active, unit, signal);
    context.meter.count('polls_total', { connection: active.name, outcome });
    context.logger.debug({ connection: active.name, unit, outcome }, 'unit polled');
    return undefined;
  } catch (thrown) {
    return await recordFailure(context, active, unit, thrown, signal);
  }
}

/** Records a failure in its row, the log and the metrics. Pauses the connection if the vendor limits it. */
async function recordFailure(
  { pauses, meter, store, clock, logger }: IntakeContext,
  { name: connection, names }: ActiveConnection,
  unit: string,
  thrown: unknown,
  signal: AbortSignal,
): Promise<SyncError> {
  const error = asSyncError(thrown);
  if (signal.aborted) return error;
  if (error.code === 'not_found' || error.code === 'refused') names?.recheckSoon();
  const pause = pauses.recordFailure(connection, error, 'poll');
  const isOff = error.code === 'feature_off';
  meter.count('polls_total', { connection, outcome: isOff ? 'off' : pause > 0 ? 'limited' : 'failed' });
  logger[isOff ? 'debug' : 'warn']({ connection, unit, code: error.code, error }, 'poll failed');
  const text = formatFailure(error);
  // A commit checks the lease, so a process that has lost the workspace records no failure for its new owner.
  await store
    .commit((transaction) => recordPollFailure(transaction, connection, unit, text, clock.now()))
    .catch((reason: unknown) => logger.error({ connection, unit, error: reason }, 'poll failure not recorded'));
  return error;
}
