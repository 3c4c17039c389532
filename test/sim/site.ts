import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { sql } from 'kysely';
import { stringify } from 'yaml';
import type { Status } from '../../src/admin/status/status.ts';
import { soleHolder } from '../../src/cluster/lease-holder.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { type Composition, compose } from '../../src/daemon/compose.ts';
import type { Partition } from '../../src/daemon/partition.ts';
import { stampOf } from '../../src/platform/config/config-files.ts';
import { loadConfig } from '../../src/platform/config/load.ts';
import { DatabaseFault } from '../../src/platform/database/database-fault.ts';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import type { Listen } from '../../src/platform/http/server.ts';
import type { Clock } from '../../src/platform/lib/clock.ts';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import { createHealth } from '../../src/platform/observe/health.ts';
import { createMetrics } from '../../src/platform/observe/metrics.ts';
import { createScrubber } from '../../src/platform/observe/scrubber.ts';
import { createWorkspaceService } from '../../src/reference-service/service.ts';
import { releaseHeld } from '../../src/store/changes/held-changes.ts';
import { findDaemon } from '../../src/store/installation/daemon-file.ts';
import {
  type Installation,
  installationOver,
  openInstallationFile,
} from '../../src/store/installation/installation.ts';
import { restoreAll } from '../../src/store/restore/restore.ts';
import { compileStatement, type Sql } from '../../src/store/workspace-scope.ts';
import { createInlineConverter } from '../../src/sync/worker/converter.ts';
import { apiOverrides } from '../../src/workspace-api/contract.ts';
import { createSend, createWorkspaceClient } from '../../src/workspace-api/typed-client.ts';
import { chanceOf, randomOf } from '../bench/quota/references/chance.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { addOldRows, DELIVERIES } from './checker-store.ts';
import { createRecorder } from './history.ts';
import { createLife, type Life, type Machine, rest } from './life.ts';
import { createEventSender, createNetwork, EVENTS_URL, handlerOf, WORKSPACE } from './network.ts';
import type { Plan } from './plan.ts';
import { STORIES } from './prose.ts';
import { openProviders } from './providers.ts';
import { createDatabaseServer, createSlowness, type DatabaseServer } from './shared-database.ts';
import { createStatementTroubles, watchedDatabase } from './statements.ts';
import { countRows, makeFolder, type Templates } from './templates.ts';
import { watchedLog, watchedMetrics } from './watches.ts';
import { createWeather } from './weather.ts';

const PORT = 8080;
/** The preset, with one rule that finishes a task by any pull request that carries it. All of the past counts. */
const WORKFLOW = {
  ...{ preset: 'standard', trust: 'anyone', since: '2020-01-01T00:00:00Z' },
  rules: [{ when: { pullRequest: 'merged', base: 'main', link: 'carrying' }, set: { status: 'completed' } }],
};
const QUOTA = { requests: 200, window: 900_000, burst: 40, burstWindow: 60_000 };

/** One for all processes: each watches the runtime for good, and a run starts many. */
const METRICS = createMetrics({ version: 'sim' });

/** Workspaces of which nobody hears anything: replicas share them all the same. */
const SPARE = ['spare-1', 'spare-2'];
/** Where they are: whoever asks in vain asks again and again. */
const SPARE_WORKSPACE = 'spare.test';
const idle = (url: string, apiKey: string) => ({
  workspace: { url, apiKey, sweep: 'off' },
  connections: {
    desk: {
      connector: 'generic',
      system: 'desk',
      feedUrl: 'https://nowhere.test',
      projects: ['web'],
      webhookSecrets: 'whsec_YSBzaWduaW5nIGtleSBvZiB0ZXN0cyBhbG9uZQ==',
      poll: 'off',
      sweep: 'off',
    },
  },
});

export interface Replica {
  readonly number: number;
  readonly machine: Machine;
  readonly origin: string;
  running: { readonly life: Life; readonly composition: Composition } | undefined;
  isBusy: boolean;
}

export interface Settings {
  visibility: number;
  poll: number;
  concurrency: number;
}

interface Lease {
  readonly name: string;
  readonly epoch: number;
  readonly address: string;
}

/** Which replica owns which workspace, and for which time it changed hands. */
const ownersOf = compileStatement<object, Lease>((query) =>
  query
    .selectFrom('leases')
    .innerJoin('replicas', 'replicas.incarnation', 'leases.incarnation')
    .innerJoin('workspaces', 'workspaces.id', 'leases.workspace')
    .select(['workspaces.name', 'leases.epoch', 'replicas.address'])
    .orderBy('workspaces.name'),
);

export type Site = Awaited<ReturnType<typeof openSite>>;

export async function openSite(plan: Plan, templates: Templates) {
  const folder = makeFolder();
  const clock = createTravellingClock({ settle: rest, grain: plan.grain });
  const recorder = createRecorder(clock.elapsed);
  const chance = (purpose: string) => chanceOf(plan.seed, purpose);
  const { metrics, counts } = watchedMetrics(METRICS);
  const weather = createWeather(clock.elapsed, chance('weather'), plan.pages);
  const network = createNetwork({
    clock,
    weather,
    recorder,
    chance: chance('network'),
    isSteady: plan.isKnown ?? false,
  });
  const listen =
    (origin: string): Listen =>
    async (server) => {
      const handle = handlerOf(server);
      // While it ends it takes nothing more.
      server.addHook('preClose', async () => network.close(origin, handle));
      await server.ready();
      network.open(origin, handle);
      return origin;
    };
  const openService = async (host: string, http?: HttpClient) => {
    const file = join(folder, `${host}.db`);
    templates.service(file);
    const made = await createWorkspaceService({
      ...{ file, clock, random: randomOf(chance(`service ${host}`)), logger: silentLogger, quota: QUOTA },
      ...{ listen: listen(`http://${host}`), reached: { publicUrl: `http://${host}` }, ...(http && { http }) },
    });
    return { service: made, url: await made.listen({ host, port: 80 }) };
  };
  const { service, url } = await openService(
    WORKSPACE,
    createEventSender(network, recorder, () => replicas.map(({ origin }) => origin)),
  );
  const spare = plan.replicas === 1 ? undefined : await openService(SPARE_WORKSPACE);
  const spareKey = (await spare?.service.startCredentials())?.apiKey ?? '';
  const { apiKey, oauthToken, workspaceId, userId } = await service.startCredentials();
  const { secret: othersKey } = await service.mintKey({ workspaceId, userId, description: 'of another user' });
  const send = createSend({ http: network.direct, baseUrl: url, apiKey: () => oauthToken });
  const people = createWorkspaceClient<object>({ send, workspaceId: 'current' });
  const webhook = plan.events ? (await people.createWebhook({ body: { url: EVENTS_URL } }, {})).body : undefined;
  const providers = openProviders(plan, clock, network);
  const replicas = Array.from({ length: plan.replicas }, (_, number): Replica => {
    const machine = { ahead: 0, boots: 1, bootedAt: 0 };
    return { number, machine, origin: `http://replica-${number}.test:${PORT}`, running: undefined, isBusy: false };
  });
  const statements = createStatementTroubles({
    ...{
      keys: templates.keys,
      chance: chance('statements of processes'),
      now: clock.elapsed,
      tell: (fault) => tellFault(fault),
      onFailed: (life, { name }) => recorder.record({ what: 'unstored', process: life.name, transaction: name }),
    },
    isAtWork: (life) => replicas.some(({ running, isBusy }) => running?.life === life && !isBusy),
  });
  const failures = chance('store-away');
  const slowness = createSlowness(clock, failures);
  const databaseServer = plan.replicas === 1 ? undefined : await openDatabaseServer();
  const configPath = join(folder, 'config');
  mkdirSync(configPath);
  for (const { number } of replicas) mkdirSync(dataOf(number));
  if (!databaseServer) templates.installation(dataOf(0));
  const backup = join(folder, 'backup.db');
  let backupAt: number | undefined;
  let processes = 0;
  let present: Settings;
  let loaded: ReturnType<typeof loadConfig> | undefined;
  configure({ visibility: 0, poll: 10, concurrency: 8 });

  function dataOf(number: number): string {
    return join(folder, `data-${number}`);
  }

  async function openDatabaseServer(): Promise<DatabaseServer> {
    const random = randomOf(chance('database'));
    const installation = await openInstallationFile({ file: ':memory:', random });
    return createDatabaseServer(installation, {
      clock,
      chance: chance('signals'),
      failures,
      slowness,
      onTaken: tellOwner,
      onOwn: checkOwner,
      watchOf: statements.watchOf,
    });
  }

  async function checkOwner(life: Life, workspace: string, transaction: Sql, text = ''): Promise<void> {
    // An audit entry is stored whichever process owns the workspace.
    if (/"audit"/.test(text)) return;
    const owner = (await ownersOf(transaction, {})).find(({ name }) => name === workspace);
    if (owner && owner.address !== replicas[life.replica]?.origin)
      tellFault(`${life.name} of replica ${life.replica} commits ${text} to ${workspace}, which ${owner.address} owns`);
  }

  let isQuiet = false;
  const tellFault = (text: string) => recorder.record({ what: 'unexpected', text });

  let ownerTold = '';
  async function tellOwner(): Promise<void> {
    if (!databaseServer) return;
    const row = (await ownersOf(databaseServer.installation.query, {})).find(({ name }) => name === 'test');
    const text = JSON.stringify(row);
    if (!row || text === ownerTold) return;
    ownerTold = text;
    const replica = replicas.find(({ origin }) => origin === row.address)?.number ?? -1;
    recorder.record({ what: 'owner', replica, epoch: row.epoch });
  }

  function configure(next: Settings): void {
    present = next;
    loaded = undefined;
    const { visibility, poll, concurrency } = next;
    recorder.record({
      ...{ what: 'configured', share: plan.share, concurrency },
      ...(plan.workflow && { workflow: plan.workflow }),
    });
    const window = { window: '15m', burstWindow: '1m', requests: QUOTA.requests, burst: QUOTA.burst };
    const pace = { share: plan.share, concurrency, ...(visibility > 0 && { visibility: `${visibility}s` }) };
    const content = {
      workspace: {
        ...{ url, apiKey, sweep: '30m', webhook: webhook && { key: webhook.key, secret: webhook.secret } },
        ...(plan.workflow && { api: { taskUpdate: plan.workflow } }),
      },
      quota: { ...window, ...pace },
      guard: { removals: 'off', creations: 'off', repairs: 'off' },
      // Others than before, though they change nothing: all open items are evaluated again.
      rules: {
        ...{ triage: [{ create: 'bug' }], trailers: ['Task', `Poll-${poll}`], links: [STORIES] },
        ...(plan.workflow && { workflow: WORKFLOW }),
      },
      connections: providers.connections(poll),
      retention: { bodies: '30m', deliveries: `${DELIVERIES}d` },
    };
    writeFileSync(join(configPath, 'test.yaml'), stringify(content));
    for (const name of spare ? SPARE : [])
      writeFileSync(join(configPath, `${name}.yaml`), stringify(idle(spare?.url ?? '', spareKey)));
  }

  /** Read once for each time that it is written: to read it takes half of what a start takes. */
  const load = () => {
    loaded ??= loadConfig({ path: configPath, env: {}, connectors, apiOverrides });
    return loaded;
  };

  async function start(replica: Replica): Promise<void> {
    const { number, origin } = replica;
    const life = createLife(`process-${++processes}`, number, clock, replica.machine);
    recorder.record({ what: 'started', process: life.name, replica: number });
    const random = randomOf(chance(life.name));
    const shared = databaseServer && (async () => databaseServer.viewOf(life));
    const composition = await compose(
      {
        config: load(),
        source: { load, stamp: () => stampOf({ path: configPath }, []), checkEvery: 60_000 },
        options: { data: dataOf(number), host: '127.0.0.1', port: PORT, logLevel: 'silent', replicaAddress: origin },
        secretKey: Buffer.alloc(32, 7),
        scrubber: createScrubber(),
        version: 'sim',
      },
      {
        ...{
          clock: life.clock,
          random,
          logger: watchedLog(life, {
            ...{ tell: tellFault, isQuiet: () => isQuiet },
            onWarned: (key) => recorder.record({ what: 'warned', key }),
            ...(plan.isKnown && { onSaid: (text) => recorder.record({ what: 'said', process: life.name, text }) }),
          }),
          connectors,
          steps: life.steps,
          openShared: shared,
          ...(!databaseServer && { createLeaseHolder: watched(life) }),
        },
        ...{ metrics, health: createHealth(), checkFile: async () => [] },
        ...{
          converter: createInlineConverter(connectors),
          http: network.clientOf(life),
          listen: listen(origin),
        },
      },
    );
    replica.running = { life, composition };
    if (!databaseServer) await keepLocked(composition.installation);
    if (!databaseServer && processes === 1) await age(composition);
    await composition.serve();
  }

  /** It is there for a year already. */
  async function age({ workspaces }: Composition): Promise<void> {
    const own = workspaces.partitions().find(({ name }) => name === 'test');
    if (own) await addOldRows(own.store, clock.now());
  }

  /** Called with the database before anybody has asked it anything of a workspace. */
  function watched(life: Life) {
    return (installation: Installation) => {
      const { commitRelaxed } = installation;
      const late: Installation = {
        ...installation,
        async commitRelaxed(work) {
          if (slowness.by > 0) {
            await slowness.pass();
            await new Promise<void>((resolve) => life.whenAwake(resolve));
          }
          return commitRelaxed(work);
        },
      };
      Object.assign(installation, installationOver(watchedDatabase(late, statements.watchOf(life)), installation.id));
      return soleHolder;
    };
  }

  /** Nobody else opens the file: to lock it for each statement would take a third of the time that statements take. */
  async function keepLocked({ query }: Installation): Promise<void> {
    await sql`pragma locking_mode = exclusive`.execute(query);
  }

  /** Lets time pass for as long as the work takes. Only one caller may advance the time. */
  async function during(work: Promise<unknown>): Promise<void> {
    let isOver = false;
    const end = work.finally(() => {
      isOver = true;
    });
    end.catch(() => undefined);
    await clock.until(() => isOver);
    await end;
  }

  /** The partition that works, wherever it is, by the clock of its process. */
  const atWork = (): { readonly partition: Partition; readonly clock: Clock } | undefined =>
    replicas
      .flatMap(({ running }) => (running?.life.isAlive() ? [running] : []))
      .flatMap(({ life, composition }) =>
        composition.workspaces.partitions().map((own) => ({ partition: own, clock: life.clock })),
      )
      .find(({ partition: { name } }) => name === 'test');
  const partition = () => atWork()?.partition;
  const leases = async () => (databaseServer ? ownersOf(databaseServer.installation.query, {}) : []);

  async function stop(replica: Replica, ending?: Promise<void>): Promise<void> {
    const { running } = replica;
    if (!running) return;
    const { life } = running;
    await during(ending ?? running.composition.close()).catch((error: unknown) => {
      // A process that cannot give back its leases reports that, and ends all the same.
      if (!(error instanceof DatabaseFault && error.kind === 'away')) throw error;
    });
    // A process with a timer does not end, nor does one that waits for an answer.
    if (life.isAlive())
      for (const [what, count] of Object.entries({ timers: life.timers(), requests: life.requests() }))
        if (count > 0) tellFault(`${life.name} was stopped, and left ${count} ${what}`);
    statements.stopped(life);
    await rest();
    life.kill();
    recorder.record({ what: 'stopped', process: life.name, replica: replica.number });
    network.close(replica.origin);
    replica.running = undefined;
  }

  async function bury(replica: Replica): Promise<void> {
    const { number, origin, running } = replica;
    if (!running) return;
    running.life.kill();
    recorder.record({ what: 'killed', process: running.life.name, replica: number });
    network.close(origin);
    await rest();
    running.composition.folder.release();
    rmSync(join(dataOf(number), 'daemon.json'), { force: true });
    if (!databaseServer) await running.composition.installation.close();
    replica.running = undefined;
  }

  return {
    ...{ seed: plan.seed, clock, recorder, weather, network, providers, people, replicas, databaseServer, slowness },
    /** `othersKey` is that of another user of the workspace. */
    ...{
      statements,
      counts,
      othersKey,
      start,
      stop,
      bury,
      configure,
      atWork,
      partition,
      during,
      leases,
      tell: tellFault,
    },
    settings: () => present,
    /** The wall clock there, where it was never set. */
    timeOf: (number: number) => (replicas[number]?.machine.ahead === 0 && !databaseServer ? clock.now() : undefined),
    /** The number of the replica that owns the workspace; -1: none does. */
    async ownerOf(): Promise<number> {
      const owner = (await leases()).find(({ name }) => name === 'test');
      return replicas.find(({ origin }) => origin === owner?.address)?.number ?? -1;
    },
    /** How often it is noted that the clock of the database was set. */
    async clockEras(): Promise<number> {
      const noted = databaseServer?.installation.query
        .selectFrom('installation')
        .select('value')
        .where('name', '=', 'clock.era');
      return Number((await noted?.executeTakeFirst())?.value ?? 0);
    },
    /** Whether the replicas own as many workspaces each. */
    async isShared(): Promise<boolean> {
      const owners = await leases();
      return (
        owners.length === 1 + SPARE.length && new Set(owners.map(({ address }) => address)).size === replicas.length
      );
    },
    async backUp(): Promise<void> {
      const running = replicas[0]?.running;
      if (!running || databaseServer) return;
      // The database's own way of copying itself waits for the real disk, which takes another number of turns each time.
      await sql`pragma wal_checkpoint(truncate)`
        .execute(running.composition.installation.query)
        .catch((error: unknown) => {
          if (running.life.isAlive()) throw error;
        });
      // A process that was killed meanwhile has no backup.
      if (!running.life.isAlive()) return;
      copyFileSync(join(dataOf(0), 'worksync.db'), backup);
      markAsCopy(backup);
      backupAt = clock.elapsed();
    },
    /** @param byHand whether somebody copies the file, in place of the command */
    async restore(byHand = false): Promise<boolean> {
      if (backupAt === undefined) return false;
      const file = join(dataOf(0), 'worksync.db');
      if (byHand) putInPlace(backup, file);
      else await restoreAll({ backup, file, random: randomOf(chance('restore')), checkFile: async () => [] });
      recorder.record({ what: 'restored', backupAt });
      return true;
    },
    async fillDisk({ running }: Replica, isFull: boolean): Promise<void> {
      if (!running?.life.isAlive() || databaseServer) return;
      const { query, size } = running.composition.installation;
      const pages = isFull ? Math.ceil(size() / 4_096) : 1_073_741_823;
      await sql`${sql.raw(`pragma max_page_count = ${pages}`)}`.execute(query);
    },
    async status({ number, origin }: Replica): Promise<Status | undefined> {
      const owner = findDaemon(dataOf(number));
      if (!owner) return undefined;
      const headers = { authorization: `Bearer ${owner.token}` };
      const answer = network.direct.request({ method: 'GET', url: `${origin}/status.json`, headers, target: 'status' });
      await during(answer);
      return JSON.parse((await answer).body.toString()) as Status;
    },
    async releaseHeld(): Promise<void> {
      const working = partition();
      if (!working) return;
      const { store } = working;
      const held = await store.query.selectFrom('outbox').select('entity').where('state', '=', 'held').execute();
      if (held.length === 0) return;
      const [one, ...others] = held.map(({ entity }) => entity) as [string, ...string[]];
      await releaseHeld(store, { entities: [one] });
      const released = await store.query.selectFrom('outbox').select('entity').where('state', '!=', 'held').execute();
      const tooMany = released.filter(({ entity }) => others.includes(entity));
      for (const { entity } of tooMany) tellFault(`${entity} was released, and somebody released ${one}`);
      if (others.length > 0) await releaseHeld(store, { entities: others });
      working.wakeOutbox();
    },
    /** On known days: how many rows there are, and how many statements it took. */
    async noteRows(): Promise<void> {
      const query = databaseServer?.installation.query ?? replicas[0]?.running?.composition.installation.query;
      if (!plan.isKnown || !query) return;
      const ran = ['statements so far', String(statements.count())] as const;
      recorder.record({ what: 'rows', counts: [ran, ...(await countRows(query))] });
    },
    /** Whether nothing disturbs the processes now, nor has of late. */
    setQuiet: (next: boolean) => void (isQuiet = next),
    pass: (ms: number) => during(new Promise<void>((resolve) => void clock.after(ms, resolve))),
    async close(): Promise<void> {
      for (const replica of replicas) if (replica.running) await bury(replica);
      await during(service.close());
      if (spare) await during(spare.service.close());
      await databaseServer?.installation.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** As the daemon's own copies are marked, so that whoever opens one knows that it is old. */
function markAsCopy(file: string): void {
  const raw = new BetterSqlite(file);
  raw.pragma('user_version = 1');
  raw.close();
}

/** Somebody copies the backup over the database while nothing has it open. */
function putInPlace(backup: string, file: string): void {
  for (const end of ['-wal', '-shm']) rmSync(file + end, { force: true });
  copyFileSync(backup, file);
}
