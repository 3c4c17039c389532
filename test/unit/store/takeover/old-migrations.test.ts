import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../../src/lib/database/open.ts';
import type { Tables } from '../../../../src/store/tables.ts';
import { OLD_MIGRATIONS } from '../../../../src/store/takeover/old-migrations.ts';
import { folderOfTest } from '../../../support/folder.ts';

test('what was remembered of the last sweeps is remembered as runs of their jobs', async () => {
  const folder = folderOfTest('migrations');
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
