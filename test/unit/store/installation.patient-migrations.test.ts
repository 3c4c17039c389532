import { randomUUID } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import pg from 'pg';
import { expect, inject, it, onTestFinished } from 'vitest';
import type { Database } from '../../../src/platform/database/database-types.ts';
import { openPostgres } from '../../../src/platform/database/postgres.ts';
import { newPlace, ON_POSTGRES } from '../../support/store-place.ts';

/** Milliseconds: more than any small statement takes, also on a busy machine. */
const LIMIT = 3_000;

/** Statements are cut off after `LIMIT`, as all others are after a quarter of a minute. */
function opened(file: string, up: (query: Kysely<unknown>) => Promise<unknown>): Promise<Database<object>> {
  // Not with the limits that tests have otherwise.
  const place = new URL(file);
  place.searchParams.delete('query_timeout');
  if (!place.searchParams.get('options')?.includes('work_mem')) place.searchParams.delete('options');
  const migrations = { '001': { up: async (query: Kysely<unknown>) => void (await up(query)) } };
  return openPostgres({ file: place.href.replaceAll('+', '%20'), migrations, within: LIMIT });
}

const lasting = (query: Kysely<unknown>) => sql`select pg_sleep(${(LIMIT + 200) / 1_000})`.execute(query);

it.runIf(ON_POSTGRES)('a migration may take longer than a statement, and nothing else may', async () => {
  let lasted = false;
  const { query, close } = await opened(newPlace(randomUUID()), async (transaction) => {
    await lasting(transaction);
    lasted = true;
  });
  onTestFinished(close);
  expect(lasted).toBe(true);
  await expect(lasting(query as Kysely<unknown>)).rejects.toMatchObject({ name: 'Error', mayPass: true });
});

it.runIf(ON_POSTGRES)('who finds another one at a migration waits for its end', async () => {
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
  let ran = 0;
  const up = async (query: Kysely<unknown>) => {
    ran++;
    begun.resolve();
    // As one that works: no connection may be idle within a transaction for long.
    let isEnding = false;
    void ending.promise.then(() => {
      isEnding = true;
    });
    while (!isEnding) await sql`select pg_sleep(0.01)`.execute(query);
  };
  const first = opened(file, up);
  await begun.promise;
  const second = opened(file, up);
  await expect.poll(waiting).toBeGreaterThan(0);
  // Longer than anybody waits for a lock of a table.
  await sqlSleep(client, 5.5);
  ending.resolve();
  const both = await Promise.all([first, second]);
  expect(ran).toBe(1);
  for (const { close } of both) await close();
});

async function sqlSleep(client: pg.Client, seconds: number): Promise<void> {
  await client.query('select pg_sleep($1)', [seconds]);
}

it.runIf(ON_POSTGRES)('what an address says of sessions is added to what ours need', async () => {
  const place = new URL(newPlace(randomUUID()));
  place.searchParams.set('options', '-c work_mem=7MB -c lock_timeout=7s -c search_path=public');
  const { query, close } = await opened(place.href, async () => undefined);
  onTestFinished(close);
  const { rows } = await sql`select current_schema() as schema, current_setting('work_mem') as memory,
    current_setting('lock_timeout') as locks`.execute(query);
  expect(rows).toEqual([{ schema: place.searchParams.get('schema'), memory: '7MB', locks: '7s' }]);
});
