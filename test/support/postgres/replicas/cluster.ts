import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, connect as dial, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { stringify } from 'yaml';
import { SPECIFIED_QUOTA } from '../../fakes/workspace-service.ts';
import { listenLocally } from '../../harness/listen.ts';
import type { Running } from '../../harness/processes.ts';
import { type PostgresOptions, type PostgresServer, startPostgres } from '../postgres-server.ts';
import { type CountedWorkspace, startCountedService } from './counted-service.ts';
import { type Replica, startReplica, until } from './replica.ts';

/** The network between a process and its server, which a test cuts and mends. */
async function startTcpProxy(target: number) {
  const pairs = new Set<readonly [Socket, Socket]>();
  /** Accepted while the line was cut. */
  const waiting = new Set<Socket>();
  let to = target;
  let isCut = false;

  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (near) => {
    near.on('error', () => undefined);
    if (!isCut) return join(near);
    waiting.add(near);
    near.once('close', () => waiting.delete(near));
  });

  function join(near: Socket): void {
    const far = dial({ port: to, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    const pair = [near, far] as const;
    pairs.add(pair);
    for (const [one, other] of [pair, [far, near] as const]) {
      one.on('error', () => other.destroy());
      one.on('close', () => {
        pairs.delete(pair);
        other.destroy();
      });
      one.on('data', (bytes) => void other.write(bytes));
      one.on('end', () => void other.end());
    }
    near.setNoDelay(true);
    near.resume();
  }

  const { port } = new URL(await listenLocally(server));
  return {
    port: Number(port),
    /** Blocks all traffic without closing connections; data in transit waits. New connections get no answer. */
    cut() {
      isCut = true;
      for (const socket of [...pairs].flat()) socket.pause();
    },
    mend() {
      isCut = false;
      for (const socket of [...pairs].flat()) socket.resume();
      for (const near of waiting) join(near);
      waiting.clear();
    },
    /** New connections go there; those there are end. */
    lead(next: number) {
      to = next;
      for (const socket of [...pairs].flat()) socket.destroy();
    },
    async close() {
      for (const socket of [...[...pairs].flat(), ...waiting]) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export const SECRET = 'a webhook secret for tests only';

export const SIGNING_KEY = Buffer.from('a signing key of tests alone');
const SIGNING_SECRET = `whsec_${SIGNING_KEY.toString('base64')}`;

interface ClusterOptions {
  /** Workspaces whose quota is not what the test is about, and those with the one that is specified. */
  readonly ample: number;
  readonly specified: number;
  readonly postgres?: PostgresServer | PostgresOptions;
  /** Modules to preload in single replicas, by their number. */
  readonly preload?: Readonly<Record<number, readonly string[]>>;
}

const AMPLE_QUOTA = { requests: 100_000, window: 900_000, burst: 20_000, burstWindow: 60_000 };
const SCHEMA = 'worksync';

export type Cluster = Awaited<ReturnType<typeof startCluster>>;

/** Several replicas, each with a line of its own to the database, before services that count what comes. */
export async function startCluster(options: ClusterOptions) {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-replicas-'));
  const given = options.postgres;
  let postgres = given && 'start' in given ? given : await startPostgres(given);
  const named = (kind: string, count: number) => Array.from({ length: count }, (_, index) => `${kind}-${index + 1}`);
  const services = [
    await startCountedService(named('ample', options.ample), AMPLE_QUOTA),
    await startCountedService(named('specified', options.specified), SPECIFIED_QUOTA),
  ];
  const workspaces = services.flatMap((service) => service.workspaces);
  const config = join(folder, 'config');
  writeConfig(config, workspaces);
  const lines: Awaited<ReturnType<typeof startTcpProxy>>[] = [];
  const replicas: Replica[] = [];
  const spawned: Running[] = [];
  let asking: pg.Client | undefined;

  const start = (number: number, preload: readonly string[] = []) =>
    startReplica({
      ...{ name: `replica-${number + 1}`, folder, config, preload, onSpawn: (own: Running) => void spawned.push(own) },
      store: `postgres://postgres@127.0.0.1:${lines[number]?.port}/postgres?schema=${SCHEMA}`,
    });

  async function ask<Row extends object>(sql: string): Promise<readonly Row[]> {
    asking ??= await connect(postgres.address);
    const client = asking;
    try {
      return (await client.query<Row>(sql)).rows;
    } catch (error) {
      if (asking === client) asking = undefined;
      void client.end().catch(() => undefined);
      throw error;
    }
  }

  /** Which replica holds each workspace, by its name. Undefined: the database does not answer. */
  async function holders(): Promise<ReadonlyMap<string, Replica> | undefined> {
    try {
      const rows = await ask<{ name: string; address: string }>(HOLDERS);
      const holderAt = (address: string) =>
        replicas.find((each) => new URL(each.address).port === new URL(address).port);
      return new Map(rows.flatMap(({ name, address }) => ((own) => (own ? [[name, own]] : []))(holderAt(address))));
    } catch {
      return undefined;
    }
  }

  const cluster = {
    /** `lines` lead from each replica to the database, by its number. */
    ...{ workspaces, replicas, lines, ask, holders },
    postgres: () => postgres,
    follow(next: PostgresServer) {
      postgres = next;
      asking = undefined;
      for (const line of lines) line.lead(next.port);
    },
    /** Another process in the place of that replica, on its data and its line. */
    restart: async (number: number, preload?: readonly string[]) =>
      void (replicas[number] = await start(number, preload)),
    /** Processes that ended though nobody ended them, and what they said. */
    died: () =>
      replicas.filter(({ running }) => (running.child.exitCode ?? 0) !== 0).map(({ log }) => log().slice(-2_000)),
    /** Each replica holds its share of all workspaces. */
    async spread() {
      await until('the leases are spread', async () => {
        const held = [...((await holders())?.values() ?? [])];
        const alive = replicas.filter((each) => each.isAlive());
        const least = Math.floor(workspaces.length / alive.length);
        return (
          held.length === workspaces.length && alive.every((each) => held.filter((one) => one === each).length >= least)
        );
      });
    },
    async close() {
      for (const { child } of spawned) {
        child.kill('SIGCONT');
        child.kill('SIGKILL');
      }
      await Promise.all(spawned.map(({ ended }) => ended));
      await asking?.end().catch(() => undefined);
      for (const line of lines) await line.close();
      for (const service of services) await service.close();
      await postgres.remove();
      rmSync(folder, { recursive: true, force: true });
    },
  };

  try {
    for (let number = 0; number < 3; number++) lines.push(await startTcpProxy(postgres.port));
    replicas.push(...(await Promise.all(lines.map((_, number) => start(number, options.preload?.[number])))));
    await cluster.spread();
  } catch (error) {
    await cluster.close();
    throw error;
  }
  return cluster;
}

const HOLDERS = `select w.name, r.address from ${SCHEMA}.leases l
  join ${SCHEMA}.workspaces w on w.id = l.workspace join ${SCHEMA}.replicas r on r.incarnation = l.incarnation`;

async function connect(address: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: address, connectionTimeoutMillis: 2_000, query_timeout: 5_000 });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

function writeConfig(folder: string, workspaces: readonly CountedWorkspace[]): void {
  mkdirSync(folder, { recursive: true });
  for (const { name, key, url, quota } of workspaces) {
    const { requests, window, burst, burstWindow } = quota;
    const content = {
      workspace: { url, apiKey: key, sweep: 'off' },
      quota: { requests, window: `${window}ms`, burst, burstWindow: `${burstWindow}ms`, share: 1 },
      connections: {
        github: { connector: 'github', repositories: ['acme/app'], webhookSecrets: SECRET, poll: 'off' },
        desk: { connector: 'generic', system: 'desk', webhookSecrets: SIGNING_SECRET, poll: 'off' },
      },
      rules: { triage: [{ when: { connection: 'desk' }, create: 'bug' }] },
    };
    writeFileSync(join(folder, `${name}.yaml`), stringify(content));
  }
}
