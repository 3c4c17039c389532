import type { Kysely } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { NewerDatabaseError, OlderDatabaseError } from './database-types.ts';

/** The table in which Kysely stores the applied migrations. */
export const APPLIED = 'kysely_migration';

export interface MigrateOptions {
  readonly migrations: Readonly<Record<string, Migration>>;
  readonly readableSince?: string;
  /** The schema of the tables; absent: there is only one. */
  readonly schema?: string;
  /** Thrown if there are no tables yet; absent: they are created. */
  readonly missing?: Error | undefined;
  /** Runs the work on a connection without a statement timeout; absent: there is no timeout. */
  readonly patient?: (work: (query: Kysely<unknown>) => Promise<void>) => Promise<void>;
  readonly hasTable: (name: string) => Promise<boolean>;
  /** Keeps other processes from changing tables until the end of the transaction; absent: there are none. */
  readonly lock?: (transaction: Kysely<unknown>) => Promise<void>;
  /** Runs before the tables of a database that is in use are changed. */
  readonly before?: () => Promise<void>;
}

/** The table with one row: the migration that a program needs at least to work with the present tables. */
const READABLE = 'readable_since';

type Names = {
  readonly [APPLIED]: { readonly name: string };
  readonly [READABLE]: { migration: string };
};

/**
 * Brings the tables up to date, in one transaction. Tables of a newer program stay unchanged: they can be used if that program
 * allows it. Throws `NewerDatabaseError` if it does not, and `OlderDatabaseError` for a layout that no migration continues.
 */
export async function migrate(query: Kysely<unknown>, options: MigrateOptions): Promise<void> {
  const { migrations, before, patient = (work) => work(query) } = options;
  const names = query.withTables<Names>();
  const applied = await appliedMigrations(names, options);
  if (options.missing && applied.length === 0) throw options.missing;
  const [first] = Object.keys(migrations).sort();
  if (applied.length > 0 && first !== undefined && !applied.includes(first))
    throw new OlderDatabaseError('the tables have an earlier layout');
  const newer = applied.filter((name) => !(name in migrations));
  const missing = Object.keys(migrations).filter((name) => !applied.includes(name));
  if (newer.length > 0) {
    const since = await readableSince(names, options);
    if (since !== undefined && since in migrations && missing.length === 0) return;
    throw new NewerDatabaseError(`the database has migrations that this version does not know: ${newer.join(', ')}`);
  }
  if (missing.length === 0) return;
  if (applied.length > 0) await before?.();
  await patient((changing) => changing.transaction().execute((transaction) => applyAll(transaction, options)));
}

async function applyAll(transaction: Kysely<unknown>, options: MigrateOptions): Promise<void> {
  const { migrations, schema } = options;
  await options.lock?.(transaction);
  const provider = { getMigrations: async () => ({ ...migrations }) };
  const { error } = await new Migrator({
    db: transaction,
    provider,
    ...(schema && { migrationTableSchema: schema }),
  }).migrateToLatest();
  if (error) throw error;
  if (options.readableSince !== undefined) await tellReadable(transaction, options.readableSince);
}

async function appliedMigrations(names: Kysely<Names>, { hasTable }: MigrateOptions): Promise<readonly string[]> {
  if (!(await hasTable(APPLIED))) return [];
  const rows = await names.selectFrom(APPLIED).select('name').execute();
  return rows.map(({ name }) => name);
}

async function readableSince(names: Kysely<Names>, { hasTable }: MigrateOptions): Promise<string | undefined> {
  if (!(await hasTable(READABLE))) return undefined;
  return (await names.selectFrom(READABLE).select('migration').executeTakeFirst())?.migration;
}

async function tellReadable(transaction: Kysely<unknown>, migration: string): Promise<void> {
  await transaction.schema
    .createTable(READABLE)
    .ifNotExists()
    .addColumn('migration', 'text', (column) => column.notNull())
    .execute();
  const names = transaction.withTables<Names>();
  await names.deleteFrom(READABLE).execute();
  await names.insertInto(READABLE).values({ migration }).execute();
}
