import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../src/lib/sqlite.ts';
import { openStore } from '../../src/store/database.ts';
import { jobRuns } from '../../src/store/job-runs.ts';
import { writeMeta } from '../../src/store/meta.ts';
import { MIGRATIONS } from '../../src/store/migrations.ts';
import type { Tables } from '../../src/store/tables.ts';

/** A database as it was before this migration. */
async function databaseBefore(name: string) {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-migrations-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'test.db');
  const migrations = Object.fromEntries(Object.entries(MIGRATIONS).filter(([each]) => each < name));
  return { file, database: await openDatabase<Tables>({ file, migrations }) };
}

test('what was remembered of the last sweeps is remembered as runs of their jobs', async () => {
  const { file, database } = await databaseBefore('007_job_runs');
  await writeMeta(database.query, 'swept.github', '1767600000000');
  await writeMeta(database.query, 'sweptish', '1');
  await database.close();
  const store = await openStore({ file });
  onTestFinished(() => store.close());
  const memory = jobRuns(store);
  expect(await memory.read()).toEqual(new Map([['sweep.github', 1_767_600_000_000]]));
  expect(await store.query.selectFrom('meta').selectAll().execute()).toEqual([{ name: 'sweptish', value: '1' }]);

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
