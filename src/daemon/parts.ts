import type { LeaseHolder } from '../cluster/holder.ts';
import type { Connector } from '../connectors/connector.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { Listen } from '../platform/http/server.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { CheckFile } from '../platform/lib/integrity.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Random } from '../platform/lib/random.ts';
import type { Steps } from '../platform/lib/steps.ts';
import type { Health } from '../platform/observe/health.ts';
import type { Metrics } from '../platform/observe/metrics.ts';
import type { Installation } from '../store/installation.ts';
import type { StoreTime } from '../store/leases.ts';
import type { Converter } from '../sync/worker/converter.ts';

/** What every part of the daemon is built from; a test passes its own clock, chance or steps. */
export interface Parts {
  readonly clock: Clock;
  readonly random: Random;
  readonly steps: Steps;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly http: HttpClient;
  /** Reads whole databases, away from the event loop. */
  readonly checkFile: CheckFile;
  /** Every vendor there is. */
  readonly connectors: readonly Connector<unknown>[];
  /** Reads large bodies; absent: in a thread of its own. */
  readonly converter?: Converter;
  /** Knows which workspaces this process owns; absent: all. */
  readonly hold?: (installation: Installation) => LeaseHolder;
  /** Absent: on sockets. */
  readonly listen?: Listen;
  /** A database that several processes share; absent: what the options name. */
  readonly shared?: () => Promise<SharedDatabase>;
}

/** A database that several processes work on, each of them in its share of the workspaces. */
export interface SharedDatabase {
  readonly installation: Installation;
  /** For the leases, which must not wait for what else is asked. */
  readonly apart: Pick<Installation, 'query' | 'commit' | 'close'>;
  readonly time: StoreTime;
}
