import { type Kysely, type RawBuilder, sql } from 'kysely';

/** A table whose rows are counted, and the columns by whose values they are told apart. */
interface Counted {
  readonly table: string;
  readonly by: readonly string[];
}

const COUNTED: readonly Counted[] = [
  { table: 'items', by: [] },
  { table: 'tasks', by: [] },
  { table: 'fetches', by: ['connection'] },
  { table: 'entities', by: ['kind', 'hand'] },
  { table: 'outbox', by: ['kind', 'state', 'lane', 'effect', 'guard'] },
];

/**
 * The table `counts`, as `006_counts` makes it: part of a released migration, never changed. Triggers keep it, so that no
 * writer can forget to: what counts a row is atomic with what writes it, also where rows are copied or deleted by thousands.
 */
export async function createCounts(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('counts')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('counted', 'text', (column) => column.notNull())
    .addColumn('class', 'text', (column) => column.notNull())
    .addColumn('count', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('counts_key', ['workspace', 'counted', 'class'])
    .execute();
  for (const counted of COUNTED) await count(db, counted);
}

async function count(db: Kysely<unknown>, { table, by }: Counted): Promise<void> {
  const rows = sql.table(table);
  await sql`insert into counts (workspace, counted, class, count)
    select workspace, ${sql.lit(table)}, ${classOf(by)}, count(*) from ${rows} group by 1, 3`.execute(db);
  await sql`create trigger ${sql.id(`${table}_counted_in`)} after insert on ${rows}
    begin ${add(table, by)}; end`.execute(db);
  await sql`create trigger ${sql.id(`${table}_counted_out`)} after delete on ${rows}
    begin ${take(table, by)}; end`.execute(db);
  if (by.length === 0) return;
  const isOther = by.map((column) => sql`${sql.ref(`old.${column}`)} is not ${sql.ref(`new.${column}`)}`);
  await sql`create trigger ${sql.id(`${table}_counted_anew`)}
    after update of ${sql.join(by.map((column) => sql.ref(column)))} on ${rows} when ${sql.join(isOther, sql` or `)}
    begin ${take(table, by)}; ${add(table, by)}; end`.execute(db);
}

function add(table: string, by: readonly string[]): RawBuilder<unknown> {
  return sql`insert into counts (workspace, counted, class, count)
    values (new.workspace, ${sql.lit(table)}, ${classOf(by, 'new')}, 1)
    on conflict (workspace, counted, class) do update set count = count + 1`;
}

function take(table: string, by: readonly string[]): RawBuilder<unknown> {
  return sql`update counts set count = count - 1
    where workspace = old.workspace and counted = ${sql.lit(table)} and class = ${classOf(by, 'old')}`;
}

/** As `counts.ts` reads it. */
function classOf(by: readonly string[], row?: 'new' | 'old'): RawBuilder<string> {
  const values = by.map((column) => sql`${sql.lit(column)}, ${sql.ref(row ? `${row}.${column}` : column)}`);
  return sql`json_object(${sql.join(values)})`;
}
