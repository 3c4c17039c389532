import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { SyncError } from '../model/errors/sync-error.ts';

/** How a command finds the daemon that owns a data folder. */
export interface DaemonEndpoint {
  /** Where pages and admin actions are served, for example `http://127.0.0.1:8080`. */
  readonly address: string;
  /** Where webhooks come in, if pages are served elsewhere. */
  readonly webhooks?: string;
  /** For the commands: works for as long as the process lives. */
  readonly token: string;
}

/** In the data folder; apart from what takes the folder, so that a short command loads no database. */
export function daemonFile(folder: string): string {
  return join(resolve(folder), 'daemon.json');
}

/**
 * The daemon that owns the folder; undefined when none has announced itself.
 * Throws `unauthorized` where one may have, and this user may not read what it left for commands.
 */
export function findDaemon(folder: string): DaemonEndpoint | undefined {
  const file = daemonFile(folder);
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as DaemonEndpoint;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM') return undefined;
    const hint = 'Run the command as the user of the daemon.';
    throw new SyncError('unauthorized', `this user may not read ${file}`, { cause: error, hint });
  }
}
