import { randomUUID } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import { expect, it, onTestFinished } from 'vitest';
import { openPostgres } from '../../../src/platform/database/postgres.ts';
import { newPlace, ON_POSTGRES } from '../../support/store-place.ts';

interface Tables {
  readonly thing: { readonly id: number };
}

/** Two processes over one database, the second of which may be of a newer version. */
async function openTwo() {
  const file = newPlace(randomUUID());
  const migrations = {
    '001': {
      up: async (query: Kysely<unknown>) =>
        void (await sql`create table thing (id integer primary key)`.execute(query)),
    },
  };
  const [own, other] = [
    await openPostgres<Tables>({ file, migrations }),
    await openPostgres<Tables>({ file, migrations }),
  ];
  onTestFinished(async () => void (await Promise.all([own.close(), other.close()])));
  let columns = 0;
  const widen = () => sql`alter table thing add column ${sql.ref(`c${++columns}`)} text`.execute(other.query);
  return { own, widen };
}

it.runIf(ON_POSTGRES)(
  'a statement whose table another version widens is prepared anew, and nobody sees it',
  async () => {
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
  },
);

it.runIf(ON_POSTGRES)('a transaction with such a statement fails once, and the next one succeeds', async () => {
  const { own, widen } = await openTwo();
  const insert = (id: number) =>
    own.query
      .transaction()
      .execute((transaction) => transaction.insertInto('thing').values({ id }).returningAll().execute());
  await insert(1);
  await widen();
  await expect(insert(2)).rejects.toMatchObject({ kind: 'busy', message: expect.stringContaining('0A000') });
  expect((await insert(2)).map(({ id }) => id)).toEqual([2]);
});
