import type { LoadedConfig } from '../config/load.ts';
import type { DaemonOptions } from '../config/options.ts';
import type { WorkspaceConfig } from '../config/schema.ts';
import { createConverter } from '../convert/converter.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import { createGrants } from '../intake/oauth.ts';
import { createScheduler } from '../lib/scheduler.ts';
import type { Scrubber } from '../observe/scrubber.ts';
import { type Installation, openInstallation } from '../store/installation.ts';
import type { Token } from '../web/callers.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import { type DataFolder, ownDataFolder } from './data-folder.ts';
import type { Embedded } from './embedded.ts';
import { openPartition, type Partition, type WorkspaceAddress } from './partition.ts';
import type { Parts } from './parts.ts';
import { secretBoxBeside } from './secret-box.ts';
import { createStoreWatch } from './store-watch.ts';

/** Everything open and wired, nothing running yet. */
export interface Composition {
  readonly folder: DataFolder;
  /** What belongs to the data folder and to no workspace. */
  readonly installation: Installation;
  readonly partitions: readonly Partition[];
  /** Workspaces that did not start, and why. */
  readonly broken: ReadonlyMap<string, SyncError>;
  /** The reference services that this process runs itself, by workspace name. */
  readonly embedded: ReadonlyMap<string, Embedded>;
  /** Opens the server and starts the stages. */
  serve(): Promise<Daemon>;
  /** Undoes everything in reverse order. Idempotent. */
  close(): Promise<void>;
}

export interface ComposeInput {
  readonly config: LoadedConfig;
  readonly options: DaemonOptions;
  readonly scrubber: Scrubber;
  readonly version: string;
  /** For pages, metrics and admin actions; the daemon makes one more for the commands beside it. */
  readonly tokens?: readonly Token[];
  /** For what is stored encrypted; absent: each database has a key of its own beside it. */
  readonly secretKey?: Buffer;
  readonly onLag?: (milliseconds: number) => void;
  /** Sees every statement of the workspace databases; for tests that count independently. */
  readonly onStatement?: (sql: string) => void;
}

/**
 * Takes the data folder and opens every configured workspace. One that cannot be opened keeps no other from starting.
 * Throws where none can, with the reason of the first; what is open then is closed again.
 */
export async function compose(input: ComposeInput, parts: Parts): Promise<Composition> {
  const folder = ownDataFolder(input.options.data);
  const undo: (() => Promise<void> | void)[] = [() => folder.release(), () => parts.http.close()];
  const embedded = new Map<string, Embedded>();
  const partitions: Partition[] = [];
  const broken = new Map<string, SyncError>();
  const scheduler = createScheduler(parts);
  const stores = createStoreWatch({ ...parts, meter: parts.metrics.meter });
  const unwind = () => undoAll(undo.splice(0).toReversed());
  const lose = (workspace: string, error: SyncError) => {
    broken.set(workspace, error);
    stores.lost(workspace, error);
    parts.logger.error({ workspace, error }, 'a workspace does not start');
  };
  try {
    const { onLag, onStatement } = input;
    const installation = await openInstallation(folder.path, {
      random: parts.random,
      steps: parts.steps,
      onStatement,
    });
    undo.push(() => installation.close());
    for (const { name, error } of input.config.broken) lose(name, error);
    const { publicUrl } = input.options;
    const { http, clock, logger, random } = parts;
    const box = secretBoxBeside(installation.file, input.secretKey, random);
    const converter = parts.converter ?? createConverter();
    undo.push(() => converter.close());
    const grants = createGrants({ installation, http, clock, logger, box, keepSecret: input.scrubber.addForNow });
    const { version } = input;
    const common = {
      ...{ dataFolder: folder.path, version, converter, grants, scheduler, stores },
      ...{ publicUrl, onLag, onStatement },
    };
    for (const config of input.config.workspaces) {
      let service: Embedded | undefined;
      try {
        service = await embeddedOf({ config, folder: folder.path, secretKey: input.secretKey }, parts);
        const partition = await openPartition({ ...common, config, address: addressOf(config, service) }, parts);
        partitions.push(partition);
        if (service) embedded.set(config.name, service);
        undo.push(
          () => service?.close(),
          () => partition.stop(),
        );
      } catch (error) {
        await service?.close();
        lose(config.name, asSyncError(error));
      }
    }
    if (partitions.length === 0) throw noneStarted(broken);
    const { options, scrubber, tokens = [] } = input;
    return {
      folder,
      installation,
      partitions,
      broken,
      embedded,
      async serve() {
        const whole = { version, options, tokens, folder, installation, partitions, broken, scrubber };
        const daemon = await startDaemon(whole, parts);
        stores.start();
        undo.push(
          () => stores.stop(),
          () => daemon.stop(),
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

/** One step that fails keeps no other from being done: else the lock would stay, or a file stay open. */
async function undoAll(steps: readonly (() => Promise<void> | void)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
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
