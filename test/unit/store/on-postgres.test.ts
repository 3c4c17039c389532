import { randomUUID } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import pg from 'pg';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import type { Database } from '../../../src/platform/database/database-types.ts';
import { openPostgres } from '../../../src/platform/database/postgres.ts';
import { saveRows } from '../../../src/store/unit-of-work/unit-of-work.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { newPlace, ON_POSTGRES } from '../../support/postgres/store-place.ts';

/** Milliseconds after which a statement is cancelled in these tests. More than any small statement takes on a busy machine. */
const LIMIT = 3_000;

/** Opens a database with one migration. Its statements are cancelled after `LIMIT`, not after the usual 15 s. */
function openMigrated(file: string, up: (query: Kysely<unknown>) => Promise<unknown>): Promise<Database<object>> {
  // Without the limits that the address of a test contains.
  const place = new URL(file);
  place.searchParams.delete('query_timeout');
  if (!place.searchParams.get('options')?.includes('work_mem')) place.searchParams.delete('options');
  const migrations = { '001': { up: async (query: Kysely<unknown>) => void (await up(query)) } };
  return openPostgres({ file: place.href.replaceAll('+', '%20'), migrations, within: LIMIT });
}

const slow = (query: Kysely<unknown>) => sql`select pg_sleep(${(LIMIT + 200) / 1_000})`.execute(query);

describe.runIf(ON_POSTGRES)('a migration of PostgreSQL', () => {
  it('may take longer than the time limit of a statement', async () => {
    let finished = false;
    const { query, close } = await openMigrated(newPlace(randomUUID()), async (transaction) => {
      await slow(transaction);
      finished = true;
    });
    onTestFinished(close);
    expect(finished).toBe(true);
    await expect(slow(query as Kysely<unknown>)).rejects.toMatchObject({ name: 'Error', mayPass: true });
  });

  it('runs once if two processes start at the same time: the second one waits for the first', async () => {
    const file = newPlace(randomUUID());
    const client = new pg.Client({ connectionString: inject('postgres') });
    await client.connect();
    onTestFinished(() => client.end());
    const waiting = async () => {
      const { rows } = await client.query(
        `select 1 from pg_stat_activity where wait_event_type = 'Lock' and wait_event = 'advisory' and query like '%advisory%'`,
      );
      return rows.length;
    };
    const begun = Promise.withResolvers<void>();
    const ending = Promise.withResolvers<void>();
    let runs = 0;
    const up = async (query: Kysely<unknown>) => {
      runs++;
      begun.resolve();
      // Statements follow each other as in a real migration, because no connection may be idle within a transaction for long.
      let isEnding = false;
      void ending.promise.then(() => {
        isEnding = true;
      });
      while (!isEnding) await sql`select pg_sleep(0.01)`.execute(query);
    };
    const first = openMigrated(file, up);
    await begun.promise;
    const second = openMigrated(file, up);
    await expect.poll(waiting).toBeGreaterThan(0);
    // Longer than a statement waits for the lock of a table.
    await client.query('select pg_sleep(5.5)');
    ending.resolve();
    const both = await Promise.all([first, second]);
    expect(runs).toBe(1);
    for (const { close } of both) await close();
  });
});

interface Tables {
  readonly thing: { readonly id: number };
}

/** Two processes over one database; the second one may be of a newer version, which widens the table. */
async function openTwo() {
  const file = newPlace(randomUUID());
  const migrations = {
    '001': {
      up: async (query: Kysely<unknown>) =>
        void (await sql`create table thing (id integer primary key)`.execute(query)),
    },
  };
  const own = await openPostgres<Tables>({ file, migrations });
  const other = await openPostgres<Tables>({ file, migrations });
  onTestFinished(async () => void (await Promise.all([own.close(), other.close()])));
  let columns = 0;
  const widen = () => sql`alter table thing add column ${sql.ref(`c${++columns}`)} text`.execute(other.query);
  return { own, widen };
}

describe.runIf(ON_POSTGRES)('a prepared statement on a table that a newer version widens', () => {
  it('is prepared again without an error', async () => {
    const { own, widen } = await openTwo();
    const insert = (id: number) => own.query.insertInto('thing').values({ id }).returningAll().execute();
    const read = () => own.query.selectFrom('thing').selectAll().execute();
    await insert(1);
    // Each on a connection of its own.
    await Promise.all([read(), read(), read()]);
    for (const id of [2, 3]) {
      await widen();
      expect((await insert(id)).map((row) => row.id)).toEqual([id]);
      for (const rows of await Promise.all([read(), read(), read()])) expect(rows).toHaveLength(id);
    }
    expect(own.fault()).toBeUndefined();
  });
});

it.runIf(ON_POSTGRES)('analyses a table that fills quickly without waiting for the autovacuum', async () => {
  const { query, commit } = await openTestStore();
  const analyses = async () => {
    const { rows } = await sql<{ count: number }>`select analyze_count as count from pg_stat_user_tables
      where schemaname = current_schema() and relname = 'mentions'`.execute(query.whole);
    return rows[0]?.count ?? 0;
  };
  const before = await analyses();
  for (let page = 0; page < 100 && (await analyses()) === before; page++) {
    const rows = Array.from({ length: 200 }, (_, index) => ({ item_key: `${page}`, name: `${index}`, reason: '' }));
    await commit(async (transaction) => {
      await saveRows(transaction, 'mentions', rows);
      // A connection reports its writes to the statistics once a second, unless it is forced to.
      await sql`select pg_stat_force_next_flush()`.execute(transaction.whole);
    });
  }
  expect(await analyses()).toBeGreaterThan(before);
});
