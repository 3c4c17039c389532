import type { Clock, Random, WakeSignal } from '../platform/lib/clock.ts';
import type { Logger, Meter, Tracer } from '../platform/lib/telemetry.ts';
import type { Store } from './workspace-scope.ts';

/** The parts that the stages of one workspace share. */
export interface WorkspaceContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  /** Absent if tracing is off. */
  readonly tracer?: Tracer;
}

/** The wake signals of one workspace. They outlive a reload: rows that a closed workspace still stores wake the next stages. */
export interface WakeSignals {
  /** Notified after a commit that appended a delivery to the inbox. */
  readonly inbox: WakeSignal;
  /** Notified when a change may have become due. */
  readonly outbox: WakeSignal;
}
