import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OpenOptions } from '../../../src/platform/database/database-types.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { type Installation, openInstallationFile } from '../../../src/store/installation/installation.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import { givePlaceBack, ON_POSTGRES, storePlace } from '../postgres/store-place.ts';
import { watchStatements } from './statements.ts';
import { makeTables } from './templates.ts';

/** The rows of one workspace in a database of its own. */
export interface OpenedStore extends Store, Pick<Installation, 'close' | 'size'> {
  readonly database: Installation['query'];
}

export async function openStore(options: Omit<OpenOptions, 'migrations'>, workspace = 'test'): Promise<OpenedStore> {
  const installation = await openTestInstallation(options);
  const { query: database, close, size } = installation;
  return { ...(await installation.store(workspace)), database, close, size };
}

/** Opens the database of a file, or the schema in its place. `:memory:` is a new one, which is gone when it is closed. */
export async function openTestInstallation(options: Omit<OpenOptions, 'migrations'>): Promise<Installation> {
  const isTemporary = options.file === ':memory:';
  const folder = isTemporary && !ON_POSTGRES ? mkdtempSync(join(tmpdir(), 'worksync-store-')) : undefined;
  const file = folder ? join(folder, 'test.db') : await storePlace(options.file);
  if (!ON_POSTGRES) await makeTables(file);
  const installation = await openInstallationFile({ ...options, file, random: systemRandom() });
  const endWatch = watchStatements(installation);
  return {
    ...installation,
    async close() {
      endWatch();
      await installation.close();
      if (folder) rmSync(folder, { recursive: true, force: true });
      else if (isTemporary) givePlaceBack(file);
    },
  };
}
