import { join, resolve } from 'node:path';
import { SyncError } from '../../model/errors.ts';
import { diskFiles, type Files } from '../../platform/lib/regular-files.ts';

/** The address and the token by which commands reach the daemon of a data folder. */
export interface DaemonEndpoint {
  /** Address of pages and admin actions, for example `http://127.0.0.1:8080`. */
  readonly address: string;
  /** Address of webhooks, if pages are served at another one. */
  readonly webhooks?: string;
  /** Address of the pages for browsers, if it is another one. */
  readonly pages?: string;
  /** The token of commands. It is valid while the process lives. */
  readonly token: string;
  /** Version, schema and protocol of the daemon, for people. Earlier versions did not announce them. */
  readonly build?: string;
  /** The webhook secret of the demo, if the daemon runs it. */
  readonly demoSecret?: string;
  /** Absolute path of the configuration that the daemon was started with; absent: the standard one, or a text in a variable. */
  readonly config?: string;
}

const MAX_BYTES = 65_536;

/** Returns the path of the file with the endpoint. It is apart from `installation.ts` so that a short command loads no database. */
export function daemonFile(folder: string): string {
  return join(resolve(folder), 'daemon.json');
}

/**
 * Returns the endpoint of the daemon that uses the folder, or undefined if no daemon has announced itself.
 * Throws `unauthorized` if this user may not read the file.
 */
export function findDaemon(folder: string, files: Files = diskFiles): DaemonEndpoint | undefined {
  const file = daemonFile(folder);
  try {
    return JSON.parse(files.read(file, MAX_BYTES).bytes.toString('utf8')) as DaemonEndpoint;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM') return undefined;
    const hint = 'Run the command as the user of the daemon.';
    throw new SyncError('unauthorized', `this user may not read ${file}`, { cause: error, hint });
  }
}
