import { asSyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import { createTransitionLogger } from '../../platform/lib/transition-logger.ts';
import type { Store } from '../../store/database.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { createAlarm } from './alarm.ts';
import type { Observed } from './cooldown.ts';
import type { CooldownControl } from './cooldown-control.ts';
import { writeCooldown } from './persisted-cooldown.ts';
import { markRunning, markShutdown } from './shutdown-marker.ts';
import type { Slot } from './slot.ts';
import type { Entry, WindowLedger } from './window-ledger.ts';

/** Milliseconds without a row of the ledger after which the time is written down. */
const BEAT_EVERY = 5_000;
export interface SlotsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly book: WindowLedger;
  readonly control: CooldownControl;
  /** The process before ended without saying so. */
  readonly died: boolean;
  /** Nothing counts in any window. */
  readonly isIdle: () => boolean;
}

/** The slots that are given out, and what the database holds of them. */
export interface Slots {
  create(entry: Entry, ended: () => void): Slot;
  /** No more time is written down. */
  stopBeating(): Promise<void>;
  /** All slots have ended. @param careful how long the next process is to be careful, milliseconds */
  noteEnd(careful: number): Promise<void>;
}

export function createSlots({ store, clock, logger, book, control, died, isIdle }: SlotsDeps): Slots {
  const teller = createTransitionLogger(logger, 'warn', {
    failed: 'the time of the ledger could not be stored',
    again: 'the time of the ledger is stored again',
  });
  let stopped = false;
  let beating = Promise.resolve();
  /** Whether it stands in the database that this process, or one that died, uses the quota: maybe, and for certain. */
  let isNoted = died;
  let isKept = died;
  const pulse = createAlarm(clock, () => {
    beating = beat();
  });
  const pulseLater = () => pulse.set(stopped ? Number.POSITIVE_INFINITY : clock.monotonic() + BEAT_EVERY);

  /** Time that nothing tells of is lost to the windows with a reboot: so, while they hold something, it is written down. */
  const beat = async () => {
    if (stopped || isIdle()) return;
    pulseLater();
    try {
      await durably(store, (query) => book.beat(query));
      teller.succeeded();
    } catch (error) {
      teller.failed(error);
    }
  };

  const create = (entry: Entry, ended: () => void): Slot => {
    let brakeChanged = false;
    let observed: Observed | undefined;
    const write = async (query: Scope) => {
      pulseLater();
      await book.recordEnd(entry, query);
      if (observed) await book.uses.addOthers(query, observed);
      if (brakeChanged) await writeCooldown(query, clock, control.cooldown);
    };
    return {
      async record(query) {
        pulseLater();
        isNoted = true;
        if (!isKept) await markRunning(query);
        await book.record(entry, query);
      },
      release() {
        if (entry.state !== 'open') return;
        book.release(entry);
        ended();
      },
      async complete(answer, query) {
        if (entry.state === 'released') return;
        // What was sent was recorded, in a transaction that was not rolled back.
        isKept ||= entry.recorded;
        if (entry.state === 'open') {
          const before = control.cooldown.observed;
          brakeChanged = control.end(entry, answer);
          if (control.cooldown.observed !== before) observed = control.cooldown.observed;
        }
        await (query === undefined ? durably(store, write) : write(query)).finally(ended);
      },
      leave: ended,
    };
  };

  pulseLater();
  return {
    create,
    async stopBeating() {
      stopped = true;
      pulse.set(Number.POSITIVE_INFINITY);
      await beating;
    },
    async noteEnd(careful) {
      if (!isNoted) return;
      try {
        await durably(store, (query) => markShutdown(query, careful));
      } catch (error) {
        logger.warn({ error }, 'the clean shutdown could not be recorded: the next process starts carefully');
      }
    },
  };
}

export async function durably<Result>(store: Store, work: (query: Scope) => Promise<Result>): Promise<Result> {
  try {
    return await store.commit(work);
  } catch (error) {
    throw asSyncError(error);
  }
}
