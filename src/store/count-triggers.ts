import { type Kysely, type RawBuilder, sql } from 'kysely';
import { type Dialect, dialectOf } from '../platform/database/dialect.ts';

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
 * Creates the table `counts`, which triggers keep up to date: counting is atomic with each write, also where thousands of rows are
 * copied or deleted.
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
  const dialect = dialectOf(db);
  const add = adding(dialect, table, by);
  const take = taking(dialect, table, by);
  await createTrigger(db, { name: 'counted_in', table, when: sql`after insert`, work: add });
  await createTrigger(db, { name: 'counted_out', table, when: sql`after delete`, work: take });
  if (by.length === 0) return;
  const isOther = by.map((column) => sql`${sql.ref(`old.${column}`)} ${differs(dialect)} ${sql.ref(`new.${column}`)}`);
  await createTrigger(db, {
    name: 'counted_anew',
    table,
    when: sql`after update of ${sql.join(by.map((column) => sql.ref(column)))}`,
    condition: sql`when (${sql.join(isOther, sql` or `)})`,
    work: sql`${take}; ${add}`,
  });
}

interface Trigger {
  readonly name: string;
  readonly table: string;
  readonly when: RawBuilder<unknown>;
  readonly condition?: RawBuilder<unknown>;
  /** Statements, of which the last has no semicolon. */
  readonly work: RawBuilder<unknown>;
}

async function createTrigger(db: Kysely<unknown>, trigger: Trigger): Promise<void> {
  const { name, table, when, condition = sql``, work } = trigger;
  const id = sql.id(`${table}_${name}`);
  if (dialectOf(db) === 'sqlite') {
    await sql`create trigger ${id} ${when} on ${sql.table(table)} ${condition} begin ${work}; end`.execute(db);
    return;
  }
  await sql`create function ${id}() returns trigger language plpgsql as $$ begin ${work}; return null; end $$`.execute(
    db,
  );
  await sql`create trigger ${id} ${when} on ${sql.table(table)} for each row ${condition} execute function ${id}()`.execute(
    db,
  );
}

function differs(dialect: Dialect): RawBuilder<unknown> {
  return dialect === 'sqlite' ? sql`is not` : sql`is distinct from`;
}

function adding(dialect: Dialect, table: string, by: readonly string[]): RawBuilder<unknown> {
  const known = dialect === 'sqlite' ? sql`count` : sql`counts.count`;
  return sql`insert into counts (workspace, counted, class, count)
    values (new.workspace, ${sql.lit(table)}, ${classOf(dialect, by, 'new')}, 1)
    on conflict (workspace, counted, class) do update set count = ${known} + 1`;
}

function taking(dialect: Dialect, table: string, by: readonly string[]): RawBuilder<unknown> {
  return sql`update counts set count = count - 1
    where workspace = old.workspace and counted = ${sql.lit(table)} and class = ${classOf(dialect, by, 'old')}`;
}

/** As `counts.ts` reads it. */
function classOf(dialect: Dialect, by: readonly string[], row?: 'new' | 'old'): RawBuilder<string> {
  const values = by.map((column) => sql`${sql.lit(column)}, ${sql.ref(row ? `${row}.${column}` : column)}`);
  return dialect === 'sqlite'
    ? sql`json_object(${sql.join(values)})`
    : sql`json_build_object(${sql.join(values)})::text`;
}
