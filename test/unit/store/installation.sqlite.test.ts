import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'kysely';
import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../../src/platform/database/open.ts';
import { markAsCopy } from '../../../src/platform/database/sqlite.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { type Installation, openInstallation } from '../../../src/store/installation.ts';
import { folderOfTest } from '../../support/harness/folder.ts';

async function open(): Promise<Installation> {
  const installation = await openInstallation(folderOfTest('installation'), { random: systemRandom() });
  onTestFinished(() => installation.close());
  return installation;
}

it('creates a file that other users may not read', async () => {
  const { file } = await open();
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

it.each(['worksync.db', 'team.db'])('leaves %s of a version before the first release untouched', async (name) => {
  const path = folderOfTest('installation');
  const file = join(path, name);
  await (await openDatabase({ file, migrations: { '001_sessions': { up: async () => undefined } } })).close();
  const before = readFileSync(file);
  await expect(openInstallation(path, { random: systemRandom() })).rejects.toMatchObject({
    code: 'database_too_old',
    hint: expect.stringContaining('start with an empty data folder at least 15 minutes after'),
  });
  expect(readFileSync(file).equals(before)).toBe(true);
  expect(readdirSync(path)).toEqual([name]);
});

it('starts beside a backup that is kept in the data folder', async () => {
  const path = folderOfTest('installation');
  const backup = join(path, 'backup.db');
  await (await openDatabase({ file: backup, migrations: {} })).close();
  markAsCopy(backup);
  const installation = await openInstallation(path, { random: systemRandom() });
  await installation.close();
  expect(readdirSync(path)).toEqual(expect.arrayContaining(['backup.db', 'worksync.db']));
});

it('names the loss of sessions in the hint about a damaged file', async () => {
  const path = folderOfTest('installation');
  writeFileSync(join(path, 'worksync.db'), 'no database at all '.repeat(400));
  await expect(openInstallation(path, { random: systemRandom() })).rejects.toMatchObject({
    code: 'database_corrupt',
    hint: expect.stringContaining('log in again'),
  });
});

it('gives SQLite statistics on each index of a workspace table: the row count, and one number per column', async () => {
  const { query } = await open();
  const { rows: indexes } = await sql<{ name: string; columns: number }>`
    select entry.name, (select count(*) from pragma_index_info(entry.name)) as columns
    from sqlite_schema as entry join pragma_table_info(entry.tbl_name) as field on field.name = 'workspace'
    where entry.type = 'index'`.execute(query);
  const { rows: statistics } = await sql<{ idx: string; stat: string }>`select idx, stat from sqlite_stat1`.execute(
    query,
  );
  expect(indexes.length).toBeGreaterThan(30);
  const numbers = new Map(statistics.map(({ idx, stat }) => [idx, stat.split(' ').length]));
  expect(numbers).toEqual(new Map(indexes.map(({ name, columns }) => [name, columns + 1])));
});
