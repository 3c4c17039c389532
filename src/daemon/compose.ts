import type { LoadedConfig } from '../config/load.ts';
import type { DaemonOptions } from '../config/options.ts';
import type { WorkspaceConfig } from '../config/schema.ts';
import { SyncError } from '../errors/sync-error.ts';
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

/** Everything open and wired, nothing running yet. */
export interface Composition {
  readonly folder: DataFolder;
  /** What belongs to the data folder and to no workspace. */
  readonly installation: Installation;
  readonly partitions: readonly Partition[];
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

/** Takes the data folder and opens every configured workspace. What is open when one fails is closed again. */
export async function compose(input: ComposeInput, parts: Parts): Promise<Composition> {
  const folder = ownDataFolder(input.options.data);
  const undo: (() => Promise<void> | void)[] = [() => folder.release(), () => parts.http.close()];
  const embedded = new Map<string, Embedded>();
  const partitions: Partition[] = [];
  const scheduler = createScheduler(parts);
  const unwind = async () => {
    for (const step of undo.splice(0).toReversed()) await step();
  };
  try {
    const { onLag, onStatement } = input;
    const installation = await openInstallation(folder.path, {
      random: parts.random,
      steps: parts.steps,
      onStatement,
    });
    undo.push(() => installation.close());
    const { http, clock, logger, random } = parts;
    const box = secretBoxBeside(installation.file, input.secretKey, random);
    const grants = createGrants({ installation, http, clock, logger, box, keepSecret: input.scrubber.addForNow });
    for (const config of input.config.workspaces) {
      const address = await addressOf({ config, folder: folder.path, secretKey: input.secretKey }, parts, (service) => {
        embedded.set(config.name, service);
        undo.push(() => service.close());
      });
      const { publicUrl } = input.options;
      const opening = { config, address, dataFolder: folder.path, grants, scheduler, publicUrl, onLag, onStatement };
      const partition = await openPartition(opening, parts);
      partitions.push(partition);
      undo.push(() => partition.stop());
    }
    const { options, scrubber, version, tokens = [] } = input;
    return {
      folder,
      installation,
      partitions,
      embedded,
      async serve() {
        const whole = { version, options, tokens, folder, installation, partitions, scrubber };
        const daemon = await startDaemon(whole, parts);
        undo.push(() => daemon.stop());
        return daemon;
      },
      close: unwind,
    };
  } catch (error) {
    await unwind();
    throw error;
  }
}

async function addressOf(
  place: { config: WorkspaceConfig; folder: string; secretKey?: Buffer },
  parts: Parts,
  opened: (service: Embedded) => void,
): Promise<WorkspaceAddress> {
  const { config } = place;
  const { url, apiKey } = config.workspace;
  if (url === undefined) {
    // A whole server, which a daemon with workspaces elsewhere never needs.
    const { startEmbedded } = await import('./embedded.ts');
    const service = await startEmbedded(place, parts);
    opened(service);
    return { baseUrl: service.url, apiKey: () => service.apiKey };
  }
  if (apiKey === undefined) {
    throw new SyncError('secret_missing', `${config.file}: workspace.apiKey is needed beside workspace.url`);
  }
  return { baseUrl: url, apiKey: () => apiKey };
}
