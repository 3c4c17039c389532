import type { DaemonOptions } from '../config/daemon-options.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { WorkspaceConfig } from '../config/schema.ts';
import { createConverter } from '../convert/converter.ts';
import { SyncError } from '../errors/sync-error.ts';
import { createTokenBook } from '../gateway/token-book.ts';
import { createGrants } from '../intake/grants.ts';
import { createGroupCommit } from '../intake/group-commit.ts';
import { type Retained, retentionJob } from '../intake/retention.ts';
import { soleHolder } from '../lease/holder.ts';
import { throwAll } from '../lib/failures.ts';
import { createScheduler } from '../lib/scheduler.ts';
import type { Scrubber } from '../observe/scrubber.ts';
import { type DataFolder, ownDataFolder } from '../store/data-folder.ts';
import { type Installation, openInstallation } from '../store/installation.ts';
import { installationRuns } from '../store/job-runs.ts';
import type { Token } from '../web/token-callers.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import type { Embedded } from './embedded.ts';
import { integrityJob } from './integrity-job.ts';
import { takeOverOldFiles } from './old-files.ts';
import { openPartition } from './partition.ts';
import type { Parts } from './parts.ts';
import { type ConfigSource, createReload, type Reload } from './reload.ts';
import { secretBoxBeside } from './secret-box-key.ts';
import { createStoreWatch } from './store-watch.ts';
import type { WorkspaceAddress } from './workspace-api.ts';
import { createWorkspaces, type Workspaces } from './workspaces.ts';

/** Everything open and wired, nothing running yet. */
export interface Composition {
  readonly folder: DataFolder;
  /** The database. */
  readonly installation: Installation;
  readonly workspaces: Workspaces;
  readonly reload: Reload;
  /** Opens the server and starts the stages. */
  serve(): Promise<Daemon>;
  /** Undoes everything in reverse order, and tells before each step what is closed next. Idempotent. */
  close(tell?: (step: string) => void): Promise<void>;
}

export interface ComposeInput {
  readonly config: LoadedConfig;
  readonly options: DaemonOptions;
  readonly scrubber: Scrubber;
  readonly version: string;
  /** Where the configuration is read again; absent: it never is. */
  readonly source?: ConfigSource;
  /** For pages, metrics and admin actions; the daemon makes one more for the commands beside it. */
  readonly tokens?: readonly Token[];
  /** For what is stored encrypted; absent: each database has a key of its own beside it. */
  readonly secretKey?: Buffer;
  readonly onLag?: (milliseconds: number) => void;
  /** Sees every statement of the database; for tests that count independently. */
  readonly onStatement?: (sql: string) => void;
}

/**
 * Takes the data folder and opens every configured workspace. One that cannot be opened keeps no other from starting.
 * Throws where none can, with the reason of the first; what is open then is closed again.
 */
export async function compose(input: ComposeInput, parts: Parts): Promise<Composition> {
  const folder = ownDataFolder(input.options.data);
  const undo: Undo[] = [
    ['the data folder', () => folder.release()],
    ['the HTTP client', () => parts.http.close()],
  ];
  const unwind = (tell?: (step: string) => void) => undoAll(undo.splice(0).toReversed(), tell);
  try {
    const { http, clock, logger, random, steps, checkFile } = parts;
    const watch = createStoreWatch({ ...parts, meter: parts.metrics.meter });
    const opening = { random, steps, checkFile, onFault: watch.tell, onStatement: input.onStatement };
    const installation = await openInstallation(folder.path, opening);
    undo.push(['the database', () => installation.close()]);
    const leftOut = await takeOverOldFiles({ folder: folder.path, installation, checkFile, logger });
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
    const grants = createGrants({ installation, http, clock, logger, box, keepSecret: input.scrubber.addForNow });
    const { version } = input;
    const { publicUrl } = input.options;
    const groupCommit = createGroupCommit({ sql: installation.query, look: installation.look, clock });
    const tokenBook = createTokenBook(installation.query);
    const common = {
      ...{ installation, groupCommit, tokenBook, version, converter, grants, scheduler },
      ...{ publicUrl, onLag: input.onLag },
    };
    const holder = parts.hold?.(installation) ?? soleHolder;
    undo.push(['the leases', () => holder.stop()]);
    const workspaces = createWorkspaces({
      logger,
      holder,
      async open(config, bells, lease) {
        const reason = leftOut.get(config.name);
        if (reason) throw reason;
        const service = await embeddedOf({ config, folder: folder.path, secretKey: input.secretKey }, parts);
        try {
          const address = addressOf(config, service);
          return { service, partition: await openPartition({ ...common, config, address, bells, lease }, parts) };
        } catch (error) {
          await service?.close();
          throw error;
        }
      },
    });
    undo.push(['the workspaces', () => workspaces.stop()]);
    holder.onChange(() => workspaces.followHolder());
    await workspaces.apply(input.config);
    const broken = workspaces.broken();
    const isElsewhere = [...broken.values()].some(({ code }) => code === 'held_elsewhere');
    if (workspaces.partitions().length === 0 && !isElsewhere) throw noneStarted(broken);
    const { options, scrubber, tokens = [], source = unchanging(input.config) } = input;
    const reload = createReload({ source, workspaces, clock, logger, scrubber });
    return {
      folder,
      installation,
      workspaces,
      reload,
      async serve() {
        const whole = { version, options, tokens, tokenBook, folder, installation, workspaces, reload, scrubber };
        const daemon = await startDaemon(whole, parts);
        watch.start();
        upkeep.start();
        undo.push(
          ['the watch over the database', () => watch.stop()],
          ['the upkeep of the database', () => upkeep.stop()],
          ['the reload of the configuration', () => reload.stop()],
          ['the servers', () => daemon.stop()],
        );
        return daemon;
      },
      close: unwind,
    };
  } catch (error) {
    await unwind();
    throw error;
  }
}

function retainedOf(workspaces: Workspaces): readonly Retained[] {
  return workspaces.partitions().map(({ name, store, config: { retention } }) => ({ name, store, retention }));
}

/** For commands, which end before the configuration could change. */
function unchanging(config: LoadedConfig): ConfigSource {
  return { load: () => config, stamp: () => '', watch: () => () => undefined };
}

/** A part that was opened, and how it is closed. */
type Undo = readonly [opened: string, close: () => Promise<void> | void];

/** One step that fails keeps no other from being done: else the lock would stay, or a file stay open. */
async function undoAll(steps: readonly Undo[], tell: (step: string) => void = () => undefined): Promise<void> {
  const failures: unknown[] = [];
  for (const [opened, close] of steps) {
    tell(opened);
    try {
      await close();
    } catch (error) {
      failures.push(error);
    }
  }
  throwAll(failures);
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
