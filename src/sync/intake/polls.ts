import type { Cancel } from '../../platform/lib/clock.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import type { ActiveConnection, WorkspaceContext } from '../workspace-context.ts';
import { LONGEST_RETRY, retryPause } from './pauses.ts';
import { selectPolls } from './poll-walk.ts';
import { readPages } from './read-pages.ts';

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
