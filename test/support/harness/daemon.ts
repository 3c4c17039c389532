import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Webhooks } from '@octokit/webhooks';
import { sql } from 'kysely';
import { stringify } from 'yaml';
import {
  type AdminOperation,
  type Answered,
  type Asked,
  runAdminOperation,
} from '../../../src/admin/admin-operations.ts';
import { type LeaseHolder, soleHolder } from '../../../src/cluster/lease-holder.ts';
import type { Connector } from '../../../src/connectors/connector.ts';
import { connectors as realConnectors } from '../../../src/connectors/registry.ts';
import { compose } from '../../../src/daemon/compose.ts';
import { gitProviders } from '../../../src/daemon/embedded.ts';
import type { Partition } from '../../../src/daemon/partition.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { stampOf } from '../../../src/platform/config/config-files.ts';
import { loadConfig } from '../../../src/platform/config/load.ts';
import type { TraceExport } from '../../../src/platform/config/trace-export.ts';
import { createHttpClient, type HttpClient } from '../../../src/platform/http/http-client.ts';
import { type Random, systemRandom } from '../../../src/platform/lib/clock.ts';
import type { CheckFile } from '../../../src/platform/lib/integrity.ts';
import { type Logger, type Steps, silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createHealth } from '../../../src/platform/observe/health.ts';
import { createMetrics } from '../../../src/platform/observe/metrics.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';
import type { Faults } from '../../../src/reference-service/http/pipeline.ts';
import type { Quota } from '../../../src/reference-service/http/quota-log.ts';
import { createWorkspaceService, type WorkspaceServiceOptions } from '../../../src/reference-service/service.ts';
import { NEVER } from '../../../src/store/deliveries/wanted-fetches.ts';
import { INSTALLATION_FILE, type Installation } from '../../../src/store/installation/installation.ts';
import { type Converter, createInlineConverter } from '../../../src/sync/worker/converter.ts';
import type { Token } from '../../../src/web/access/callers.ts';
import { apiOverrides } from '../../../src/workspace-api/contract.ts';
import { createSend, createWorkspaceClient } from '../../../src/workspace-api/typed-client.ts';
import { createQueryPlans } from '../cost/query-plans.ts';
import type { Behaviours } from '../fakes/plausible-server/dimensions.ts';
import { type PlausibleServerOptions, plausibleServer } from '../fakes/plausible-server/plausible-server.ts';
import { createTravellingClock, type TravellingClock } from '../fakes/travelling-clock.ts';
import { createWeather } from '../fakes/weather.ts';
import { openGate } from '../postgres/server-gate.ts';
import { ON_POSTGRES, storePlace } from '../postgres/store-place.ts';
import { type PullSetting, pullEvent } from '../vendors/github-payloads.ts';
import { documentedOnly } from '../vendors/vendor-requests/index.ts';
import { handsOf } from './people.ts';
import { nextTurnOfLoop, statementsUnderWay, watchStatements } from './statements.ts';
import { makeServiceTables, makeTables } from './templates.ts';

export const WEBHOOK_SECRET = 'a webhook secret for tests only';

/** A connection to GitHub that takes webhooks of one repository, and never polls. */
export const GITHUB = {
  connector: 'github',
  repositories: ['acme/app'],
  webhookSecrets: WEBHOOK_SECRET,
  poll: 'off',
};

const READ_TOKEN = 'a read token for tests only, and a long one'.replaceAll(' ', '-');

export interface WorldOptions {
  /** The service's own limits; the daemon is configured with the same ones unless `config` says otherwise. */
  readonly quota?: Partial<Quota>;
  readonly faults?: Faults;
  /** Keys of the workspace file beside `workspace`; the standard one has one GitHub connection that takes webhooks. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly steps?: Steps;
  /** Where given, so that chance takes the same course each time. */
  readonly random?: Random;
  readonly onStatement?: (sql: string) => void;
  readonly publicUrl?: string;
  /** For pages and admin actions. */
  readonly tokens?: readonly Token[];
  /** The owner's tokens at git providers, by provider: what the owner opens in the workspace is opened there. */
  readonly memberTokens?: Readonly<Record<string, string>>;
  /** First time of the clock, epoch milliseconds; needed beside a real vendor. */
  readonly startAt?: number;
  readonly checkFile?: CheckFile;
  /** Vendors beside the real ones, or in the place of those with the same id. */
  readonly connectors?: readonly Connector<unknown>[];
  /** In the place of the one that reads at once; given that one. */
  readonly converter?: (inline: Converter) => Converter;
  /** Around the daemon's own client, to see what it sends. */
  readonly http?: (own: HttpClient) => HttpClient;
  readonly traces?: TraceExport;
  /** Variant of the service; the reference service's own by default. */
  readonly variant?: WorkspaceServiceOptions['variant'];
  /** How the workspace's server differs from the reference service; `{}`: not at all, but `world.server` counts. */
  readonly behaviours?: Behaviours;
  /** Which answers to the daemon are lost; needs `behaviours`. */
  readonly loses?: PlausibleServerOptions['loses'];
  readonly logger?: Logger;
  /** Where others hold workspaces too. */
  readonly hold?: (installation: Installation, clock: TravellingClock) => LeaseHolder;
}

/** The file in whose place the rows are in PostgreSQL: in a folder that lives as long as the world. */
export const STORE = 'store';
/** Replicas have it from outside. */
const SECRET_KEY = Buffer.alloc(32, 7);

const STANDARD = { connections: { github: GITHUB } };

async function openSite(options: WorldOptions, random: Random) {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-site-'));
  const clock = createTravellingClock({ start: options.startAt });
  const quota = { requests: 200, window: 900_000, burst: 40, burstWindow: 60_000, ...options.quota };
  const traffic: Traffic = { requests: 0 };
  const { meter } = createMetrics({ version: 'test' });
  const outside = countInFlight(documentedOnly(createHttpClient({ meter })), traffic);
  const providers = gitProviders({ http: outside.http, clock, logger: silentLogger });
  const { behaviours, loses } = options;
  const server = behaviours && plausibleServer({ clock, behaviours, loses });
  const weather = createWeather(clock.elapsed);
  // A server with other limits counts by itself.
  const countsItself = (behaviours?.limits ?? 'sliding') !== 'sliding';
  const file = join(folder, 'service.db');
  await makeServiceTables(file);
  const openService = () =>
    createWorkspaceService({
      file,
      clock,
      random,
      logger: silentLogger,
      quota: countsItself ? { ...quota, requests: 0, burst: 0 } : quota,
      faults: oneAfterAnother(options.faults, weather),
      variant: options.variant,
      ...(server && { http: server.serviceClient(createHttpClient()) }),
      providers,
      allowPrivateWebhooks: true,
    });
  let service = await openService();
  const url = await service.listen({ host: '127.0.0.1', port: 0 });
  const credentials = await service.startCredentials();
  for (const [provider, token] of Object.entries(options.memberTokens ?? {})) {
    const host = realConnectors.find(({ id }) => id === provider)?.publicHost as string;
    const { workspaceId, userId } = credentials;
    await service.connectProvider({ workspaceId, userId, provider, host, token });
  }
  const send = createSend({ http: outside.http, baseUrl: url, apiKey: () => credentials.oauthToken });
  return {
    // `traffic`: requests on their way, of all daemons.
    ...{ clock, quota, url, credentials, outside, traffic, server, weather },
    /** `people` is the workspace's owner, by OAuth, who uses no quota. */
    hands: handsOf(createWorkspaceClient<object>({ send, workspaceId: 'current' })),
    service: () => service,
    async unplug() {
      await service.close();
      return async () => {
        service = await openService();
        await service.listen({ host: '127.0.0.1', port: Number(new URL(url).port) });
      };
    },
    async close() {
      await outside.http.close();
      await service.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

type Site = Awaited<ReturnType<typeof openSite>>;
export type World = Awaited<ReturnType<typeof createWorld>>;

/**
 * A workspace service and a daemon in front of it, on one travelling clock, over real HTTP on loopback.
 *
 * @param shared the service and clock of another world, which also closes them
 */
export async function createWorld(options: WorldOptions = {}, shared?: Site) {
  const random = options.random ?? systemRandom();
  const site = shared ?? (await openSite(options, random));
  const { clock, quota, url, credentials, outside, hands, weather, traffic } = site;
  const folder = mkdtempSync(join(tmpdir(), 'worksync-world-'));
  const configPath = join(folder, 'config');
  const plans = createQueryPlans();
  const given = options.connectors ?? [];
  const connectors = [...realConnectors.filter((real) => !given.some(({ id }) => id === real.id)), ...given];

  const config = { quota: daemonQuota(quota), ...options.config };
  if (!ON_POSTGRES) await makeTables(join(folder, 'data', INSTALLATION_FILE));
  let running = await start(config);

  function load() {
    return loadConfig({ path: configPath, env: {}, connectors, apiOverrides });
  }

  /**
   * The content of a workspace's file from now on; undefined: there is none. Its `workspace` is the world's service, and unless it
   * names others its connection is that of a world.
   */
  function configure(workspace: string, content: Readonly<Record<string, unknown>> | undefined): void {
    const file = join(configPath, `${workspace}.yaml`);
    mkdirSync(configPath, { recursive: true });
    if (content === undefined) {
      rmSync(file);
      return;
    }
    // A sweep that nobody asked for would come at a random moment of the first day.
    const address = { url, apiKey: credentials.apiKey, sweep: 'off', ...(content['workspace'] as object | undefined) };
    writeFileSync(file, stringify({ ...STANDARD, ...content, workspace: address }));
  }

  function readConfig(wanted: Readonly<Record<string, unknown>>) {
    configure('test', wanted);
    return load();
  }

  async function start(wanted: Readonly<Record<string, unknown>>, port = 0) {
    const metrics = createMetrics({ version: 'test' });
    const vendors = documentedOnly(createHttpClient({ steps: options.steps, meter: metrics.meter }));
    const inside = countInFlight(vendors, traffic);
    const http = site.server?.daemonClient(inside.http) ?? inside.http;
    const parts = {
      ...{ clock, random, metrics, connectors, health: createHealth(), steps: options.steps },
      http: options.http?.(http) ?? http,
      logger: options.logger ?? silentLogger,
      checkFile: options.checkFile ?? (async () => []),
      // A thread's work is real time, which does not travel.
      converter: (options.converter ?? ((inline) => inline))(createInlineConverter(connectors)),
      createLeaseHolder: (installation: Installation) => options.hold?.(installation, clock) ?? soleHolder,
    };
    const gate = ON_POSTGRES ? await openGate(await storePlace(join(folder, STORE))) : undefined;
    const composition = await compose(
      {
        config: readConfig(wanted),
        source: { load, stamp: () => stampOf({ path: configPath }, []), checkEvery: 60_000 },
        options: {
          data: join(folder, 'data'),
          host: '127.0.0.1',
          port,
          logLevel: 'silent',
          publicUrl: options.publicUrl,
          ...(gate && { store: gate.address }),
        },
        ...(gate && { secretKey: SECRET_KEY }),
        scrubber: createScrubber(),
        traces: options.traces,
        tokens: [{ secret: READ_TOKEN, role: 'read', workspaces: null }, ...(options.tokens ?? [])],
        version: 'test',
        onStatement(statement) {
          plans.saw(statement);
          options.onStatement?.(statement);
        },
      },
      parts,
    );
    const endWatch = watchStatements(composition.installation);
    const daemon = await composition.serve();
    return { wanted, composition, daemon, inside, gate, endWatch };
  }

  async function stopRunning({ composition, daemon, gate, endWatch }: typeof running): Promise<void> {
    // An orderly end waits for timers of its own, which only travel.
    let ended = false;
    const end = (async () => {
      await daemon.stop();
      await composition.close();
    })().finally(() => {
      ended = true;
      endWatch();
      gate?.cut();
    });
    while (!ended) {
      await realTurns();
      if (!ended && traffic.requests + statementsUnderWay() === 0) await clock.advance(1_000);
    }
    await end;
  }

  let isBegun = false;
  /** Real work goes on in turns of the event loop: time may pass only when there is none. */
  async function quiet(): Promise<void> {
    do await realTurns();
    while (traffic.requests + statementsUnderWay() > 0);
    isBegun = true;
  }

  /** Lets time pass until the condition holds; throws after `limit` milliseconds of travel. */
  async function until(condition: () => boolean | Promise<boolean>, limit = 3_600_000): Promise<void> {
    const end = clock.elapsed() + limit;
    for (;;) {
      await quiet();
      if (await condition()) return;
      if (clock.elapsed() > end) throw new Error(`not reached within ${limit} ms of travel`);
      if (!(await clock.toNextTimer())) throw new Error('not reached, and nothing is waiting for time to pass');
    }
  }

  /** The present one: another takes its place where the configuration changes. */
  const partition = () => running.composition.workspaces.find('test') as Partition;

  async function isSettled(): Promise<boolean> {
    return partition().outbox.inFlight === 0 && !(await isAnythingPending(running.composition.installation));
  }

  /** Posts a webhook of any vendor to a connection; resolves with the status, 0 where the daemon ended before it answered. */
  const post = async (
    connection: string,
    { headers, body }: { headers: Readonly<Record<string, string>>; body: string },
  ): Promise<number> => {
    // The work of a start comes before all deliveries, however long its database takes.
    if (!isBegun) await quiet();
    const { daemon, inside } = running;
    const target = `${daemon.address}/webhooks/test/${connection}`;
    const { status } = await outside.http.request({ method: 'POST', url: target, headers, body, target: 'test' });
    return inside.isCut() ? 0 : status;
  };

  /** A copy of what is on the disk now; SQLite's shared memory is none of it, and dies with its process. */
  function copyData(): string {
    const copy = join(folder, 'killed');
    cpSync(join(folder, 'data'), copy, { recursive: true, filter: (file) => !file.endsWith('-shm') });
    return copy;
  }

  const read = (path: string): Promise<Response> =>
    fetch(`${running.daemon.adminAddress}${path}`, { headers: { authorization: `Bearer ${READ_TOKEN}` } });

  let deliveries = 0;
  /** Posts a signed GitHub webhook, to the connection `github` unless another is named; resolves with the status. */
  async function deliver(
    event: string,
    payload: object,
    given: { id?: string; secret?: string; headers?: Readonly<Record<string, string>>; connection?: string } = {},
  ): Promise<number> {
    const { id = `delivery-${++deliveries}`, secret = WEBHOOK_SECRET, connection = 'github' } = given;
    const body = JSON.stringify(payload);
    const headers = {
      ...given.headers,
      'content-type': 'application/json',
      'x-github-event': event,
      'x-github-delivery': id,
      'x-hub-signature-256': await new Webhooks({ secret }).sign(body),
    };
    return post(connection, { headers, body });
  }

  /** A pull request of acme/app opens, or changes, at GitHub: now, unless told. Its webhook is stored. */
  async function pull(
    setting?: PullSetting,
    { action, ...given }: { id?: string; action?: string; connection?: string } = {},
  ): Promise<void> {
    const updated = new Date(clock.now()).toISOString();
    const status = await deliver('pull_request', pullEvent({ updated, ...setting }, action), given);
    if (status !== 202) throw new Error(`the daemon answered ${status}`);
  }

  /** Lets time pass until all is settled. The counts are read one after the other: an answer may become a delivery between two of them. */
  const settled = (limit?: number) => until(async () => (await isSettled()) && (await isSettled()), limit);
  const portOf = (isKept = false) => (isKept ? Number(new URL(running.daemon.address).port) : 0);
  /** Requests that the daemon's key has had at the service, and how many of them were refused. */
  async function requests(): Promise<{ received: number; refused: number }> {
    const counted = (await site.service().statistics()).requests;
    return counted.get(credentials.apiKeyId) ?? { received: 0, refused: 0 };
  }

  const world = {
    ...{
      ...hands,
      clock,
      weather,
      partition,
      configure,
      read,
      deliver,
      pull,
      post,
      until,
      isSettled,
      settled,
      requests,
    },
    site,
    service: site.service,
    /** Where `behaviours` are given. */
    server: site.server,
    daemon: () => running.daemon,
    installation: () => running.composition.installation,
    workspaces: () => running.composition.workspaces,
    configFolder: configPath,
    dataFolder: join(folder, 'data'),
    reload: () => running.composition.reload.now(),
    ask: <Name extends AdminOperation>(question: Name, asked: Asked<Name>): Promise<Answered<Name>> =>
      runAdminOperation(question, partition(), asked, clock),
    metrics: async () => (await read('/metrics')).text(),
    /** Does as `pull` does, then settles everything and lets a minute pass. */
    async edit(setting: PullSetting, id?: string): Promise<void> {
      await pull(setting, { id });
      await settled();
      await clock.advance(60_000);
    },
    async costOf(work: () => Promise<unknown>): Promise<number> {
      const { received } = await requests();
      await work();
      return (await requests()).received - received;
    },
    async pass(ms: number): Promise<void> {
      let isOver = false;
      clock.after(ms, () => {
        isOver = true;
      });
      await until(() => isOver, 2 * ms);
    },
    /** Ends the daemon in order and starts it again on the same data; `meanwhile` gets the data folder. */
    async restart(
      changed?: Pick<WorldOptions, 'config'> & { meanwhile?: (data: string) => unknown; keepPort?: boolean },
    ): Promise<void> {
      const port = portOf(changed?.keepPort);
      await stopRunning(running);
      await changed?.meanwhile?.(join(folder, 'data'));
      running = await start({ ...config, ...changed?.config }, port);
    },
    /**
     * Kills the daemon's process at once: only committed rows remain, and requests in flight get no answer. Returns a function that
     * starts the next one.
     */
    kill(changed?: { keepPort?: boolean }): () => Promise<void> {
      const left = copyData();
      const port = portOf(changed?.keepPort);
      running.inside.cut();
      running.gate?.cut();
      return async () => {
        await stopRunning(running);
        await running.gate?.gone();
        rmSync(join(folder, 'data'), { recursive: true });
        renameSync(left, join(folder, 'data'));
        running = await start(running.wanted, port);
      };
    },
    /** Ends the service. The function that comes back starts it again on the same file and port. */
    unplugService: site.unplug,
    async close(): Promise<void> {
      await stopRunning(running);
      if (!shared) await site.close();
      const costly = await plans.costly();
      rmSync(folder, { recursive: true, force: true });
      if (costly.length > 0) throw new Error(`statements that read more rows than they want:\n${costly.join('\n')}`);
    },
  };
  return world;
}

/** The faults of the first, and where it has none, those of the second. */
function oneAfterAnother(first: Faults = {}, second: Faults): Faults {
  return {
    before: async (request) => (await first.before?.(request)) ?? second.before?.(request),
    after: async (request, answer) => (await first.after?.(request, answer)) ?? second.after?.(request, answer),
  };
}

/** Whether a delivery, a change or a fetch of the workspace waits. It reads a row of each, because a world asks after each step. */
async function isAnythingPending({ query }: Installation): Promise<boolean> {
  const { rows } = await sql<{ any: number | boolean }>`select
    exists (select 1 from inbox where workspace = own.id and state = 'pending')
    or exists (select 1 from outbox where workspace = own.id and state in ('pending', 'sending', 'unknown'))
    or exists (select 1 from fetches where workspace = own.id and not_before < ${NEVER}) as "any"
    from workspaces as own where name = 'test'`.execute(query);
  return Boolean(rows[0]?.any);
}

function daemonQuota({ requests, window, burst, burstWindow }: Quota) {
  return { requests, window: `${window / 1_000}s`, burst, burstWindow: `${burstWindow / 1_000}s`, share: 1 };
}

interface Traffic {
  requests: number;
}

function countInFlight(http: HttpClient, traffic: Traffic) {
  let isCut = false;
  return {
    isCut: () => isCut,
    /** From now on nothing is sent, and nothing that was asked is answered. */
    cut() {
      isCut = true;
    },
    http: {
      async request(request) {
        if (isCut) throw new SyncError('unreachable', 'the process is no more');
        traffic.requests++;
        try {
          const answer = await http.request(request);
          if (isCut) throw new SyncError('outcome_unknown', 'the process is no more');
          return answer;
        } finally {
          traffic.requests--;
        }
      },
      close: () => http.close(),
    } satisfies HttpClient,
  };
}

/** Turns that let what is ready run: rows being committed, sockets being read. */
async function realTurns(): Promise<void> {
  for (let turn = 0; turn < 6; turn++) await nextTurnOfLoop();
}
