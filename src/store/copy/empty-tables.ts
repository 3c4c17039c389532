import { sql } from 'kysely';
import type { Database } from '../../platform/database/database-types.ts';
import type { Schema } from '../schema/tables.ts';
import type { Sql } from '../workspace-scope.ts';
import { COPIED_TABLES, type CopiedTable } from './copied-tables.ts';

/** The first table that has rows; undefined: none has. */
export async function firstWithRows(query: Sql): Promise<string | undefined> {
  for (const { name } of COPIED_TABLES) {
    const { rows } = await sql`select 1 from ${sql.table(name)} limit 1`.execute(query);
    if (rows.length > 0) return name;
  }
  return undefined;
}

/** Rows of one statement. */
const AT_ONCE = 500;

/** Deletes all rows in small pieces. Killed in between, the next call goes on. @returns how many there were */
export async function emptyTables({ commitRelaxed }: Pick<Database<Schema>, 'commitRelaxed'>): Promise<number> {
  let rows = 0;
  for (const table of COPIED_TABLES) {
    for (let deleted = 1; deleted > 0; rows += deleted)
      deleted = await commitRelaxed((transaction) => deleteSome(transaction, table));
  }
  await commitRelaxed((transaction) => transaction.deleteFrom('counts').execute());
  return rows;
}

async function deleteSome(query: Sql, { name, key }: CopiedTable): Promise<number> {
  const columns = sql.join(key.map((column) => sql.ref(column)));
  const { numAffectedRows = 0n } = await sql`delete from ${sql.table(name)} where (${columns}) in
    (select ${columns} from ${sql.table(name)} order by ${columns} limit ${sql.lit(AT_ONCE)})`.execute(query);
  return Number(numAffectedRows);
}
