import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../../src/lib/sqlite.ts';
import { jobRuns } from '../../../../src/store/job-runs.ts';
import type { Tables } from '../../../../src/store/tables.ts';
import { OLD_MIGRATIONS } from '../../../../src/store/takeover/old-migrations.ts';
import { openStore } from '../../../support/store.ts';

test('what was remembered of the last sweeps is remembered as runs of their jobs', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-migrations-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'test.db');
  const earlier = Object.fromEntries(Object.entries(OLD_MIGRATIONS).filter(([each]) => each < '007_job_runs'));
  const before = await openDatabase<Tables>({ file, migrations: earlier });
  const facts = [
    { name: 'swept.github', value: '1767600000000' },
    { name: 'sweptish', value: '1' },
  ];
  await before.query.insertInto('meta').values(facts).execute();
  await before.close();
  const { query, close } = await openDatabase<Tables>({ file, migrations: OLD_MIGRATIONS });
  onTestFinished(close);
  const runs = await query.selectFrom('job_runs').selectAll().execute();
  expect(runs).toEqual([{ job: 'sweep.github', last_at: 1_767_600_000_000 }]);
  expect(await query.selectFrom('meta').selectAll().execute()).toEqual([{ name: 'sweptish', value: '1' }]);
});

test('the runs of jobs are remembered', async () => {
  const store = await openStore({ file: ':memory:' });
  onTestFinished(() => store.close());
  const memory = jobRuns(store);
  expect(await memory.read()).toEqual(new Map());

  await memory.note('sweep.github', 2);
  await memory.note('retention', 3);
  expect(await memory.read()).toEqual(
    new Map([
      ['sweep.github', 2],
      ['retention', 3],
    ]),
  );
  await memory.replace(new Map([['retention', 4]]));
  expect(await memory.read()).toEqual(new Map([['retention', 4]]));
  await memory.replace(new Map());
  expect(await memory.read()).toEqual(new Map());
});

test('SQLite is told of each index how many rows share its columns, as many numbers as it has columns and one', async () => {
  const store = await openStore({ file: ':memory:' });
  onTestFinished(() => store.close());
  const { rows: indexes } = await sql<{ name: string; columns: number }>`
    select entry.name, (select count(*) from pragma_index_info(entry.name)) as columns
    from sqlite_schema as entry join pragma_table_info(entry.tbl_name) as field on field.name = 'workspace'
    where entry.type = 'index'`.execute(store.database);
  const { rows: told } = await sql<{ idx: string; stat: string }>`select idx, stat from sqlite_stat1`.execute(
    store.database,
  );
  expect(indexes.length).toBeGreaterThan(30);
  const numbers = new Map(told.map(({ idx, stat }) => [idx, stat.split(' ').length]));
  expect(numbers).toEqual(new Map(indexes.map(({ name, columns }) => [name, columns + 1])));
});
