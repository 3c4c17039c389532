import type { OpenOptions } from '../../../src/platform/database/database-types.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import type { Store } from '../../../src/store/database.ts';
import { type Installation, openInstallationFile } from '../../../src/store/installation.ts';
import { givePlaceBack, storePlace } from '../postgres/store-place.ts';
import { watchStatements } from './statements.ts';

/** The rows of one workspace in a database of its own. */
export interface OpenedStore extends Store, Pick<Installation, 'close' | 'size'> {
  /** The whole database, for statements that no scope begins. */
  readonly database: Installation['query'];
}

export async function openStore(options: Omit<OpenOptions, 'migrations'>, workspace = 'test'): Promise<OpenedStore> {
  const installation = await openTestInstallation(options);
  const { query: database, close, size } = installation;
  return { ...(await installation.store(workspace)), database, close, size };
}

/** The database of this file, or what is in its place. */
export async function openTestInstallation(options: Omit<OpenOptions, 'migrations'>): Promise<Installation> {
  const file = await storePlace(options.file);
  const installation = await openInstallationFile({ ...options, file, random: systemRandom() });
  const endWatch = watchStatements(installation);
  return {
    ...installation,
    async close() {
      endWatch();
      await installation.close();
      if (options.file === ':memory:') givePlaceBack(file);
    },
  };
}
