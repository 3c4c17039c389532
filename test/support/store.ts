import { systemRandom } from '../../src/lib/random.ts';
import type { OpenOptions } from '../../src/lib/sqlite.ts';
import type { Store } from '../../src/store/database.ts';
import { type Installation, openInstallationFile } from '../../src/store/installation.ts';

/** The rows of one workspace in a database of its own. */
export interface OpenedStore extends Store, Pick<Installation, 'backup' | 'close' | 'size'> {
  /** The whole database, for statements that no scope begins. */
  readonly database: Installation['query'];
}

export async function openStore(options: Omit<OpenOptions, 'migrations'>, workspace = 'test'): Promise<OpenedStore> {
  const installation = await openInstallationFile({ ...options, random: systemRandom() });
  const { query: database, backup, close, size } = installation;
  return { ...(await installation.store(workspace)), database, backup, close, size };
}
