import { join } from 'node:path';
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import { copyDatabase } from '../../../src/platform/database/sqlite.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import { type Installation, openInstallationFile } from '../../../src/store/installation.ts';
import { saveItem } from '../../../src/store/items.ts';
import { isReadAfterRestore, lastBeforeRestore } from '../../../src/store/mark-unverified.ts';
import { PULL_REQUESTS_READ, readMeta, TASKS_READ, writeMeta } from '../../../src/store/meta.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { waits } from '../../support/rows/changes.ts';
import { itemRow } from '../../support/rows/items.ts';

async function open(file: string, onStatement?: (text: string) => void): Promise<Installation> {
  const installation = await openInstallationFile({
    file,
    random: systemRandom(),
    ...(onStatement && { onStatement }),
  });
  onTestFinished(() => installation.close());
  return installation;
}

/** A copy of a database in which two workspaces have read everything. */
async function copied(): Promise<string> {
  const folder = folderOfTest('doubt');
  const installation = await open(join(folder, 'first.db'));
  for (const name of ['one', 'two']) {
    const { query } = await installation.store(name);
    for (const fact of [TASKS_READ, PULL_REQUESTS_READ, 'other']) await writeMeta(query, fact, '1');
  }
  const file = join(folder, 'copy.db');
  await copyDatabase(installation.file, file);
  return file;
}

async function knownIn(installation: Installation, workspace: string) {
  const { query } = await installation.store(workspace);
  const facts = await Promise.all([TASKS_READ, PULL_REQUESTS_READ, 'other'].map((fact) => readMeta(query, fact)));
  const requests = await query.selectFrom('ledger').select(['boot', 'status']).execute();
  return { facts, requests: requests.length, boots: [...new Set(requests.map(({ boot }) => boot))] };
}

const DOUBTED = { facts: [undefined, undefined, '1'], requests: 200, boots: ['restored'] };

test('an opened copy counts a full quota window as used and reads all lists again, in each workspace', async () => {
  const installation = await open(await copied());
  for (const name of ['one', 'two']) expect(await knownIn(installation, name)).toEqual(DOUBTED);
});

test('an opened copy deletes changes that can follow again, and marks all existing items as unverified', async () => {
  const folder = folderOfTest('doubt');
  const first = await open(join(folder, 'first.db'));
  const { query } = await first.store('one');
  await saveItem(query, itemRow('there'), 1);
  await saveItem(query, itemRow('gone', { gone: 1 }), 1);
  await waits(query, 'link:waits', { kind: 'link' });
  await waits(query, 'link:held', { kind: 'link', state: 'held' });
  await waits(query, 'link:unknown', { kind: 'link', state: 'unknown', sent: '{}' });
  await waits(query, 'read:tasks', { kind: 'read', sent: '{"cursor":"old"}' });
  await writeMeta(query, entity.readLinks('t1'), '7');
  await appendDeliveries(
    query,
    [{ connection: 'c', key: 'k', source: 'webhook', event: 'e', body: Buffer.alloc(0) }],
    1,
  );
  const file = join(folder, 'copy.db');
  await copyDatabase(first.file, file);
  const { query: copy } = await (await open(file)).store('one');
  expect(await lastBeforeRestore(copy)).toBe(1);
  expect(await readMeta(copy, entity.readLinks('t1'))).toBeUndefined();
  expect(await isReadAfterRestore(copy, entity.readTasks)).toBe(true);
  const changes = await copy.selectFrom('outbox').select('entity').execute();
  expect(changes).toEqual([{ entity: 'link:unknown' }]);
  const items = await copy.selectFrom('items').select(['key', 'unverified']).orderBy('key').execute();
  expect(items).toEqual([
    { key: 'gone', unverified: 0 },
    { key: 'there', unverified: 1 },
  ]);
});

test('marks a copy as unverified only once', async () => {
  const file = await copied();
  const first = await open(file);
  const { query } = await first.store('one');
  await writeMeta(query, TASKS_READ, '2');
  await query.deleteFrom('ledger').execute();
  await first.close();
  const again = await knownIn(await open(file), 'one');
  expect(again).toEqual({ facts: ['2', undefined, '1'], requests: 0, boots: [] });
});

test('does not open a copy that it cannot mark as unverified, and leaves it a copy', async () => {
  const file = await copied();
  for (const failing of ['delete from "ledger"', 'insert into "ledger"', 'pragma user_version = 0', 'commit']) {
    let isOpen = false;
    const opened = openInstallationFile({
      file,
      random: systemRandom(),
      onStatement(text) {
        if (text.toLowerCase() === 'pragma user_version') isOpen = true;
        if (isOpen && text.startsWith(failing)) throw new Error(`${failing} fails`);
      },
    });
    await expect(opened).rejects.toThrow(`${failing} fails`);
  }
  expect(await knownIn(await open(file), 'two')).toEqual(DOUBTED);
});

test('does not mark a database that is not a copy', async () => {
  const file = join(folderOfTest('doubt'), 'own.db');
  const installation = await open(file);
  await writeMeta((await installation.store('one')).query, TASKS_READ, '1');
  await installation.close();
  const again = await open(file);
  expect((await knownIn(again, 'one')).facts[0]).toBe('1');
  expect((await sql<{ user_version: number }>`pragma user_version`.execute(again.query)).rows[0]?.user_version).toBe(0);
});
