import { Kysely, sql } from 'kysely';
import type { Pool } from 'pg';
import { expect, test } from 'vitest';
import { watchFaults } from '../../../../src/platform/database/database-fault.ts';
import { ownTables } from '../../../../src/platform/database/own-tables.ts';
import { StoreAdapter, StoreCompiler } from '../../../../src/platform/database/postgres-compiler.ts';
import { createConnections } from '../../../../src/platform/database/postgres-driver.ts';
import { noSteps } from '../../../../src/platform/lib/steps.ts';

interface Sent {
  readonly text: string;
  readonly values: readonly unknown[];
  answer(): void;
  refuse(): void;
}

/** A database whose answers come when the test says so. */
function openSlow() {
  const sent: Sent[] = [];
  const client = {
    query: (statement: string | { text: string; values?: readonly unknown[] }) =>
      new Promise((resolve, reject) => {
        const text = typeof statement === 'string' ? statement : statement.text;
        const answer = () => resolve({ command: text.split(' ', 1)[0]?.toUpperCase(), rowCount: 0, rows: [] });
        const values = typeof statement === 'string' ? [] : (statement.values ?? []);
        sent.push({ text, values, answer, refuse: () => reject(new Error(`refused: ${text}`)) });
      }),
    release: () => undefined,
  };
  const pool = { connect: async () => client, end: async () => undefined } as unknown as Pool;
  const watch = watchFaults(
    () => undefined,
    () => undefined,
  );
  const connections = createConnections({
    ...{ writer: pool, readers: pool, watch, steps: noSteps },
    onStatement: () => undefined,
    passed: () => 0,
  });
  const database = new Kysely<Record<string, never>>({
    dialect: {
      createAdapter: () => new StoreAdapter(),
      createDriver: () => connections.driver('begin'),
      createIntrospector: ownTables,
      createQueryCompiler: () => new StoreCompiler(),
    },
  });
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  return {
    database,
    /** What was sent since it was asked for last. */
    async next(): Promise<readonly Sent[]> {
      await settled();
      return sent.splice(0);
    },
  };
}

/** Begins to wait at once: a rejection may come before anybody looks. */
const failureOf = (done: Promise<unknown>) =>
  done.then(
    () => undefined,
    (error: Error) => error.message,
  );

const texts = (sent: readonly Sent[]) => sent.map(({ text }) => text);

test('what reads goes on its way with the beginning of its transaction', async () => {
  const { database, next } = openSlow();
  const done = database.transaction().execute(async (transaction) => {
    await sql`select 1`.execute(transaction);
    await sql`update thing set a = 1`.execute(transaction);
  });
  const first = await next();
  expect(texts(first)).toEqual(['begin', 'select 1']);
  for (const { answer } of first) answer();
  const [update] = await next();
  expect(update?.text).toBe('update thing set a = 1');
  update?.answer();
  const [commit] = await next();
  commit?.answer();
  await done;
});

test('what writes waits until the transaction has begun, or it would count without one', async () => {
  const { database, next } = openSlow();
  const done = database.transaction().execute((transaction) => sql`update thing set a = 1`.execute(transaction));
  const failure = failureOf(done);
  const [begin, ...others] = await next();
  expect(others).toEqual([]);
  begin?.refuse();
  const [rollback, ...more] = await next();
  expect([rollback?.text, ...more]).toEqual(['rollback']);
  rollback?.answer();
  expect(await failure).toBe('refused: begin');
});

test('nothing is written after a read whose transaction never began', async () => {
  const { database, next } = openSlow();
  const done = database.transaction().execute(async (transaction) => {
    await sql`select 1`.execute(transaction);
    await sql`update thing set a = 1`.execute(transaction);
  });
  const failure = failureOf(done);
  const [begin, read] = await next();
  begin?.refuse();
  read?.answer();
  const [rollback, ...more] = await next();
  expect([rollback?.text, ...more]).toEqual(['rollback']);
  rollback?.answer();
  expect(await failure).toBe('refused: begin');
});

test('a transaction without statements fails where it never began', async () => {
  const { database, next } = openSlow();
  const done = database.transaction().execute(async () => undefined);
  const failure = failureOf(done);
  const [begin] = await next();
  begin?.refuse();
  const [rollback] = await next();
  expect(rollback?.text).toBe('rollback');
  rollback?.answer();
  expect(await failure).toBe('refused: begin');
});

test('what changes rows and reads others in one statement waits for its turn, as all that writes', async () => {
  const { database, next } = openSlow();
  const tables = database.withTables<{ replicas: { id: string } }>();
  const first = tables.updateTable('replicas').set({ id: 'a' }).execute();
  const both = tables
    .with('changed', (query) => query.updateTable('replicas').set({ id: 'b' }).returning('id'))
    .selectFrom('changed')
    .selectAll()
    .execute();
  const reading = tables
    .with('known', (query) => query.selectFrom('replicas').select('id'))
    .selectFrom('known')
    .selectAll()
    .execute();
  const early = await next();
  expect(early.map(({ text }) => text.split(' ', 2).join(' '))).toEqual(['with "known"', 'update "replicas"']);
  for (const { answer } of early) answer();
  await Promise.all([first, reading]);
  const [late] = await next();
  expect(late?.text).toContain('with "changed"');
  late?.answer();
  await both;
});

test('the one sign that no text of PostgreSQL holds is replaced, and nothing else', async () => {
  const { database, next } = openSlow();
  const bytes = Buffer.from('\0');
  const given = ['a\0b\0', 'a\u0001b', '\ud83d\ude00', '\0\ud83d', 7, null, bytes];
  const done = sql`select ${sql.join(given)}`.execute(database);
  const [select] = await next();
  expect(select?.values).toEqual([
    ...['a\ufffdb\ufffd', 'a\u0001b', '\ud83d\ude00', '\ufffd\ufffd'],
    ...[7, null, bytes],
  ]);
  select?.answer();
  await done;
});
