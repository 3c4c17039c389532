import type { Clock, Random, WakeSignal } from '../platform/lib/clock.ts';
import { createWakeSignal } from '../platform/lib/clock.ts';
import type { Logger, Meter, Tracer } from '../platform/lib/telemetry.ts';
import type { Store } from './workspace-scope.ts';

/** The store of one workspace, the time and the randomness for work on it, and where this work is reported. */
export interface StoreContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  /** Absent if tracing is off. */
  readonly tracer?: Tracer | undefined;
}

/** The wake signals of one workspace. They outlive a reload: rows that a closed workspace still stores wake the next stages. */
export interface WakeSignals {
  /** Notified after a commit that appended a delivery to the inbox. */
  readonly inbox: WakeSignal;
  /** Notified when a change may have become due. */
  readonly outbox: WakeSignal;
  /** Notified when objects must be fetched. */
  readonly fetches: WakeSignal;
  /** Notified when a notice may have to be written to a vendor. */
  readonly writeBack: WakeSignal;
}

export function createWakeSignals(): WakeSignals {
  return {
    inbox: createWakeSignal(),
    outbox: createWakeSignal(),
    fetches: createWakeSignal(),
    writeBack: createWakeSignal(),
  };
}
