import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import { readMeta, writeMeta } from '../../../src/store/meta.ts';
import { folderOfTest } from '../../support/folder.ts';
import { openTestInstallation } from '../../support/store.ts';

it('keeps its id, and another one has another', async () => {
  const folder = folderOfTest('installation');
  const open = async (name: string) => {
    const installation = await openTestInstallation({ file: join(folder, name) });
    await installation.close();
    return installation.id;
  };
  const id = await open('one.db');
  expect(id).toMatch(/^[0-9a-f]{12}$/);
  expect(await open('one.db')).toBe(id);
  expect(await open('other.db')).not.toBe(id);
});

it('lets nobody commit who has lost the workspace, and asks in the transaction itself', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  let isLost = false;
  const store = await installation.store('test', async (transaction) => {
    if (isLost) throw new SyncError('lease_lost', 'it was taken over');
    // What it reads there is locked for as long as the commit lasts.
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
