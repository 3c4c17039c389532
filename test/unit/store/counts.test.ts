import fc from 'fast-check';
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { countsOf, readCounts } from '../../../src/store/counts.ts';
import { forgetWorkspace } from '../../../src/store/deletions.ts';
import { addDifference } from '../../../src/store/outbox-rows.ts';
import { beginUnitOfWork } from '../../../src/store/unit-of-work/unit-of-work.ts';
import { type Scope, type Sql, scopeOf } from '../../../src/store/workspace-scope.ts';
import { drawn } from '../../support/harness/depth.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openStore, openTestInstallation } from '../../support/harness/store.ts';
import { itemRow } from '../../support/rows/items.ts';

/** Tables of which rows are counted: the column of their names, and the values of the columns by which they are counted. */
const COUNTED = {
  items: { key: 'key', by: {} },
  tasks: { key: 'task_id', by: {} },
  fetches: { key: 'reference', by: { connection: ['gh', 'jira'] } },
  entities: { key: 'entity', by: { kind: ['link', 'pull_request'], hand: ['removed', 'manual', null] } },
  outbox: {
    key: 'entity',
    by: {
      ...{ kind: ['link', 'read'], state: ['pending', 'sending', 'held'], lane: ['link', 'backfill'] },
      ...{ effect: ['removal', null], guard: ['passed', null] },
    },
  },
} as const;
const { key: _, ...ITEM } = itemRow('');
const REST = {
  items: ITEM,
  tasks: { key: 'BUG-1', source: 'manual', status: 'open', fields: '{}', seen_at: 1 },
  fetches: { since: 1, not_before: 1, delivery_id: 1 },
  entities: {},
  outbox: { since: 1, due: 1, weight: 1, not_before: 0, waiting: '[]' },
};

type Table = keyof typeof COUNTED;
const tables = Object.keys(COUNTED) as Table[];

/** A write to a counted table: insert or replace a row, delete a row, or change the counted columns of all rows. */
const write = fc.constantFrom(...tables).chain((table) => {
  const columns = Object.entries<readonly (string | null)[]>(COUNTED[table].by);
  return fc.record({
    table: fc.constant(table),
    does: fc.constantFrom('put', 'put', 'drop', columns.length > 0 ? 'all' : 'put'),
    name: fc.constantFrom('a', 'b', 'c'),
    values: fc.record(Object.fromEntries(columns.map(([name, values]) => [name, fc.constantFrom(...values)]))),
  });
});
type Write = typeof write extends fc.Arbitrary<infer Each> ? Each : never;

async function perform(scope: Scope, { table, does, name, values }: Write): Promise<void> {
  const { key } = COUNTED[table];
  // Kysely cannot type a statement on a table that is a parameter.
  const any = table as 'meta';
  if (does === 'drop') await scope.deleteFrom(any).where(sql.ref(key), '=', name).execute();
  else if (does === 'all')
    await scope
      .updateTable(any)
      .set(values as object)
      .execute();
  else {
    const row = { ...REST[table], [key]: name, ...values } as never;
    const insert = scope.insertInto(any).values(row);
    await insert.onConflict((conflict) => conflict.columns(['workspace', key] as never).doUpdateSet(row)).execute();
  }
}

/** Compares the counts with those by reading every row. */
async function expectCounted(query: Sql, ...workspaces: readonly number[]): Promise<void> {
  const counts = await countsOf(query, workspaces);
  for (const workspace of workspaces) {
    const { items, tasks, fetches, entities, changes } = counts(workspace);
    const counted = { items, tasks, fetches, entities, outbox: changes };
    for (const table of tables) {
      const columns = Object.keys(COUNTED[table].by).map((column) => sql.ref(column));
      const { rows } = await sql<{ count: number }>`
        select ${sql.join([...columns, sql`count(*) as count`])} from ${sql.table(table)} where workspace = ${workspace}
        ${columns.length === 0 ? sql`` : sql`group by ${sql.join(columns)}`}`.execute(query);
      const found = counted[table];
      if (typeof found === 'number') expect([table, found]).toEqual([table, rows[0]?.count]);
      else expect([table, found.length, found]).toEqual([table, rows.length, expect.arrayContaining(rows)]);
    }
  }
}

test('counts equal the numbers of rows after any writes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.constantFrom(1, 2), write), { maxLength: 40 }), async (writes) => {
      const store = await openStore({ file: ':memory:' });
      for (const [workspace, each] of writes) await perform(scopeOf(store.database, workspace), each);
      await expectCounted(store.database, 1, 2);
      expect(await store.database.selectFrom('counts').select('count').where('count', '<', 0).execute()).toEqual([]);
      await store.close();
    }),
    { numRuns: drawn(60) },
  );
});

test('a deleted workspace leaves no counts', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const { query } = await installation.store('acme');
  await perform(query, { table: 'items', does: 'put', name: 'a', values: {} });
  expect(await forgetWorkspace(installation, query.workspace)).toBe(1);
  expect(await installation.query.selectFrom('counts').selectAll().execute()).toEqual([]);
});

test('counts what a unit of work has not written yet', async () => {
  const { commit } = await openTestStore();
  await commit(async (transaction) => {
    const query = beginUnitOfWork(transaction);
    const times = { since: 1, due: 1, weight: 1, waiting: [] };
    await addDifference(query, { entity: 'read:tasks', kind: 'read', lane: 'read', ...times });
    expect((await readCounts(query)).changes).toMatchObject([{ kind: 'read', state: 'pending', count: 1 }]);
  });
});
