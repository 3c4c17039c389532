import fc from 'fast-check';
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { countsOf, readCounts } from '../../../src/store/counts.ts';
import { forgetWorkspace } from '../../../src/store/deletions.ts';
import { addDifference } from '../../../src/store/outbox-rows.ts';
import { beginUnitOfWork } from '../../../src/store/unit-of-work/unit-of-work.ts';
import type { Scope, Sql } from '../../../src/store/workspace-scope.ts';
import { scopeOf } from '../../../src/store/workspace-scope.ts';
import { drawn } from '../../support/harness/depth.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openStore, openTestInstallation } from '../../support/harness/store.ts';

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

test('a deleted workspace leaves no counts', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const { query } = await installation.store('acme');
  await perform(query, { table: 'items', does: 'put', name: 'a' });
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
