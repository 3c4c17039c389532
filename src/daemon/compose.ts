// Design: src/decisions/daemon.md

import { createCauseTimesByWorkspace } from '../admin/status/describe-open-workspace.ts';
import type { Sharing } from '../admin/status/whole-status.ts';
import type { Lease } from '../cluster/lease-holder.ts';
import { createReplicas, createSignatures } from '../cluster/replicas.ts';
import { createTokenBook } from '../gateway/token-book.ts';
import { MAX_TIME_IN_FLIGHT } from '../model/change.ts';
import { SyncError } from '../model/errors.ts';
import type { LoadedConfig } from '../platform/config/load.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { createServerClocks } from '../platform/http/http-client.ts';
import { doAll } from '../platform/lib/concurrency.ts';
import { isSameSecret } from '../platform/lib/digest.ts';
import { createScheduler, type Timetable } from '../platform/lib/scheduler.ts';
import type { Tracer } from '../platform/lib/telemetry.ts';
import { acquireDataFolder, type Installation } from '../store/installation/installation.ts';
import { installationRuns } from '../store/installation/job-runs.ts';
import type { WakeSignals } from '../store/store-context.ts';
import { createGroupCommit } from '../sync/intake/append.ts';
import { createGrants } from '../sync/intake/grants.ts';
import { retentionJob } from '../sync/intake/retention.ts';
import { createConverter } from '../sync/worker/converter.ts';
import type {
  ConfigSource,
  DaemonContext,
  ProcessContext,
  ProcessSettings,
  Succession,
  WorkspaceAddress,
} from './daemon-context.ts';
import type { Embedded } from './embedded.ts';
import { createNotifications } from './notifications.ts';
import {
  createStoreHealth,
  integrityJob,
  type OpenStore,
  openStore,
  type StoreHealth,
  secretBoxBeside,
} from './open-store.ts';
import { openPartition } from './partition.ts';
import { type Daemon, serve } from './serve.ts';
import { createRemoteReceivers, recordTriageStart } from './webhook-receivers.ts';
import {
  createReload,
  createWorkspaces,
  type OnConfigured,
  type OpenedWorkspace,
  type Workspaces,
} from './workspaces.ts';

/** The precautions of a successor. The careful time is short, because the crash was another process's. */
export const SUCCESSION: Succession = { careful: 60_000, untouched: MAX_TIME_IN_FLIGHT };

/** The daemon with everything open and connected. Nothing runs yet. */
export type Composition = Awaited<ReturnType<typeof compose>>;

/**
 * Composes the daemon from its configuration: opens the store, then the workspaces. `serve` then starts the stages and the servers.
 * A workspace that cannot be opened does not affect the others. If none can be opened, everything is closed again, and the reason
 * of the first is thrown.
 */
export async function compose(settings: ProcessSettings, context: ProcessContext) {
  const closers = createClosers();
  try {
    const serverClocks = createServerClocks(context.http, context.clock);
    const folder = acquireDataFolder(settings.options.data);
    closers.add('the data folder', () => folder.release());
    closers.add('the HTTP client', () => serverClocks.http.close());

    const process = { ...context, ...settings, folder, serverClocks, http: serverClocks.http };
    const storeHealth = createStoreHealth(context);
    const configured = (): readonly WorkspaceConfig[] => workspaces.configured();
    const store = await openStore(process, folder.path, configured, storeHealth.record);
    closers.add('the database', () => store.close());
    const onTokenChange = async () => remote?.notifications.notifyTokenChange();
    const daemon = await openServices(process, store, onTokenChange, closers);
    const upkeep = openUpkeep(daemon, storeHealth, () => workspaces);

    closers.add('the leases', () => store.holder.stop());
    const onConfigured: OnConfigured = async (configs) => {
      if (store.isShared) await recordTriageStart(configs, daemon);
    };
    const workspaces = createWorkspaces(daemon, store.holder, workspaceOpener(daemon), onConfigured);
    closers.add('the workspaces', () => workspaces.stop(), { stores: true });
    store.holder.onChange(() => workspaces.followLeases());
    await workspaces.apply(settings.config);
    requireAnyOpen(workspaces);

    const remote = store.isShared ? openRemote(daemon, workspaces) : undefined;
    const reload = createReload(daemon, settings.source ?? unchanging(settings.config), workspaces);
    return {
      folder,
      installation: store.installation,
      serverClocks,
      workspaces,
      reload,
      /** Starts the stages and opens the servers. */
      async serve(): Promise<Daemon> {
        const servers = await serve(daemon, workspaces, reload, remote?.findReceiver);
        announcePorts(store, servers);
        for (const stage of [storeHealth, upkeep, remote?.notifications]) stage?.start();
        closers.add('the notifications of other processes', async () => remote?.notifications.stop());
        closers.add('the watch over the database', () => storeHealth.stop());
        closers.add('the upkeep of the database', () => upkeep.stop());
        closers.add('the reload of the configuration', () => reload.stop());
        closers.add('the servers', () => servers.stop(), { stores: true });
        return servers;
      },
      /** Returns the address of the process that owns a workspace; undefined if it has no owner. */
      ownerAddress: async (workspace: string) => (await store.holder.ownerOf(workspace))?.address,
      /** Closes everything in reverse order. Idempotent. */
      close: closers.closeAll,
    };
  } catch (error) {
    await closers.closeAll();
    throw error;
  }
}

/** Opens the services that all workspaces of the process share. */
async function openServices(
  process: ProcessContext & ProcessSettings & Pick<DaemonContext, 'folder' | 'serverClocks'>,
  store: OpenStore,
  onTokenChange: () => Promise<void>,
  closers: Closers,
): Promise<DaemonContext> {
  const { installation, clock, ledgerClock, isShared, holder } = store;
  const context = { ...process, clock };
  const { random, secretKey, demoSecret, config } = context;
  const tracing = await openTracing(context, installation);
  if (tracing) closers.add('the traces', () => tracing.stop());
  const converter = context.converter ?? createConverter();
  closers.add('the converter', () => converter.close());
  const box = secretBoxBeside(installation.file, secretKey, random);
  const keepSecret = context.scrubber.addForNow;
  return {
    ...context,
    demoSecret: demoSecret && config.secrets.find((secret) => isSameSecret(secret, demoSecret)),
    installation,
    holder,
    sharing: isShared ? sharingOf(context, store) : undefined,
    converter,
    grants: createGrants({ ...context, installation, isShared, box, keepSecret }),
    scheduler: createScheduler(context),
    groupCommit: createGroupCommit(installation, clock),
    tokenBook: createTokenBook(installation.query, onTokenChange),
    causeTimes: createCauseTimesByWorkspace(),
    tracer: tracing?.tracer,
    ledgerClock,
    succession: isShared ? SUCCESSION : undefined,
  };
}

/** Opens the export of traces. Its code is loaded only if traces are exported. */
async function openTracing(
  context: ProcessContext & ProcessSettings,
  { id }: Installation,
): Promise<{ readonly tracer: Tracer; stop(): Promise<void> } | undefined> {
  if (!context.traces) return undefined;
  const { createTracing } = await import('./tracing.ts');
  return createTracing(context, context.traces, id);
}

/** Opens the jobs of the database as a whole: the integrity check and the retention. */
function openUpkeep(daemon: DaemonContext, storeHealth: StoreHealth, workspaces: () => Workspaces): Timetable {
  const { installation, logger, clock, scheduler } = daemon;
  const integrity = integrityJob(daemon);
  const retention = retentionJob(installation.query, clock, logger, () => workspaces().partitions());
  const upkeep = scheduler.open([integrity, retention], installationRuns(installation), logger);
  storeHealth.watch(installation, () => upkeep.runNow(integrity.name));
  return upkeep;
}

/** Creates the function that opens a workspace, with an embedded service if no address is configured. */
function workspaceOpener(daemon: DaemonContext) {
  return async (config: WorkspaceConfig, wakeSignals: WakeSignals, lease: Lease): Promise<OpenedWorkspace> => {
    const isEmbedded = config.workspace.url === undefined;
    if (isEmbedded && daemon.sharing) throw embeddedNotShared(config);
    const service = isEmbedded ? await openEmbedded(daemon, config) : undefined;
    try {
      const address = addressOf(config, service);
      return { service, partition: await openPartition(daemon, config, address, lease, wakeSignals) };
    } catch (error) {
      await service?.close();
      throw error;
    }
  };
}

/** Starts the reference service. Its code is loaded only if a workspace is embedded. */
async function openEmbedded(daemon: DaemonContext, config: WorkspaceConfig): Promise<Embedded> {
  const { startEmbedded } = await import('./embedded.ts');
  return startEmbedded(daemon, config);
}

/** An embedded service keeps its rows in one data folder, so each machine would have another workspace. */
function embeddedNotShared({ file }: WorkspaceConfig): SyncError {
  return new SyncError('config_invalid', `${file}: workspace.url is needed where PostgreSQL keeps the rows`, {
    hint: 'The service that worksync brings along lives in one data folder: start it by itself with "worksync workspace serve", and name its address.',
  });
}

function addressOf(
  { workspace: { url, apiKey }, file }: WorkspaceConfig,
  service: Embedded | undefined,
): WorkspaceAddress {
  if (service) return { baseUrl: service.url, apiKey: () => service.apiKey };
  if (url === undefined || apiKey === undefined) {
    throw new SyncError('secret_missing', `${file}: workspace.apiKey is needed beside workspace.url`);
  }
  return { baseUrl: url, apiKey: () => apiKey };
}

/** Opens the cooperation with other processes over the same database. */
function openRemote(daemon: DaemonContext, workspaces: Workspaces) {
  const notifications = createNotifications(daemon, (name) => workspaces.find(name)?.wakeReconcile());
  return { notifications, findReceiver: createRemoteReceivers(daemon, workspaces.configured, notifications) };
}

/** Creates the signed requests between the processes over one database. */
function sharingOf(
  { secretKey, clock, random }: ProcessContext & ProcessSettings,
  { installation, holder }: OpenStore,
): Sharing {
  if (!secretKey) throw new SyncError('internal', 'a shared store was opened without a key');
  const signatures = createSignatures(secretKey, installation.id, clock, random);
  return { holder, replicas: createReplicas(holder, signatures) };
}

/** Announces the ports of the servers to other processes. */
function announcePorts(store: OpenStore, { address, adminAddress }: Daemon): void {
  const port = Number(new URL(address).port);
  const adminPort = Number(new URL(adminAddress).port);
  store.listensAt(port, adminPort === port ? undefined : adminPort);
}

/** Throws if no workspace is open, here or at another process. */
function requireAnyOpen(workspaces: Workspaces): void {
  const broken = workspaces.broken();
  const isElsewhere = [...broken.values()].some(({ code }) => code === 'held_elsewhere');
  if (workspaces.partitions().length === 0 && !isElsewhere) throw noneOpen(broken);
}

/** Returns an error with the reason of each workspace. Its code, and with it the exit code, is that of the first. */
function noneOpen(broken: ReadonlyMap<string, SyncError>): SyncError {
  const [first] = broken.values();
  if (first === undefined) return new SyncError('internal', 'there is no workspace to start');
  if (broken.size === 1) return first;
  const reasons = [...broken].map(([workspace, { message }]) => `${workspace}: ${message}`);
  return new SyncError(first.code, reasons.join('\n'), { cause: first, hint: first.hint });
}

/** A source for commands, which end before the configuration could change. */
function unchanging(config: LoadedConfig): ConfigSource {
  return { load: () => config, stamp: () => '', checkEvery: 60_000 };
}

/**
 * Called before each part is closed.
 *
 * @param isStored whether everything that must outlive the process is stored by now
 */
type OnClosing = (part: string, isStored: boolean) => void;

/** An open part. */
interface OpenPart {
  readonly name: string;
  readonly close: () => Promise<void> | void;
  /** Whether it stores something that must outlive the process before it closes. */
  readonly stores: boolean;
}

type Closers = ReturnType<typeof createClosers>;

/** Keeps the open parts, and how each is closed. */
function createClosers() {
  const opened: OpenPart[] = [];
  return {
    add(name: string, close: OpenPart['close'], { stores } = { stores: false }): void {
      opened.push({ name, close, stores });
    },
    /** Closes all in reverse order, also after one has failed, so that no lock and no file stays open. Idempotent. */
    closeAll(onClosing?: OnClosing): Promise<void> {
      const parts = opened.splice(0).toReversed();
      // A step that fails stays in the list.
      const unstored = new Set(parts.filter(({ stores }) => stores));
      return doAll(
        parts.map((part) => async () => {
          onClosing?.(part.name, unstored.size === 0);
          await part.close();
          unstored.delete(part);
        }),
      );
    },
  };
}
