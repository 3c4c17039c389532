import { soleHolder } from '../../../src/cluster/lease-holder.ts';
import { connectors } from '../../../src/connectors/registry.ts';
import { compose } from '../../../src/daemon/compose.ts';
import type { Partition } from '../../../src/daemon/partition.ts';
import { stampOf } from '../../../src/platform/config/config-files.ts';
import { loadConfig } from '../../../src/platform/config/load.ts';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { type Steps, silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createHealth } from '../../../src/platform/observe/health.ts';
import { createMetrics } from '../../../src/platform/observe/metrics.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';
import { createInlineConverter } from '../../../src/sync/worker/converter.ts';
import { apiOverrides } from '../../../src/workspace-api/contract.ts';
import { fastClock } from '../fakes/crash-clock.ts';

/** One key for all starts, so that values stored before a kill can be read after it. */
const SECRET_KEY = Buffer.alloc(32, 7);

/** Real milliseconds, also on a busy machine: what takes longer hangs. */
const LONGEST_WORK = 240_000;

export interface FastDaemonOptions {
  readonly config: string;
  readonly data: string;
  /** Address of the PostgreSQL in whose schema the rows are; absent: they are in `data`. */
  readonly store?: string;
  readonly steps?: Steps;
  readonly onStatement?: (sql: string) => void;
}

export type FastDaemon = Awaited<ReturnType<typeof startFastDaemon>>;

/** The whole daemon, composed as in production, on the fast clock. */
export async function startFastDaemon(options: FastDaemonOptions) {
  const { steps, onStatement, store } = options;
  const load = () => loadConfig({ path: options.config, env: {}, connectors, apiOverrides });
  const metrics = createMetrics({ version: 'test' });
  const composition = await compose(
    {
      config: load(),
      source: { load, stamp: () => stampOf({ path: options.config }, []), checkEvery: 60_000 },
      options: {
        ...{ data: options.data, host: '127.0.0.1', port: 0, logLevel: 'silent' },
        ...(store !== undefined && { store }),
      },
      ...(store !== undefined && { secretKey: SECRET_KEY }),
      scrubber: createScrubber(),
      version: 'test',
      onStatement,
    },
    {
      clock: fastClock(),
      random: systemRandom(),
      logger: silentLogger,
      health: createHealth(),
      checkFile: async () => [],
      steps,
      // The next process comes when the sessions of the dead one have ended; the leases of several: `test/replicas/`.
      createLeaseHolder: () => soleHolder,
      metrics,
      connectors,
      // Its work matters here, not its thread: one more thread for each kill takes a second.
      converter: createInlineConverter(connectors),
      http: createHttpClient({ steps, meter: metrics.meter }),
    },
  );
  const daemon = await composition.serve();
  const partition = () => composition.workspaces.partitions()[0] as Partition;
  return {
    address: daemon.address,
    /** The present one: another takes its place where the configuration changes. */
    partition,
    /** As SIGHUP does. */
    reload: () => composition.reload.now(),
    /** Resolves when all deliveries are taken over and all changes sent. */
    async settled() {
      const end = performance.now() + LONGEST_WORK;
      while (!(await isSettled(partition()))) {
        if (performance.now() > end) throw new Error('something is left to do and is not done');
        await new Promise((resolve) => setTimeout(resolve, 15));
      }
    },
    stop: () => composition.close(),
  };
}

/** Two small queries: it is asked often, beside work that the test waits for. */
async function isSettled({ store, outbox }: Partition): Promise<boolean> {
  const waiting = store.query.selectFrom('outbox').select('entity').where('state', '!=', 'held').limit(1);
  const pending = store.query.selectFrom('inbox').select('id').where('state', '=', 'pending').limit(1);
  if (outbox.inFlight > 0 || (await pending.executeTakeFirst())) return false;
  return (await waiting.executeTakeFirst()) === undefined;
}
