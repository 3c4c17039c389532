import type { Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Meter } from '../platform/lib/meter.ts';
import type { Random } from '../platform/lib/random.ts';
import type { Tracer } from '../platform/lib/tracer.ts';
import type { Store } from './database.ts';

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
