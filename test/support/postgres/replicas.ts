import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { createClockOffset } from '../../../src/cluster/clock-offset.ts';
import { createPostgresLeaseHolder } from '../../../src/cluster/postgres-holder.ts';
import { connectors } from '../../../src/connectors/registry.ts';
import { compose } from '../../../src/daemon/compose.ts';
import { loadConfig } from '../../../src/platform/config/load.ts';
import { openApart } from '../../../src/platform/database/postgres.ts';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { systemClock, systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createHealth } from '../../../src/platform/observe/health.ts';
import { createMetrics } from '../../../src/platform/observe/metrics.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';
import { createWorkspaceService } from '../../../src/reference-service/service.ts';
import { serverTime } from '../../../src/store/installation/leases.ts';
import type { Schema } from '../../../src/store/schema/tables.ts';
import { createInlineConverter } from '../../../src/sync/worker/converter.ts';
import type { Token } from '../../../src/web/access/callers.ts';
import { apiOverrides } from '../../../src/workspace-api/contract.ts';
import { GITHUB } from '../harness/daemon.ts';
import { freePort, listenLocally } from '../harness/listen.ts';
import { startPostgres } from './postgres-server.ts';

interface ReplicaOptions {
  readonly version?: string;
  /** Keys of the workspace files beside `workspace`. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly workspaces?: readonly string[];
}

export type TestReplicas = Awaited<ReturnType<typeof openReplicas>>;
export type TestReplica = Awaited<ReturnType<TestReplicas['join']>>;

/** Several daemons over one real PostgreSQL, in real time, before one workspace service. */
export async function openReplicas(given: {
  readonly workspaces: readonly string[];
  readonly tokens: readonly Token[];
}) {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-replicas-'));
  const [clock, random, secretKey] = [systemClock(), systemRandom(), systemRandom().bytes(32)];
  const postgres = await startPostgres();
  const store = `${postgres.address}?schema=replicas`;
  const service = await createWorkspaceService({
    ...{ file: join(folder, 'service.db'), clock, random, logger: silentLogger, allowPrivateWebhooks: true },
    quota: { requests: 200, window: 900_000, burst: 40, burstWindow: 60_000 },
  });
  const url = await service.listen({ host: '127.0.0.1', port: 0 });
  const { apiKey } = await service.startCredentials();
  const running: { stop(): Promise<void> }[] = [];

  function configure(path: string, { workspaces = given.workspaces, config }: ReplicaOptions): void {
    mkdirSync(path, { recursive: true });
    for (const name of workspaces) {
      const workspace = { url, apiKey, sweep: 'off' };
      writeFileSync(join(path, `${name}.yaml`), stringify({ connections: { github: GITHUB }, ...config, workspace }));
    }
  }

  /** A process of several, as far as one process can be several. */
  async function start(options: ReplicaOptions) {
    const own = join(folder, `replica-${running.length}`);
    const path = join(own, 'config');
    configure(path, options);
    const metrics = createMetrics({ version: 'test' });
    const port = await freePort();
    const composition = await compose(
      {
        config: loadConfig({ path, env: {}, connectors, apiOverrides }),
        options: {
          ...{ data: join(own, 'data'), host: '127.0.0.1', port, adminPort: 0, logLevel: 'silent' },
          ...{ store, replicaAddress: `http://127.0.0.1:${port}` },
        },
        ...{ scrubber: createScrubber(), tokens: given.tokens, version: options.version ?? 'test', secretKey },
      },
      {
        ...{ clock, random, metrics, connectors, health: createHealth(), logger: silentLogger },
        ...{ checkFile: async () => [], converter: createInlineConverter(connectors) },
        http: createHttpClient({ meter: metrics.meter }),
      },
    );
    const daemon = await composition.serve();
    let isUp = true;
    return {
      ...{ composition, daemon, address: daemon.address, dataFolder: join(own, 'data') },
      adminAddress: new URL(daemon.adminAddress).origin,
      open: () => composition.workspaces.partitions().map(({ name }) => name),
      async stop() {
        if (!isUp) return;
        isUp = false;
        await composition.close();
      },
    };
  }

  /** Starts a replica that renews its leases and accepts connections, but answers no request. Resolves with a function that ends it. */
  async function joinMute(host: string): Promise<() => Promise<void>> {
    const sockets: Socket[] = [];
    const server = createServer((socket) => void sockets.push(socket.on('error', () => undefined)));
    const address = await listenLocally(server);
    const database = await openApart<Schema>({ file: store, within: 2_000 });
    const elapsed = () => clock.monotonic();
    const facts = () => ({ version: 'test', config: '', startedAt: 0, host });
    const holder = createPostgresLeaseHolder({
      ...{ database, random, elapsed, facts, after: clock.after, logger: silentLogger },
      ...{ storeTime: serverTime, storeClock: createClockOffset(), address: () => address },
    });
    await holder.want(given.workspaces);
    return async () => {
      await holder.stop();
      await database.close();
      for (const socket of sockets) socket.destroy();
      server.close();
    };
  }

  return {
    apiKey,
    joinMute,
    async join(options: ReplicaOptions = {}) {
      const replica = await start(options);
      running.push(replica);
      return replica;
    },
    async close() {
      for (const replica of running) await replica.stop();
      await service.close();
      await postgres.remove();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
