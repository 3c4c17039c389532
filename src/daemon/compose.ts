import type { Lease } from '../cluster/holder.ts';
import { recordTriageStart } from '../cluster/record-triage-start.ts';
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
import { doAll } from '../platform/lib/failures.ts';
import { createScheduler } from '../platform/lib/scheduler.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import { acquireDataFolder, type DataFolder } from '../store/data-folder.ts';
import type { Installation } from '../store/installation.ts';
import { installationRuns } from '../store/job-runs.ts';
import { createGroupCommit } from '../sync/intake/append.ts';
import { createGrants } from '../sync/intake/grants.ts';
import { type RetainedWorkspace, retentionJob } from '../sync/intake/retention.ts';
import { createConverter } from '../sync/worker/converter.ts';
import type { Token } from '../web/token-callers.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import type { Embedded } from './embedded.ts';
import { integrityJob } from './integrity-job.ts';
import { createNotifications } from './notifications.ts';
import { type OpenStore, openStore } from './open-store.ts';
import type { Opened } from './owned-workspaces.ts';
import { openPartition } from './partition.ts';
import type { PartitionBells, PartitionOptions } from './partition-parts.ts';
import type { Parts } from './parts.ts';
import { type ConfigSource, createReload, type Reload } from './reload.ts';
import { createRemoteIntake } from './remote-intake.ts';
import { secretBoxBeside } from './secret-box-key.ts';
import { createStoreWatch } from './store-watch.ts';
import type { WorkspaceAddress } from './workspace-api.ts';
import { createWorkspaces, type Workspaces } from './workspaces.ts';

/**
 * Of a workspace that another process worked on until it died. That it died says nothing of this process: it need not be careful for
 * long. Milliseconds.
 */
export const SUCCESSION = { careful: 60_000, untouched: MAX_TIME_IN_FLIGHT };

/** Everything open and wired, nothing running yet. */
export interface Composition {
  readonly folder: DataFolder;
  /** The database. */
  readonly installation: Installation;
  readonly serverClocks: ServerClocks;
  readonly workspaces: Workspaces;
  readonly reload: Reload;
  /** Opens the server and starts the stages. */
  serve(): Promise<Daemon>;
  /** Where the process answers that owns a workspace; undefined where nobody does. */
  ownerAddress(workspace: string): Promise<string | undefined>;
  /** Undoes everything in reverse order, and tells before each step what is closed next. Idempotent. */
  close(tell?: (step: string) => void): Promise<void>;
}

export interface ComposeInput {
  readonly config: LoadedConfig;
  readonly options: DaemonOptions;
  /** Where the options come from, as far as flags say them. */
  readonly flags?: Flags;
  readonly scrubber: Scrubber;
  readonly version: string;
  /** Where the configuration is read again; absent: it never is. */
  readonly source?: ConfigSource;
  /** For pages, metrics and admin actions; the daemon makes one more for the commands beside it. */
  readonly tokens?: readonly Token[];
  /** For what is stored encrypted; absent: each database has a key of its own beside it. */
  readonly secretKey?: Buffer;
  /** Where traces go; absent: none are made. */
  readonly traces?: TraceExport;
  readonly onLag?: (milliseconds: number) => void;
  /** Sees every statement of the database; for tests that count independently. */
  readonly onStatement?: (sql: string) => void;
}

/**
 * Takes the data folder and opens every configured workspace. One that cannot be opened keeps no other from starting.
 * Throws where none can, with the reason of the first; what is open then is closed again.
 */
export async function compose(input: ComposeInput, given: Parts): Promise<Composition> {
  const serverClocks = createServerClocks(given.http, given.clock);
  const { http } = serverClocks;
  const folder = acquireDataFolder(input.options.data);
  const undo: Undo[] = [
    ['the data folder', () => folder.release()],
    ['the HTTP client', () => http.close()],
  ];
  const unwind = (tell?: (step: string) => void) => undoAll(undo.splice(0).toReversed(), tell);
  try {
    const { logger, random, steps, checkFile } = given;
    const watch = createStoreWatch({ ...given, meter: given.metrics.meter });
    const opening = { random, steps, checkFile, onFault: watch.tell, onStatement: input.onStatement };
    const store = await openStore(
      { ...input, folder: folder.path, workspaces: (): readonly WorkspaceConfig[] => workspaces.configured(), opening },
      given,
    );
    const { installation, holder, clock } = store;
    const parts = { ...given, http, clock };
    undo.push(['the database', () => store.close()]);
    const tracing = await tracingOf(input, parts, installation);
    if (tracing) undo.push(['the traces', () => tracing.stop()]);
    const scheduler = createScheduler(parts);
    const integrity = integrityJob({ database: installation, checkFile, logger });
    const retention = retentionJob({
      query: installation.query,
      workspaces: () => retainedOf(workspaces),
      clock,
      logger,
    });
    const upkeep = scheduler.open([integrity, retention], installationRuns(installation), logger);
    watch.watch(installation, () => upkeep.runNow(integrity.name));
    const box = secretBoxBeside(installation.file, input.secretKey, random);
    const converter = parts.converter ?? createConverter();
    undo.push(['the converter', () => converter.close()]);
    const { isShared } = store;
    const keepSecret = input.scrubber.addForNow;
    const grants = createGrants({ installation, isShared, http, clock, logger, box, keepSecret });
    const { version } = input;
    const { publicUrl } = input.options;
    const groupCommit = createGroupCommit({ sql: installation.query, look: installation.look, clock });
    const tokenBook = createTokenBook(installation.query, async () => elsewhere?.wakeSignals.tellTokens());
    const common = {
      ...{ installation, groupCommit, tokenBook, version, converter, grants, scheduler },
      ...{ publicUrl, onLag: input.onLag, tracer: tracing?.tracer },
      ledgerClock: store.ledgerClock,
      ...(store.isShared && { succession: SUCCESSION }),
    };
    undo.push(['the leases', () => holder.stop()]);
    const opener = openerOf({ ...common, ...input, folder: folder.path, isShared: store.isShared }, parts);
    const onConfigured = (configured: readonly WorkspaceConfig[]) =>
      recordTriageStart(configured, { installation, clock, logger });
    const workspaces = createWorkspaces({
      ...{ logger, clock, random, holder, open: opener },
      ...(isShared && { onConfigured }),
    });
    undo.push(['the workspaces', () => workspaces.stop()]);
    holder.onChange(() => workspaces.followHolder());
    await workspaces.apply(input.config);
    refuseNone(workspaces);
    const elsewhere = store.isShared ? elsewhereOf({ ...common, workspaces }, parts) : undefined;
    const { options, flags, scrubber, tokens = [], source = unchanging(input.config) } = input;
    const reload = createReload({ source, workspaces, clock, logger, scrubber });
    return {
      folder,
      installation,
      serverClocks,
      workspaces,
      reload,
      async serve() {
        const whole = {
          ...{ version, options, flags, tokens, tokenBook, folder },
          ...{ installation, serverClocks, workspaces, reload, scrubber, holder },
          receiverElsewhere: elsewhere?.receiver,
          ...(store.isShared && { sharing: sharingOf(input, store, parts) }),
        };
        const daemon = await startDaemon(whole, parts);
        const [port, adminPort] = [daemon.address, daemon.adminAddress].map((each) => Number(new URL(each).port));
        store.listensAt(port as number, adminPort === port ? undefined : adminPort);
        for (const stage of [watch, upkeep, elsewhere?.wakeSignals]) stage?.start();
        undo.push(
          ['the bells of other processes', async () => elsewhere?.wakeSignals.stop()],
          ['the watch over the database', () => watch.stop()],
          ['the upkeep of the database', () => upkeep.stop()],
          ['the reload of the configuration', () => reload.stop()],
          ['the servers', () => daemon.stop()],
        );
        return daemon;
      },
      ownerAddress: async (workspace) => (await holder.ownerOf(workspace))?.address,
      close: unwind,
    };
  } catch (error) {
    await unwind();
    throw error;
  }
}

interface OpenerInput extends Omit<PartitionOptions, 'config' | 'address' | 'wakeSignals' | 'lease'> {
  readonly folder: string;
  readonly secretKey?: Buffer;
  readonly isShared: boolean;
}

/** Opens a workspace, with its own service where it is nowhere else. */
function openerOf({ folder, secretKey, isShared, ...common }: OpenerInput, parts: Parts) {
  return async (config: WorkspaceConfig, wakeSignals: PartitionBells, lease: Lease): Promise<Opened> => {
    if (isShared && config.workspace.url === undefined) throw ownServiceMissing(config);
    const service = await embeddedOf({ config, folder, secretKey }, parts);
    try {
      const address = addressOf(config, service);
      return { service, partition: await openPartition({ ...common, config, address, wakeSignals, lease }, parts) };
    } catch (error) {
      await service?.close();
      throw error;
    }
  };
}

/** What this process does for workspaces that another one owns, and what others do for its own. */
function elsewhereOf(
  {
    workspaces,
    ...deps
  }: Pick<OpenerInput, 'installation' | 'groupCommit' | 'tokenBook' | 'tracer'> & { workspaces: Workspaces },
  parts: Parts,
) {
  const { clock, logger } = parts;
  const wake = (name: string) => workspaces.find(name)?.wakeReconcile();
  const wakeSignals = createNotifications({ ...deps, clock, logger, wake, rereadTokens: deps.tokenBook.reread });
  const intake = createRemoteIntake({ ...deps, tell: wakeSignals.tell }, parts);
  const receiver = (name: string, connection: string) => {
    const config = workspaces.configured().find((each) => each.name === name);
    return config && intake.receiver(config, connection);
  };
  return { wakeSignals, receiver };
}

/** How this process and others over the same database ask each other. */
function sharingOf({ secretKey }: ComposeInput, { installation, holder, clock }: OpenStore, { random }: Parts) {
  if (!secretKey) throw new SyncError('internal', 'a shared store was opened without a key');
  const signatures = createSignatures({ secretKey, installation: installation.id, now: () => clock.now(), random });
  return { holder, replicas: createReplicas(holder, signatures) };
}

/** Nothing of it is loaded where no traces are made. */
async function tracingOf({ traces, version, scrubber }: ComposeInput, parts: Parts, installation: Installation) {
  if (!traces) return undefined;
  const { openTracing } = await import('./tracing.ts');
  return openTracing({
    ...parts,
    traces,
    version,
    scrubber,
    installation: installation.id,
    meter: parts.metrics.meter,
  });
}

function retainedOf(workspaces: Workspaces): readonly RetainedWorkspace[] {
  return workspaces.partitions().map(({ name, store, config: { retention } }) => ({ name, store, retention }));
}

/** For commands, which end before the configuration could change. */
function unchanging(config: LoadedConfig): ConfigSource {
  return { load: () => config, stamp: () => '', watch: () => () => undefined };
}

/** A part that was opened, and how it is closed. */
type Undo = readonly [opened: string, close: () => Promise<void> | void];

/** One step that fails keeps no other from being done: else the lock would stay, or a file stay open. */
function undoAll(steps: readonly Undo[], tell: (step: string) => void = () => undefined): Promise<void> {
  return doAll(
    steps.map(([opened, close]) => () => {
      tell(opened);
      return close();
    }),
  );
}

/** Throws where none runs, here or elsewhere. */
function refuseNone(workspaces: Workspaces): void {
  const broken = workspaces.broken();
  const isElsewhere = [...broken.values()].some(({ code }) => code === 'held_elsewhere');
  if (workspaces.partitions().length === 0 && !isElsewhere) throw noneStarted(broken);
}

/** Each workspace has its reason; the code, and with it the exit code, is that of the first. */
function noneStarted(broken: ReadonlyMap<string, SyncError>): SyncError {
  const [first] = broken.values();
  if (first === undefined) return new SyncError('internal', 'there is no workspace to start');
  if (broken.size === 1) return first;
  const reasons = [...broken].map(([workspace, { message }]) => `${workspace}: ${message}`);
  return new SyncError(first.code, reasons.join('\n'), { cause: first, hint: first.hint });
}

/** Its own service, where the workspace is nowhere else. */
async function embeddedOf(
  place: { config: WorkspaceConfig; folder: string; secretKey?: Buffer },
  parts: Parts,
): Promise<Embedded | undefined> {
  if (place.config.workspace.url !== undefined) return undefined;
  // A whole server, which a daemon with workspaces elsewhere never needs.
  const { startEmbedded } = await import('./embedded.ts');
  return startEmbedded(place, parts);
}

/** One in a data folder would be another one on each machine. */
function ownServiceMissing({ file }: WorkspaceConfig): SyncError {
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
