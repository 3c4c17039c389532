import { asSyncError, SyncError, wasSent } from '../../model/errors/sync-error.ts';
import {
  addCompletion,
  forgetBefore,
  roomAt,
  UNKNOWN_GRACE,
  type Window,
  type WindowUse,
} from '../../model/windows.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';

/** Keeps the requests of one process within the windows of the quota: the daemon's arithmetic, in memory alone. */
export interface Pacing {
  /** Runs `exchange` when each window has room for it, in the order of the calls. Throws `aborted` while it waits. */
  through<Answer>(exchange: () => Promise<Answer>, signal?: AbortSignal): Promise<Answer>;
  /** Nothing more begins for so long, milliseconds. */
  pause(ms: number): void;
}

export function createPacing(clock: Clock, windows: readonly Window[]): Pacing {
  const use: WindowUse = { inFlight: 0, completed: [] };
  const longestHold = Math.max(0, ...windows.map(({ hold }) => hold));
  let pausedUntil = Number.NEGATIVE_INFINITY;
  /** Resolves when everybody before has left the line. */
  let line: Promise<void> = Promise.resolve();
  /** Wakes the first of the line. */
  let changed = new AbortController();

  async function takeSlot(signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      if (signal?.aborted) throw aborted();
      const now = clock.monotonic();
      const at = Math.max(pausedUntil, ...windows.map(({ cap, hold }) => roomAt(use, cap, hold)));
      if (at <= now) break;
      changed = new AbortController();
      await sleep(clock, at - now, signal ? AbortSignal.any([signal, changed.signal]) : changed.signal);
    }
    use.inFlight += 1;
  }

  /** @param ended monotonic milliseconds; absent where nothing was sent */
  function giveBack(ended: number | undefined): void {
    use.inFlight -= 1;
    if (ended !== undefined) addCompletion(use.completed, ended);
    forgetBefore(use.completed, clock.monotonic() - longestHold);
    changed.abort();
  }

  return {
    async through(exchange, signal) {
      const before = line;
      const { promise: left, resolve: leave } = Promise.withResolvers<void>();
      line = left;
      try {
        await unlessAborted(before, signal);
        await takeSlot(signal);
      } finally {
        void before.then(leave);
      }
      try {
        const answer = await exchange();
        giveBack(clock.monotonic());
        return answer;
      } catch (error) {
        giveBack(wasSent(asSyncError(error)) ? clock.monotonic() + UNKNOWN_GRACE : undefined);
        throw error;
      }
    },
    pause(ms) {
      pausedUntil = Math.max(pausedUntil, clock.monotonic() + ms);
    },
  };
}

function aborted(): SyncError {
  return new SyncError('aborted', 'the caller gave up while the request waited for the quota');
}

function unlessAborted(before: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (!signal) return before;
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(aborted());
    const giveUp = () => reject(aborted());
    signal.addEventListener('abort', giveUp, { once: true });
    void before.then(() => {
      signal.removeEventListener('abort', giveUp);
      resolve();
    });
  });
}
