import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { openInstallation, openSharedInstallation } from '../../../src/store/installation.ts';
import { PULL_REQUESTS_READ, TASKS_READ, writeMeta } from '../../../src/store/meta.ts';
import { scopeOf } from '../../../src/store/workspace-scope.ts';
import { REPOSITORY, SECRET } from '../deliveries.ts';

/** Nobody answers there: nothing is to be sent. */
export const NOWHERE = 'http://127.0.0.1:9/api/v1';

/** A data folder and a folder of configurations. */
export interface Fleet {
  readonly folder: string;
  /** For `--config`. */
  readonly config: string;
  readonly names: readonly string[];
}

/**
 * Workspaces that have been read completely, as after their first day: nothing waits to be sent. They list themselves once a
 * day in production; here they do not, since nobody answers.
 *
 * @param store an address of PostgreSQL, in place of the data folder
 */
export async function createFleet(count: number, store?: string): Promise<Fleet> {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-bench-many-'));
  const config = join(folder, 'workspaces');
  mkdirSync(config);
  mkdirSync(join(folder, 'data'));
  const names = Array.from({ length: count }, (_, index) => `workspace-${index}`);
  const github = { connector: 'github', repositories: [REPOSITORY], webhookSecrets: SECRET, poll: 'off' };
  for (const name of names) {
    const workspace = { url: NOWHERE, apiKey: `wsk_of_${name}`, sweep: 'off' };
    writeFileSync(join(config, `${name}.yaml`), stringify({ workspace, connections: { github } }));
  }
  const opening = { random: systemRandom() };
  const installation = store
    ? await openSharedInstallation(store, opening)
    : await openInstallation(join(folder, 'data'), opening);
  await installation.commit(async (transaction) => {
    for (const name of names) {
      const { id } = await transaction
        .insertInto('workspaces')
        .values({ name })
        .returning('id')
        .executeTakeFirstOrThrow();
      for (const fact of [TASKS_READ, PULL_REQUESTS_READ])
        await writeMeta(scopeOf(transaction, id), fact, String(Date.now()));
    }
  });
  await installation.close();
  return { folder, config, names };
}
