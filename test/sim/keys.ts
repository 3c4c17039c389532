import { sql } from 'kysely';
import type { Sql } from '../../src/store/workspace-scope.ts';

/** By table, the sets of columns of which each names one row. */
export type Keys = ReadonlyMap<string, readonly (readonly string[])[]>;

export async function readKeys(query: Sql): Promise<Keys> {
  const { rows } = await sql<{ readonly of: string; readonly by: string; readonly name: string }>`
    select m.name as "of", '' as "by", p.name as name
      from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' and p.pk > 0
    union all
    select m.name, i.name, c.name
      from sqlite_master m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
      where m.type = 'table' and i."unique" = 1 and i.partial = 0`.execute(query);
  const columnsOf = (keys: typeof rows) => [...Map.groupBy(keys, ({ by }) => by).values()];
  return new Map(
    [...Map.groupBy(rows, ({ of }) => of)].map(([table, keys]) => [
      table,
      columnsOf(keys).map((columns) => columns.map(({ name }) => name)),
    ]),
  );
}

/** Whether a change names each row that it is about by a whole key. */
export function namesRows(text: string, keys: Keys): boolean {
  const [, table = '', condition = ''] = /^(?:update|delete from) "(\w+)".*? where (.*)$/is.exec(text) ?? [];
  const named = new Set(
    [...condition.matchAll(/"(\w+)" (?:= \?|in \()/g), ...condition.matchAll(/\(((?:"\w+"(?:, )?)+)\) in \(/g)].flatMap(
      ([, columns = '']) => columns.match(/\w+/g) ?? [],
    ),
  );
  return keys.get(table)?.some((columns) => columns.every((column) => named.has(column))) === true;
}
