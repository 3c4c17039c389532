import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { type Installation, readInstallationId, UNFINISHED_COPY } from '../../../src/store/installation.ts';
import { readMeta, writeMeta } from '../../../src/store/meta.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

async function open(): Promise<Installation> {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  return installation;
}

it('keeps its id over restarts, and has another id than a second installation', async () => {
  const folder = folderOfTest('installation');
  const idIn = async (name: string) => {
    const installation = await openTestInstallation({ file: join(folder, name) });
    await installation.close();
    return installation.id;
  };
  const id = await idIn('one.db');
  expect(id).toMatch(/^[0-9a-f]{12}$/);
  expect(await idIn('one.db')).toBe(id);
  expect(await idIn('other.db')).not.toBe(id);
});

it('creates its id once, and none in a database with an unfinished copy', async () => {
  const installation = await open();
  const { query } = installation;
  await query.deleteFrom('installation').execute();
  const created = await readInstallationId(query, systemRandom(), 'here');
  expect(created).toMatch(/^[0-9a-f]{12}$/);
  expect(created).not.toBe(installation.id);
  expect(await readInstallationId(query, systemRandom(), 'here')).toBe(created);
  await query.insertInto('installation').values({ name: UNFINISHED_COPY, value: '' }).execute();
  await expect(readInstallationId(query, systemRandom(), 'here')).rejects.toMatchObject({ code: 'copy_unfinished' });
});

it('rejects each commit of a workspace whose fence throws, and runs the fence in the transaction', async () => {
  const installation = await open();
  let isLost = false;
  const store = await installation.store('test', async (transaction) => {
    if (isLost) throw new SyncError('lease_lost', 'it was taken over');
    // Rows that the fence reads are locked until the commit ends.
    expect(transaction.isTransaction).toBe(true);
  });
  for (const commit of [store.commit, store.commitRelaxed]) {
    isLost = false;
    await commit((query) => writeMeta(query, 'fact', 'before'));
    isLost = true;
    await expect(commit((query) => writeMeta(query, 'fact', 'after'))).rejects.toMatchObject({ code: 'lease_lost' });
    expect(await readMeta(store.query, 'fact')).toBe('before');
  }
  const other = await installation.store('other');
  await other.commit((query) => writeMeta(query, 'fact', 'of the other'));
  expect(await readMeta(other.query, 'fact')).toBe('of the other');
});
