import { join } from 'node:path';
import fc from 'fast-check';
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../src/platform/database/open.ts';
import { highestTaskKeys } from '../../../src/store/cached-tasks.ts';
import { countsOf, readCounts } from '../../../src/store/counts.ts';
import { forgetWorkspace } from '../../../src/store/deletions.ts';
import { addDifference } from '../../../src/store/outbox-rows.ts';
import { INSTALLATION_MIGRATIONS } from '../../../src/store/schema/installation-migrations.ts';
import type { Schema } from '../../../src/store/schema/tables.ts';
import { beginUnitOfWork } from '../../../src/store/unit-of-work/unit-of-work.ts';
import type { Scope, Sql } from '../../../src/store/workspace-scope.ts';
import { scopeOf } from '../../../src/store/workspace-scope.ts';
import { drawn } from '../../support/harness/depth.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openStore, openTestInstallation } from '../../support/harness/store.ts';
import { newPlace } from '../../support/postgres/store-place.ts';

/** Counts by reading every row. */
async function countRows(query: Sql, workspace: number) {
  const rows = async (table: string, columns: readonly string[]) => {
    const of = sql.join([...columns.map((column) => sql.ref(column)), sql`count(*) as count`]);
    const { rows: found } = await sql<{ count: number }>`
      select ${of} from ${sql.table(table)} where workspace = ${workspace}
      ${columns.length === 0 ? sql`` : sql`group by ${sql.join(columns.map((column) => sql.ref(column)))}`}`.execute(
      query,
    );
    return found;
  };
  return {
    items: (await rows('items', []))[0]?.count,
    tasks: (await rows('tasks', []))[0]?.count,
    fetches: await rows('fetches', ['connection']),
    entities: await rows('entities', ['kind', 'hand']),
    changes: await rows('outbox', ['kind', 'state', 'lane', 'effect', 'guard']),
  };
}

async function expectCounted(query: Sql, ...workspaces: readonly number[]): Promise<void> {
  const counts = await countsOf(query, workspaces);
  for (const workspace of workspaces) {
    const { items, tasks, ...expected } = await countRows(query, workspace);
    const { items: ownItems, tasks: ownTasks, ...lists } = counts(workspace);
    expect([ownItems, ownTasks]).toEqual([items, tasks]);
    for (const [name, list] of Object.entries(expected)) {
      const counted = lists[name as keyof typeof lists];
      expect([name, counted.length]).toEqual([name, list.length]);
      expect(counted).toEqual(expect.arrayContaining(list));
    }
  }
}

const name = fc.constantFrom('a', 'b', 'c');

/** A write to a counted table: insert or replace a row, change a part of all rows, delete a row. */
const write = fc.oneof(
  fc.record({ table: fc.constant('items' as const), does: fc.constantFrom('put', 'drop'), name }),
  fc.record({ table: fc.constant('tasks' as const), does: fc.constantFrom('put', 'drop'), name }),
  fc.record({
    table: fc.constant('fetches' as const),
    does: fc.constantFrom('put', 'drop', 'all'),
    name,
    connection: fc.constantFrom('gh', 'jira'),
  }),
  fc.record({
    table: fc.constant('entities' as const),
    does: fc.constantFrom('put', 'drop', 'all'),
    name,
    kind: fc.constantFrom('link', 'pull_request'),
    hand: fc.constantFrom('removed', 'manual', null),
  }),
  fc.record({
    table: fc.constant('outbox' as const),
    does: fc.constantFrom('put', 'drop', 'all'),
    name,
    kind: fc.constantFrom('link', 'read'),
    state: fc.constantFrom('pending', 'sending', 'held'),
    lane: fc.constantFrom('link', 'backfill'),
    effect: fc.constantFrom('removal', null),
    guard: fc.constantFrom('passed', null),
  }),
);

type Write = typeof write extends fc.Arbitrary<infer Each> ? Each : never;

const KEYS = { items: 'key', tasks: 'task_id', fetches: 'reference', entities: 'entity', outbox: 'entity' } as const;

const REST = {
  items: {
    kind: 'pull_request',
    connector: 'github',
    connection: 'gh',
    provider_time: 1,
    hash: '',
    finished: 0,
    gone: 0,
    seen_at: 1,
    fields: '{}',
  },
  tasks: { key: 'BUG-1', source: 'manual', status: 'open', fields: '{}', seen_at: 1 },
  fetches: { since: 1, not_before: 1, delivery_id: 1 },
  entities: {},
  outbox: { since: 1, due: 1, weight: 1, not_before: 0, waiting: '[]' },
};

async function perform(scope: Scope, { table, does, name: which, ...values }: Write): Promise<void> {
  const key = KEYS[table];
  // Kysely cannot type a statement on a table that is a parameter.
  const anyTable = table as 'meta';
  if (does === 'drop') {
    await scope.deleteFrom(anyTable).where(sql.ref(key), '=', which).execute();
    return;
  }
  if (does === 'all') {
    await scope
      .updateTable(anyTable)
      .set(values as object)
      .execute();
    return;
  }
  const row = { [key]: which, ...REST[table], ...values };
  await scope
    .insertInto(anyTable)
    .values(row as never)
    .onConflict((conflict) => conflict.columns(['workspace', key] as never).doUpdateSet(row as never))
    .execute();
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

test('a rolled-back transaction changes no counts', async () => {
  const store = await openTestStore();
  const failed = store.commit(async (transaction) => {
    await perform(transaction, { table: 'items', does: 'put', name: 'a' });
    throw new Error('no');
  });
  await expect(failed).rejects.toThrow('no');
  const counts = await countsOf(store.database, [store.query.workspace]);
  expect(counts(store.query.workspace).items).toBe(0);
});

test('opening a database again does not count its rows again', async () => {
  const folder = folderOfTest('counts');
  const file = newPlace(join(folder, 'test.db'));
  const before = await openDatabase<Schema>({ file, migrations: INSTALLATION_MIGRATIONS });
  for (const which of ['a', 'b', 'c'] as const) {
    const guard = which === 'a' ? ('passed' as const) : null;
    const rest = { kind: 'link', state: 'held', lane: 'link', effect: null, guard } as const;
    await perform(scopeOf(before.query, 3), { table: 'outbox', does: 'put', name: which, ...rest });
    await perform(scopeOf(before.query, 4), { table: 'items', does: 'put', name: which });
    await perform(scopeOf(before.query, 3), { table: 'tasks', does: 'put', name: which });
  }
  await before.close();
  const { query, close } = await openDatabase<Schema>({ file, migrations: INSTALLATION_MIGRATIONS });
  onTestFinished(close);
  await expectCounted(query, 3, 4);
  expect((await countsOf(query, [4]))(4).items).toBe(3);
});

test('a deleted workspace leaves no counts', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const { query } = await installation.store('acme');
  await perform(query, { table: 'items', does: 'put', name: 'a' });
  expect(await forgetWorkspace(installation, query.workspace)).toBe(1);
  expect(await installation.query.selectFrom('counts').selectAll().execute()).toEqual([]);
});

test('finds the highest task key of each prefix', async () => {
  const store = await openTestStore();
  const put = (workspace: number, key: string) =>
    scopeOf(store.database, workspace)
      .insertInto('tasks')
      .values({ ...REST.tasks, task_id: key, key })
      .execute();
  expect(await highestTaskKeys(store.query)).toEqual([]);
  const own = store.query.workspace;
  for (const key of ['BUG-9', 'BUG-10', 'IDEA-2', 'A-1-3', 'bare', 'A-1-20', 'X9-7', 'tsk_9', 'tsk_a'])
    await put(own, key);
  await put(own + 1, 'BUG-99');
  expect((await highestTaskKeys(store.query)).sort()).toEqual(['A-1-20', 'BUG-10', 'IDEA-2', 'X9-7']);
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
