import { chmodSync, closeSync, existsSync, openSync, statSync } from 'node:fs';
import BetterSqlite, { type Statement } from 'better-sqlite3';
import { Kysely, SqliteAdapter, type SqliteDatabase, SqliteDialect, type Transaction } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { noSteps, type Steps } from './steps.ts';

/**
 * The only opener of databases.
 *
 * Every file is opened with WAL and `synchronous=FULL`: what was committed survives a power failure. (better-sqlite3
 * would default to NORMAL in WAL mode.) Transactions begin IMMEDIATE. There is one connection per file, and Kysely
 * serialises its use, so a transaction must await nothing but queries.
 */
export interface Database<Tables> {
  readonly file: string;
  readonly query: Kysely<Tables>;
  /** Runs `work` in one durable transaction; rolls back when it throws. */
  commit<Result>(work: (transaction: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  /** Bytes of the database as SQLite counts them. */
  size(): number;
  /** A consistent copy, while others go on writing. */
  backup(destination: string): Promise<void>;
  close(): Promise<void>;
}

export interface OpenOptions {
  readonly file: string;
  readonly migrations: Readonly<Record<string, Migration>>;
  readonly steps?: Steps;
  /** Told that a write found no space left, and that one succeeded again. */
  readonly onDiskFull?: (full: boolean) => void;
  /** Sees the text of every statement that runs; for tests that count independently. */
  readonly onStatement?: (sql: string) => void;
}

/** The file was written by a newer version of the program. */
export class NewerDatabaseError extends Error {}
/** The file is damaged, or is no database. */
export class CorruptDatabaseError extends Error {}

/** Refuses a database that is damaged or newer than this program; brings an older one up to date. */
export async function openDatabase<Tables>(options: OpenOptions): Promise<Database<Tables>> {
  const raw = openFile(options);
  const query = new Kysely<Tables>({
    dialect: new TransactionalDialect({
      database: withSteps(raw, options.steps ?? noSteps, watchDisk(options.onDiskFull)),
    }),
  });
  try {
    await migrate(query as Kysely<unknown>, options.migrations);
  } catch (error) {
    await query.destroy();
    throw error;
  }
  return {
    file: options.file,
    query,
    commit: (work) => query.transaction().execute(work),
    size: () => Number(raw.pragma('page_count', { simple: true })) * Number(raw.pragma('page_size', { simple: true })),
    backup: async (destination) => void (await raw.backup(destination)),
    close: () => query.destroy(),
  };
}

function openFile(options: OpenOptions): BetterSqlite.Database {
  const existed = existsSync(options.file);
  // Readable by this user only, from its first byte; SQLite gives its side files the same mode.
  if (!existed && options.file !== ':memory:') closeSync(openSync(options.file, 'a', 0o600));
  const raw = new BetterSqlite(
    options.file,
    options.onStatement ? { verbose: (sql) => options.onStatement?.(String(sql)) } : {},
  );
  try {
    raw.pragma('journal_mode = WAL');
    raw.pragma('synchronous = FULL');
    raw.pragma('foreign_keys = ON');
    raw.pragma('busy_timeout = 5000');
    raw.pragma('journal_size_limit = 67108864');
    if (raw.pragma('synchronous', { simple: true }) !== 2) throw new Error('synchronous=FULL was not accepted');
    if (existed) checkIntegrity(raw);
  } catch (error) {
    raw.close();
    if (isCorruption(error))
      throw new CorruptDatabaseError(`${options.file} is not a sound database`, { cause: error });
    throw error;
  }
  return raw;
}

/** Looks at the first pages only: a full check of a large file would hold up the start for seconds. */
function checkIntegrity(raw: BetterSqlite.Database): void {
  raw.pragma('schema_version');
  raw.prepare('SELECT count(*) FROM sqlite_schema').get();
}

function isCorruption(error: unknown): boolean {
  const code = (error as { code?: string }).code ?? '';
  return code.startsWith('SQLITE_CORRUPT') || code.startsWith('SQLITE_NOTADB');
}

async function migrate(query: Kysely<unknown>, migrations: Readonly<Record<string, Migration>>): Promise<void> {
  const applied = await appliedMigrations(query);
  const newer = applied.filter((name) => !(name in migrations));
  if (newer.length > 0) throw new NewerDatabaseError(`the database has migrations unknown here: ${newer.join(', ')}`);
  if (applied.length === Object.keys(migrations).length) return;
  await query.transaction().execute(async (transaction) => {
    const provider = { getMigrations: async () => ({ ...migrations }) };
    const { error } = await new Migrator({ db: transaction, provider }).migrateToLatest();
    if (error) throw error;
  });
}

async function appliedMigrations(query: Kysely<unknown>): Promise<string[]> {
  const known = await query
    .withTables<{ sqlite_schema: { name: string } }>()
    .selectFrom('sqlite_schema')
    .select('name')
    .where('name', '=', 'kysely_migration')
    .execute();
  if (known.length === 0) return [];
  const rows = await query
    .withTables<{ kysely_migration: { name: string } }>()
    .selectFrom('kysely_migration')
    .select('name')
    .execute();
  return rows.map((row) => row.name);
}

/**
 * SQLite changes schemas inside transactions, though Kysely does not count on it. With this the migrations and the rows
 * that remember them are one commit: a process killed in between finds either all of it or nothing.
 */
class TransactionalDialect extends SqliteDialect {
  override createAdapter(): SqliteAdapter {
    return new TransactionalAdapter();
  }
}

class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/** Statements kept prepared: the hot ones of all stages fit well. */
const STATEMENTS_KEPT = 256;

/**
 * The connection as Kysely sees it: statements stay prepared, transactions begin IMMEDIATE, and every durable commit
 * (a `commit`, or a single write outside a transaction) is reported as a step.
 */
function withSteps(raw: BetterSqlite.Database, steps: Steps, disk: DiskWatch): SqliteDatabase {
  const kept = new Map<string, Statement<unknown[]>>();
  const prepare = (sql: string): Statement<unknown[]> => {
    const found = kept.get(sql);
    if (found) return found;
    const statement = raw.prepare<unknown[]>(sql === 'begin' ? 'begin immediate' : sql);
    if (kept.size >= STATEMENTS_KEPT) kept.delete(kept.keys().next().value as string);
    kept.set(sql, statement);
    return statement;
  };
  const durably = <Result>(isCommit: boolean, run: () => Result): Result => {
    if (!isCommit) return disk.during(run);
    steps.reached('commit', 'before');
    const result = disk.during(run);
    disk.wrote();
    steps.reached('commit', 'after');
    return result;
  };
  return {
    close: () => raw.close(),
    prepare(sql) {
      const statement = prepare(sql);
      const commits = () => sql === 'commit' || (!statement.readonly && !raw.inTransaction && sql !== 'begin');
      return {
        reader: statement.reader,
        all: (parameters) => durably(commits(), () => statement.all(...parameters)),
        run: (parameters) => durably(commits(), () => statement.run(...parameters)),
        iterate: (parameters) => statement.iterate(...parameters),
      };
    },
  };
}

interface DiskWatch {
  during<Result>(run: () => Result): Result;
  /** A commit succeeded. */
  wrote(): void;
}

/** Tells when the disk becomes full and when it no longer is, each once. */
function watchDisk(tell: (full: boolean) => void = () => undefined): DiskWatch {
  let full = false;
  const set = (next: boolean) => {
    if (full !== next) tell(next);
    full = next;
  };
  return {
    during(run) {
      try {
        return run();
      } catch (error) {
        if ((error as { code?: string }).code === 'SQLITE_FULL') set(true);
        throw error;
      }
    },
    wrote: () => set(false),
  };
}

/** Held until released; kept here because a handle that is collected as garbage would drop its lock silently. */
const heldLocks = new Set<BetterSqlite.Database>();

export interface Lock {
  release(): void;
}

/**
 * Whoever may read the file may lock it too, and so keep its owner out. Older versions let everybody read it. A file that
 * is there is not opened: to close it again would drop the locks that this process holds on it.
 */
function keepPrivate(file: string): void {
  const mode = statSync(file, { throwIfNoEntry: false })?.mode;
  if (mode === undefined) closeSync(openSync(file, 'a', 0o600));
  try {
    if (mode !== undefined && (mode & 0o077) !== 0) chmodSync(file, 0o600);
  } catch {
    // A file system without modes.
  }
}

/**
 * Takes the lock that makes this process the only owner, or returns undefined when another process has it.
 * The kernel releases it when the process ends, however it ends: no stale lock can remain.
 */
export function takeLock(file: string): Lock | undefined {
  keepPrivate(file);
  const raw = new BetterSqlite(file, { timeout: 0 });
  try {
    raw.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    raw.close();
    if ((error as { code?: string }).code?.startsWith('SQLITE_BUSY')) return undefined;
    throw error;
  }
  heldLocks.add(raw);
  return {
    release() {
      if (!heldLocks.delete(raw)) return;
      raw.close();
    },
  };
}
