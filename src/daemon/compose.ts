// Design: src/decisions/daemon.md

import { createCauseTimesByWorkspace } from '../admin/status/describe-open-workspace.ts';
import type { Sharing } from '../admin/status/replica-status.ts';
import type { Lease } from '../cluster/lease-holder.ts';
import { createReplicas } from '../cluster/replicas.ts';
import { createSignatures } from '../cluster/signature.ts';
import { createTokenBook } from '../gateway/token-book.ts';
import { MAX_TIME_IN_FLIGHT } from '../model/change.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import type { DaemonOptions, Flags } from '../platform/config/daemon-options.ts';
import type { LoadedConfig } from '../platform/config/load.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { TraceExport } from '../platform/config/trace-export.ts';
import { createServerClocks, type ServerClocks } from '../platform/http/server-clocks.ts';
import { isSameSecret } from '../platform/lib/digest.ts';
import { doAll } from '../platform/lib/failures.ts';
import { createScheduler, type Timetable } from '../platform/lib/scheduler.ts';
import type { Tracer } from '../platform/lib/tracer.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import { acquireDataFolder, type DataFolder } from '../store/installation/data-folder.ts';
import type { Installation } from '../store/installation/installation.ts';
import { installationRuns } from '../store/installation/job-runs.ts';
import { createGroupCommit } from '../sync/intake/append.ts';
import { createGrants } from '../sync/intake/grants.ts';
import { type RetainedWorkspace, retentionJob } from '../sync/intake/retention.ts';
import { createConverter } from '../sync/worker/converter.ts';
import type { Token } from '../web/access/token-callers.ts';
import type { DaemonContext, ProcessContext, Succession, WakeSignals, WorkspaceAddress } from './daemon-context.ts';
import type { Embedded } from './embedded.ts';
import { createNotifications } from './notifications.ts';
import { type OpenStore, openStore, secretBoxBeside } from './open-store.ts';
import { openPartition } from './partition.ts';
import { type ConfigSource, createReload, type Reload } from './reload.ts';
import { type Daemon, serve } from './serve.ts';
import { createStoreHealth, integrityJob, type StoreHealth } from './store-health.ts';
import { createRemoteReceivers, recordTriageStart } from './webhook-receivers.ts';
import { createWorkspaces, type OnConfigured, type OpenedWorkspace, type Workspaces } from './workspaces.ts';

/** The precautions of a successor. The careful time is short, because the crash was another process's. */
export const SUCCESSION: Succession = { careful: 60_000, untouched: MAX_TIME_IN_FLIGHT };

/** The daemon with everything open and connected. Nothing runs yet. */
export interface Composition {
  readonly folder: DataFolder;
  readonly installation: Installation;
  readonly serverClocks: ServerClocks;
  readonly workspaces: Workspaces;
  readonly reload: Reload;
  /** Starts the stages and opens the servers. */
  serve(): Promise<Daemon>;
  /** Returns the address of the process that owns a workspace; undefined if it has no owner. */
  ownerAddress(workspace: string): Promise<string | undefined>;
  /** Closes everything in reverse order. Idempotent. */
  close(onClosing?: OnClosing): Promise<void>;
}

export interface ComposeInput {
  readonly config: LoadedConfig;
  readonly options: DaemonOptions;
  /** The flags of the command; absent: all options come from the environment or are defaults. */
  readonly flags?: Flags;
  readonly scrubber: Scrubber;
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
  readonly onLag?: (milliseconds: number) => void;
  /** Called with every statement of the database; for tests that count independently. */
  readonly onStatement?: (sql: string) => void;
}

/**
 * Composes the daemon from its configuration: opens the store, then the workspaces. `serve` then starts the stages and the servers.
 * A workspace that cannot be opened does not affect the others. If none can be opened, everything is closed again, and the reason
 * of the first is thrown.
 */
export async function compose(input: ComposeInput, context: ProcessContext): Promise<Composition> {
  const closers = createClosers();
  try {
    const serverClocks = createServerClocks(context.http, context.clock);
    const folder = acquireDataFolder(input.options.data);
    closers.add('the data folder', () => folder.release());
    closers.add('the HTTP client', () => serverClocks.http.close());

    const { random, steps, checkFile } = context;
    const storeHealth = createStoreHealth(context);
    const opening = { random, steps, checkFile, onFault: storeHealth.record, onStatement: input.onStatement };
    const configured = (): readonly WorkspaceConfig[] => workspaces.configured();
    const store = await openStore({ ...input, folder: folder.path, workspaces: configured, opening }, context);
    closers.add('the database', () => store.close());
    const onTokenChange = async () => remote?.notifications.notifyTokenChange();
    const daemon = await openServices(input, { ...context, http: serverClocks.http }, store, onTokenChange, closers);
    const upkeep = openUpkeep(daemon, storeHealth, () => workspaces);

    closers.add('the leases', () => store.holder.stop());
    const open = workspaceOpener(daemon, { folder: folder.path, secretKey: input.secretKey, isShared: store.isShared });
    const onConfigured: OnConfigured = async (configs) => {
      if (store.isShared) await recordTriageStart(configs, daemon);
    };
    const workspaces = createWorkspaces(daemon, store.holder, open, onConfigured);
    closers.add('the workspaces', () => workspaces.stop(), { stores: true });
    store.holder.onChange(() => workspaces.followLeases());
    await workspaces.apply(input.config);
    requireAnyOpen(workspaces);

    const remote = store.isShared ? openRemote(daemon, workspaces) : undefined;
    const { config, options, flags, scrubber, demoSecret, tokens = [], source = unchanging(config) } = input;
    const reload = createReload(daemon, source, workspaces, scrubber);
    return {
      folder,
      installation: store.installation,
      serverClocks,
      workspaces,
      reload,
      async serve() {
        const servers = await serve(daemon, {
          options,
          flags,
          tokens,
          scrubber,
          folder,
          serverClocks,
          workspaces,
          reload,
          demoSecret: demoSecret && config.secrets.find((secret) => isSameSecret(secret, demoSecret)),
          holder: store.holder,
          remoteReceiver: remote?.findReceiver,
          sharing: store.isShared ? sharingOf(input, store, context) : undefined,
        });
        announcePorts(store, servers);
        for (const stage of [storeHealth, upkeep, remote?.notifications]) stage?.start();
        closers.add('the notifications of other processes', async () => remote?.notifications.stop());
        closers.add('the watch over the database', () => storeHealth.stop());
        closers.add('the upkeep of the database', () => upkeep.stop());
        closers.add('the reload of the configuration', () => reload.stop());
        closers.add('the servers', () => servers.stop(), { stores: true });
        return servers;
      },
      ownerAddress: async (workspace) => (await store.holder.ownerOf(workspace))?.address,
      close: closers.closeAll,
    };
  } catch (error) {
    await closers.closeAll();
    throw error;
  }
}

/** Opens the services that all workspaces of the process share. */
async function openServices(
  input: ComposeInput,
  base: ProcessContext,
  { installation, clock, ledgerClock, isShared }: OpenStore,
  onTokenChange: () => Promise<void>,
  closers: Closers,
): Promise<DaemonContext> {
  const context = { ...base, clock };
  const { http, logger, random } = context;
  const tracing = await openTracing(input, context, installation);
  if (tracing) closers.add('the traces', () => tracing.stop());
  const converter = context.converter ?? createConverter();
  closers.add('the converter', () => converter.close());
  const box = secretBoxBeside(installation.file, input.secretKey, random);
  const keepSecret = input.scrubber.addForNow;
  return {
    ...context,
    version: input.version,
    installation,
    converter,
    grants: createGrants({ installation, isShared, http, clock, logger, box, keepSecret }),
    scheduler: createScheduler(context),
    groupCommit: createGroupCommit({
      sql: installation.query,
      checkFileReplaced: installation.checkFileReplaced,
      clock,
    }),
    tokenBook: createTokenBook(installation.query, onTokenChange),
    causeTimes: createCauseTimesByWorkspace(),
    tracer: tracing?.tracer,
    publicUrl: input.options.publicUrl,
    ledgerClock,
    succession: isShared ? SUCCESSION : undefined,
    onLag: input.onLag,
  };
}

/** Opens the export of traces. Its code is loaded only if traces are exported. */
async function openTracing(
  { traces, version, scrubber }: ComposeInput,
  context: ProcessContext,
  { id }: Installation,
): Promise<{ readonly tracer: Tracer; stop(): Promise<void> } | undefined> {
  if (!traces) return undefined;
  const { createTracing } = await import('./tracing.ts');
  return createTracing(context, traces, { installation: id, version, scrubber });
}

/** Opens the jobs of the database as a whole: the integrity check and the retention. */
function openUpkeep(daemon: DaemonContext, storeHealth: StoreHealth, workspaces: () => Workspaces): Timetable {
  const { installation, logger, clock, scheduler } = daemon;
  const integrity = integrityJob(daemon);
  const retained = (): readonly RetainedWorkspace[] =>
    workspaces()
      .partitions()
      .map(({ name, store, config: { retention } }) => ({ name, store, retention }));
  const retention = retentionJob({ query: installation.query, workspaces: retained, clock, logger });
  const upkeep = scheduler.open([integrity, retention], installationRuns(installation), logger);
  storeHealth.watch(installation, () => upkeep.runNow(integrity.name));
  return upkeep;
}

interface OpenerInput {
  readonly folder: string;
  readonly secretKey: Buffer | undefined;
  readonly isShared: boolean;
}

/** Creates the function that opens a workspace, with an embedded service if no address is configured. */
function workspaceOpener(daemon: DaemonContext, { folder, secretKey, isShared }: OpenerInput) {
  return async (config: WorkspaceConfig, wakeSignals: WakeSignals, lease: Lease): Promise<OpenedWorkspace> => {
    const isEmbedded = config.workspace.url === undefined;
    if (isEmbedded && isShared) throw embeddedNotShared(config);
    const service = isEmbedded ? await openEmbedded({ config, folder, secretKey }, daemon) : undefined;
    try {
      const address = addressOf(config, service);
      return { service, partition: await openPartition(daemon, { ...wakeSignals, config, address, lease }) };
    } catch (error) {
      await service?.close();
      throw error;
    }
  };
}

/** Starts the reference service. Its code is loaded only if a workspace is embedded. */
async function openEmbedded(
  place: { config: WorkspaceConfig; folder: string; secretKey?: Buffer },
  context: ProcessContext,
): Promise<Embedded> {
  const { startEmbedded } = await import('./embedded.ts');
  return startEmbedded(place, context);
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
  { secretKey }: ComposeInput,
  { installation, holder, clock }: OpenStore,
  { random }: ProcessContext,
): Sharing {
  if (!secretKey) throw new SyncError('internal', 'a shared store was opened without a key');
  const signatures = createSignatures({ secretKey, installation: installation.id, now: () => clock.now(), random });
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
