import type { CauseTimes } from '../admin/status/describe-open-workspace.ts';
import type { Sharing } from '../admin/status/whole-status.ts';
import type { LeaseHolder } from '../cluster/lease-holder.ts';
import type { Connector } from '../connectors/connector.ts';
import { connectors } from '../connectors/registry.ts';
import type { TokenBook } from '../gateway/token-book.ts';
import { SyncError } from '../model/errors.ts';
import { type DaemonOptions, type Flags, ownProxies } from '../platform/config/daemon-options.ts';
import type { LoadedConfig } from '../platform/config/load.ts';
import type { TraceExport } from '../platform/config/trace-export.ts';
import { createHttpClient, type HttpClient, type ServerClocks } from '../platform/http/http-client.ts';
import type { Listen } from '../platform/http/server.ts';
import { type Clock, systemClock, systemRandom } from '../platform/lib/clock.ts';
import { type CheckFile, checkInWorker } from '../platform/lib/integrity.ts';
import type { Scheduler } from '../platform/lib/scheduler.ts';
import type { Logger, Steps, Tracer } from '../platform/lib/telemetry.ts';
import { createHealth, type Health } from '../platform/observe/health.ts';
import { createMetrics, type Metrics } from '../platform/observe/metrics.ts';
import { mergingRepeats } from '../platform/observe/pino-logger.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import type { DataFolder, Installation } from '../store/installation/installation.ts';
import type { StoreTime } from '../store/installation/leases.ts';
import type { StoreContext } from '../store/store-context.ts';
import type { GroupCommit } from '../sync/intake/append.ts';
import type { Grants } from '../sync/intake/grants.ts';
import type { Converter } from '../sync/worker/converter.ts';
import type { Token } from '../web/access/callers.ts';

/** The parts from which a process composes the daemon. Tests replace the clock, the randomness or the network, and add `steps`. */
export interface ProcessContext extends Pick<StoreContext, 'clock' | 'random' | 'logger'> {
  readonly steps?: Steps | undefined;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly http: HttpClient;
  /** Checks whole database files, away from the event loop. */
  readonly checkFile: CheckFile;
  /** All vendors. */
  readonly connectors: readonly Connector<unknown>[];
  /** Parses large bodies; absent: in a worker thread. */
  readonly converter?: Converter;
  /** Creates the holder of the leases; absent: as the kind of database needs it. */
  readonly createLeaseHolder?: (installation: Installation) => LeaseHolder;
  /** Absent: on sockets. */
  readonly listen?: Listen;
  /** Opens a database that several processes share; absent: the database that the options name. */
  readonly openShared?: () => Promise<SharedDatabase>;
}

/** A database on which several processes work, each on its share of the workspaces. */
export interface SharedDatabase {
  readonly installation: Installation;
  /** A connection for the leases alone, because a renewal must not wait for other queries. */
  readonly leaseDatabase: Pick<Installation, 'query' | 'commit' | 'close'>;
  readonly time: StoreTime;
}

/** The configuration files, which may change while the daemon runs. */
export interface ConfigSource {
  /** Reads the files, and the files that contain their secrets. Throws if the configuration as a whole is wrong. */
  load(): LoadedConfig | Promise<LoadedConfig>;
  /** Returns another value after a file was changed, added or removed, or answers again. */
  stamp(): string | Promise<string>;
  /** Time between two checks for changes, milliseconds. */
  readonly checkEvery: number;
}

/** The settings with which a process starts. */
export interface ProcessSettings {
  /** The configuration at the start. */
  readonly config: LoadedConfig;
  readonly options: DaemonOptions;
  /** The flags of the command; absent: all options come from the environment or are defaults. */
  readonly flags?: Flags;
  readonly scrubber: Scrubber;
  /** The version of the program. */
  readonly version: string;
  /** The files from which the configuration is reloaded; absent: it never changes. */
  readonly source?: ConfigSource;
  /** The configured tokens for pages, metrics and admin actions. */
  readonly tokens?: readonly Token[];
  /** The key for values that are stored encrypted; absent: a key file beside the database. */
  readonly secretKey?: Buffer;
  /** The webhook secret of the demo. Configurations name it as WORKSYNC_DEMO_SECRET. */
  readonly demoSecret?: string;
  /** The destination of traces; absent: no traces are created. */
  readonly traces?: TraceExport;
  /** Called with the lag of each delivery, milliseconds. */
  readonly onLag?: (milliseconds: number) => void;
  /** Called with every statement of the database; for tests that count independently. */
  readonly onStatement?: (sql: string) => void;
}

/** The settings and parts of the process, and the services that all its workspaces share. */
export interface DaemonContext extends ProcessContext, Omit<ProcessSettings, 'config' | 'source'> {
  readonly folder: DataFolder;
  readonly installation: Installation;
  readonly serverClocks: ServerClocks;
  readonly holder: LeaseHolder;
  /** The cooperation with other processes over the same database; absent: this is the only process. */
  readonly sharing?: Sharing;
  readonly converter: Converter;
  /** Shared, because several workspaces may use one OAuth grant. */
  readonly grants: Grants;
  readonly scheduler: Scheduler;
  readonly groupCommit: GroupCommit;
  readonly tokenBook: TokenBook;
  /** Returns the times of the problems of a workspace, which outlive a reload of its configuration. */
  readonly causeTimes: (workspace: string) => CauseTimes;
  /** Absent: no traces are created. */
  readonly tracer?: Tracer;
  /** Returns the clock for the ledger of a workspace that opens now. */
  readonly ledgerClock: () => Promise<Clock>;
  /** Present if another process may have worked on a workspace until it died. */
  readonly succession?: Succession;
}

/** The precautions after the owner of a workspace died, milliseconds. */
export interface Succession {
  /** Time with few requests in flight. */
  readonly careful: number;
  /** Time during which changes that the previous owner was sending are left alone, because they may still arrive. */
  readonly untouched: number;
}

/** The address of the workspace API, and the key of the daemon for it. */
export interface WorkspaceAddress {
  readonly baseUrl: string;
  readonly apiKey: () => string;
}

/** Returns the parts that log, count and trace the work for a workspace. */
export function observersOf({ logger, metrics, tracer }: DaemonContext, workspace: string) {
  return {
    logger: logger.child({ workspace }),
    meter: metrics.forWorkspace(workspace),
    tracer: tracer?.child({ 'worksync.workspace': workspace }),
  };
}

/** Returns the context of a real process: system clock, randomness, network and all vendors. */
export function createProcessContext(baseLogger: Logger, version: string, scrubber: Scrubber): ProcessContext {
  const clock = systemClock();
  const logger = mergingRepeats(baseLogger, clock);
  const metrics = createMetrics({
    version,
    onMisuse: (error) => logger.error({ error: new SyncError('internal', error.message) }, 'metric misused'),
  });
  return {
    clock,
    random: systemRandom(),
    logger,
    metrics,
    health: createHealth(),
    connectors,
    checkFile: checkInWorker,
    http: createHttpClient({
      clock,
      meter: metrics.meter,
      proxies: ownProxies(scrubber.add),
      onSecret: scrubber.addForNow,
    }),
  };
}
