import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { openInstallation, openSharedInstallation } from '../../src/store/installation/installation.ts';
import { scopeOf } from '../../src/store/workspace-scope.ts';
import { knowLists } from '../support/rows/records-route.ts';
import { inFolder } from './bench.ts';
import { CONNECTION, NOWHERE } from './daemon.ts';

export interface Fleet {
  readonly folder: string;
  readonly config: string;
  readonly store?: string;
  readonly names: readonly string[];
  readonly paths: readonly string[];
}

/**
 * Workspaces that have been read completely, as after their first day: nothing waits to be sent. They list themselves once a
 * day in production; here they do not, since nobody answers.
 *
 * @param given `store`: an address of PostgreSQL, in place of the data folder; `mirror: off`: deliveries lead to no requests
 */
export function withFleet<Result>(
  count: number,
  use: (fleet: Fleet) => Promise<Result>,
  given: { readonly store?: string; readonly mirror?: 'off' } = {},
): Promise<Result> {
  return inFolder(async (folder) => use(await createFleet(folder, count, given)));
}

async function createFleet(folder: string, count: number, { store, mirror }: Parameters<typeof withFleet>[2] = {}) {
  const config = join(folder, 'workspaces');
  mkdirSync(config);
  mkdirSync(join(folder, 'data'));
  const names = Array.from({ length: count }, (_, index) => `workspace-${index}`);
  for (const name of names) {
    const workspace = { url: NOWHERE, apiKey: `wsk_of_${name}`, sweep: 'off' };
    const connections = { github: { ...CONNECTION, mirror } };
    writeFileSync(join(config, `${name}.yaml`), stringify({ workspace, connections }));
  }
  const opening = { random: systemRandom() };
  const installation = store
    ? await openSharedInstallation(store, opening)
    : await openInstallation(join(folder, 'data'), opening);
  await installation.commit(async (transaction) => {
    for (const name of names) {
      const row = transaction.insertInto('workspaces').values({ name }).returning('id');
      const { id } = await row.executeTakeFirstOrThrow();
      await knowLists(scopeOf(transaction, id), NOWHERE);
    }
  });
  await installation.close();
  return { folder, config, store, names, paths: names.map((name) => `/webhooks/${name}/github`) };
}
