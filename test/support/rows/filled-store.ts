import { sql } from 'kysely';
import { COPIED_TABLES, type CopiedTable } from '../../../src/store/copy/copy-store.ts';
import type { Sql } from '../../../src/store/workspace-scope.ts';

interface Column {
  readonly name: string;
  readonly type: string;
  readonly notnull: number;
}

/** Rows in every table of a file of SQLite, with whatever a column of their type may hold. @param rows of each table */
export async function fillStore(query: Sql, rows: number, first = 1): Promise<void> {
  for (const table of COPIED_TABLES) {
    const { rows: columns } =
      await sql<Column>`select name, type, "notnull" from pragma_table_info(${table.name})`.execute(query);
    const numbers = Array.from({ length: rows }, (_, index) => first + index);
    for (const number of numbers)
      await query
        .insertInto(table.name as 'meta')
        .values(Object.fromEntries(columns.map((each) => [each.name, cellOf(table, each, number)])) as never)
        .execute();
  }
}

/** Letters that sort otherwise by their words than by their bytes, or take several of them. */
const TEXTS = ['a', 'B', 'ä', '\u{1F600}', '\uFFFD', 'quote \' " \\', 'line\nend', ''];

function cellOf({ name, key }: CopiedTable, column: Column, number: number): unknown {
  const given = GIVEN[`${name}.${column.name}`];
  if (given) return given(number);
  if (column.name === 'workspace') return (number % 3) + 1;
  const isKey = key.includes(column.name);
  if (!isKey && column.notnull === 0 && number % 3 === 0) return null;
  if (/blob/i.test(column.type)) return Buffer.from([0, 255, number % 256]);
  if (/double/i.test(column.type)) return number + 0.1 + number / 3;
  if (/int/i.test(column.type)) return isKey ? number : 1_700_000_000_000 + number;
  return `${TEXTS[number % TEXTS.length]}${column.name}${number}`;
}

const GIVEN: Readonly<Record<string, (number: number) => unknown>> = {
  'items.fields': (number) =>
    JSON.stringify({ item: { url: `https://example.com/${number}`, identifier: `${number}\0`, title: '\0 \uD83D' } }),
  'tasks.key': (number) => `BUG-${number}`,
  'ledger.boot': (number) => `boot-${number % 2}`,
  'meta.name': (number) => ({ 1: 'throttle.beat', 2: 'throttle.brake' })[number] ?? `fact ${number}`,
  'meta.value': (number) => JSON.stringify({ boot: 'boot-1', at: number + 0.5, text: '\0' }),
  'outbox.lane': (number) => (number % 2 === 0 ? 'backfill' : 'created'),
  'outbox.weight': (number) => (number % 2) + 1,
};

/** All rows of all tables that are copied, with what the database makes of them. */
export async function dumpStore(query: Sql): Promise<Readonly<Record<string, readonly object[]>>> {
  const tables = await Promise.all(
    COPIED_TABLES.map(async ({ name, key }) => {
      const order = sql.join(key.map((column) => sql.ref(column)));
      const { rows } = await sql<object>`select * from ${sql.table(name)} order by ${order}`.execute(query);
      return [name, rows.map((row) => ({ ...row }))] as const;
    }),
  );
  return Object.fromEntries(tables);
}
