import { type Kysely, type RawBuilder, type Selectable, sql } from 'kysely';
import { type Dialect, dialectOf } from '../../platform/database/database-schema.ts';
import type { Tables } from '../schema/tables.ts';
import { flushRows } from '../unit-of-work/unit-of-work.ts';
import type { Scope, Sql } from '../workspace-scope.ts';

/** The numbers of rows of a workspace. Reading them takes some tens of rows of `counts`, whatever the numbers are. */
export interface Counts {
  readonly items: number;
  readonly tasks: number;
  readonly fetches: readonly Count<'fetches', 'connection'>[];
  readonly entities: readonly Count<'entities', 'kind' | 'hand'>[];
  readonly changes: readonly Count<'outbox', 'kind' | 'state' | 'lane' | 'effect' | 'guard'>[];
}

/** The number of rows with the same values in these columns. */
type Count<Table extends keyof Tables, Column extends keyof Selectable<Tables[Table]>> = Pick<
  Selectable<Tables[Table]>,
  Column
> & {
  readonly count: number;
};

/** Reads the counts of several workspaces. */
export async function countsOf(query: Sql, workspaces: readonly number[]): Promise<(workspace: number) => Counts> {
  const rows = await query
    .selectFrom('counts')
    .select(['workspace', 'counted', 'class', 'count'])
    .where('workspace', 'in', workspaces)
    .where('count', '>', 0)
    .execute();
  const byWorkspace = Map.groupBy(rows, ({ workspace }) => workspace);
  return (workspace) => {
    const own = byWorkspace.get(workspace) ?? [];
    const classes = <Each>(table: (typeof rows)[number]['counted']) =>
      own
        .filter(({ counted }) => counted === table)
        .map((row) => ({ ...JSON.parse(row.class), count: row.count }) as Each);
    return {
      items: sumOf(classes<{ count: number }>('items')),
      tasks: sumOf(classes<{ count: number }>('tasks')),
      fetches: classes('fetches'),
      entities: classes('entities'),
      changes: classes('outbox'),
    };
  };
}

/** Reads the counts of a workspace. Triggers keep them, so the pending writes of a unit of work reach the database first. */
export async function readCounts(query: Scope): Promise<Counts> {
  await flushRows(query);
  const counts = await countsOf(query.whole, [query.workspace]);
  return counts(query.workspace);
}

/** Returns the sum of the counts that pass the test; without a test, of all. */
export function sumOf<Each extends { readonly count: number }>(
  counts: readonly Each[],
  passes: (each: Each) => boolean = () => true,
): number {
  return counts.reduce((sum, each) => (passes(each) ? sum + each.count : sum), 0);
}

/** A table whose rows are counted, separately for each combination of values in the columns `by`. */
interface CountedTable {
  readonly table: string;
  readonly by: readonly string[];
}

const COUNTED_TABLES: readonly CountedTable[] = [
  { table: 'items', by: [] },
  { table: 'tasks', by: [] },
  { table: 'fetches', by: ['connection'] },
  { table: 'entities', by: ['kind', 'hand'] },
  { table: 'outbox', by: ['kind', 'state', 'lane', 'effect', 'guard'] },
];

/**
 * Creates the triggers that keep the table `counts` up to date. With triggers each write and its count are atomic, also when thousands
 * of rows are copied or deleted.
 */
export async function createCounts(db: Kysely<unknown>): Promise<void> {
  for (const counted of COUNTED_TABLES) await createTriggers(db, counted);
}

async function createTriggers(db: Kysely<unknown>, { table, by }: CountedTable): Promise<void> {
  const dialect = dialectOf(db);
  const increment = incrementOf(dialect, table, by);
  const decrement = decrementOf(dialect, table, by);
  await createTrigger(db, { name: 'counted_in', table, when: sql`after insert`, work: increment });
  await createTrigger(db, { name: 'counted_out', table, when: sql`after delete`, work: decrement });
  if (by.length === 0) return;
  const changes = by.map((column) => sql`${sql.ref(`old.${column}`)} ${differs(dialect)} ${sql.ref(`new.${column}`)}`);
  await createTrigger(db, {
    name: 'counted_anew',
    table,
    when: sql`after update of ${sql.join(by.map((column) => sql.ref(column)))}`,
    condition: sql`when (${sql.join(changes, sql` or `)})`,
    work: sql`${decrement}; ${increment}`,
  });
}

interface Trigger {
  readonly name: string;
  readonly table: string;
  readonly when: RawBuilder<unknown>;
  readonly condition?: RawBuilder<unknown>;
  /** Statements separated by semicolons; none after the last. */
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

function incrementOf(dialect: Dialect, table: string, by: readonly string[]): RawBuilder<unknown> {
  const known = dialect === 'sqlite' ? sql`count` : sql`counts.count`;
  return sql`insert into counts (workspace, counted, class, count)
    values (new.workspace, ${sql.lit(table)}, ${classOf(dialect, by, 'new')}, 1)
    on conflict (workspace, counted, class) do update set count = ${known} + 1`;
}

function decrementOf(dialect: Dialect, table: string, by: readonly string[]): RawBuilder<unknown> {
  return sql`update counts set count = count - 1
    where workspace = old.workspace and counted = ${sql.lit(table)} and class = ${classOf(dialect, by, 'old')}`;
}

/** Returns the JSON object of the columns `by`, which `countsOf` parses. */
function classOf(dialect: Dialect, by: readonly string[], row: 'new' | 'old'): RawBuilder<string> {
  const values = by.map((column) => sql`${sql.lit(column)}, ${sql.ref(`${row}.${column}`)}`);
  return dialect === 'sqlite'
    ? sql`json_object(${sql.join(values)})`
    : sql`json_build_object(${sql.join(values)})::text`;
}
