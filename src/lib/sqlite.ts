import { accessSync, chmodSync, closeSync, constants, existsSync, openSync, statSync } from 'node:fs';
import BetterSqlite, { type Statement } from 'better-sqlite3';
import {
  type DatabaseConnection,
  type Driver,
  Kysely,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  type Transaction,
} from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { DatabaseFault, type FaultWatch, faultOf, placeOf, watchFaults } from './database-fault.ts';
import type { CheckFile } from './integrity.ts';
import { createQueue } from './queue.ts';
import { noSteps, type Steps } from './steps.ts';

/**
 * The only opener of databases.
 *
 * Every file is opened with WAL and `synchronous=FULL`: a commit survives a power failure, except those of `commitRelaxed`.
 * (better-sqlite3 would default to NORMAL in WAL mode.) Transactions begin IMMEDIATE. There is one connection per file, and
 * Kysely serialises its use, so a transaction must await nothing but queries.
 *
 * Every statement passes through here, and with it every failure of the file: see `database-fault.ts`.
 */
export interface Database<Tables> {
  readonly file: string;
  readonly query: Kysely<Tables>;
  /** Runs `work` in one durable transaction; rolls back when it throws. */
  commit<Result>(work: (transaction: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  /**
   * The same without waiting for the disk, for work that is simply repeated after a power failure undid it. Whatever
   * is committed later does not outlive it: the log is synced as a whole. A process that ends takes nothing back.
   */
  commitRelaxed<Result>(work: (transaction: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  /** Bytes of the database as SQLite counts them. */
  size(): number;
  /** The fault of the file, as far as a statement or a check has shown. */
  fault(): DatabaseFault | undefined;
  /** Checks that the file is still the one that was opened, which no statement shows. Cheap: two calls of the file system. */
  look(): DatabaseFault | undefined;
  /** If there is a fault that may pass: writes, to see whether it has passed. */
  probe(): void;
  /** A check of the whole file found it damaged. */
  condemn(complaint: string): void;
  /** A consistent copy, made in small steps while others go on writing. */
  backup(destination: string): Promise<void>;
  close(): Promise<void>;
}

export interface OpenOptions {
  readonly file: string;
  readonly migrations: Readonly<Record<string, Migration>>;
  readonly steps?: Steps;
  /** Called with each new kind of fault, and with undefined when a fault has passed. */
  readonly onFault?: (fault: DatabaseFault | undefined) => void;
  /** Reads the whole file before its tables are changed, so that a damaged file is not rewritten. */
  readonly checkFile?: CheckFile;
  /** Sees the text of every statement that runs; for tests that count independently. */
  readonly onStatement?: (sql: string) => void;
}

/** The file was written by a newer version of the program. */
export class NewerDatabaseError extends Error {
  readonly code = 'database_newer';
}

/**
 * Brings an older database up to date. Throws `DatabaseFault` for a file that cannot be used, `NewerDatabaseError` for
 * one that is newer than this program.
 */
export async function openDatabase<Tables>(options: OpenOptions): Promise<Database<Tables>> {
  const { file, onFault = () => undefined } = options;
  const watch = watchFaults(file, onFault);
  const raw = openFile(options);
  const query = new Kysely<Tables>({
    dialect: new TransactionalDialect({ database: withSteps(raw, options.steps ?? noSteps, watch) }),
  });
  try {
    await migrate(query as Kysely<unknown>, options);
    // Of each statement that writes in several places SQLite keeps the pages as they were: in a file each page would cost a
    // call of the system. Only migrations sort more than memory should hold.
    raw.pragma('temp_store = MEMORY');
  } catch (error) {
    await query.destroy();
    throw error;
  }
  const pragma = (source: string) => Number(watch.during(() => raw.pragma(source, { simple: true })));
  return {
    file,
    query,
    commit: (work) => query.transaction().execute(work),
    commitRelaxed: (work) =>
      query.connection().execute(async (own) => {
        // Nobody else has the connection meanwhile.
        pragma('synchronous = NORMAL');
        try {
          return await own.transaction().execute(work);
        } finally {
          pragma('synchronous = FULL');
        }
      }),
    size: () => pragma('page_count') * pragma('page_size'),
    fault: watch.present,
    look: createLook(file, watch),
    probe() {
      if (!watch.present()?.mayPass || raw.inTransaction) return;
      try {
        // Writes the same number over itself: the smallest commit there is.
        watch.during(() => raw.pragma(`user_version = ${pragma('user_version')}`));
        watch.wrote();
      } catch {
        // The fault is known, and was reported before.
      }
    },
    condemn: (complaint) => watch.note(new DatabaseFault('corrupt', file, complaint)),
    backup: (destination) => backUp(raw, destination, watch),
    close: () => query.destroy(),
  };
}

/** What belongs to the database beside its file: what is not in the file yet. */
const LOG = '-wal';

/** Detects that the file, or its log, is no longer the opened one: then commits go into a file that nobody will read. */
function createLook(file: string, watch: FaultWatch): () => DatabaseFault | undefined {
  if (file === ':memory:') return watch.present;
  const places = [file, file + LOG].map((path) => ({ path, place: placeOf(path) }));
  return () => {
    try {
      const lost = places.find(({ path, place }) => place !== undefined && placeOf(path) !== place);
      if (lost) watch.note(new DatabaseFault('gone', file, `${lost.path} was deleted or replaced while it was open`));
    } catch (error) {
      const fault = faultOf(error, file);
      if (fault === undefined) throw error;
      watch.note(fault);
    }
    return watch.present();
  };
}

/** Pages of one step: a millisecond or less. */
const PAGES_OF_STEP = 64;

async function backUp(raw: BetterSqlite.Database, destination: string, watch: FaultWatch): Promise<void> {
  try {
    await raw.backup(destination, { progress: () => PAGES_OF_STEP });
  } catch (error) {
    throw backupError(error, destination, watch);
  }
}

/** Where the file itself is damaged that is known from now on; what is wrong with the copy is the copy's affair. */
function backupError(error: unknown, destination: string, watch: FaultWatch): unknown {
  const fault = faultOf(error, destination);
  if (fault?.kind === 'corrupt') watch.note(fault);
  return fault ?? error;
}

function openFile(options: OpenOptions): BetterSqlite.Database {
  try {
    return openSound(options);
  } catch (error) {
    throw faultOf(error, options.file) ?? error;
  }
}

function openSound(options: OpenOptions): BetterSqlite.Database {
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
    throw error;
  }
  return raw;
}

/** A consistent copy of a database that this process, or another, may be writing to. Throws `DatabaseFault`. */
export async function copyDatabase(file: string, destination: string): Promise<void> {
  closeSync(openSync(destination, 'ax', 0o600));
  const raw = openFile({ file, migrations: {} });
  try {
    await backUp(
      raw,
      destination,
      watchFaults(file, () => undefined),
    );
  } finally {
    raw.close();
  }
}

/** Looks at the first pages only: a full check of a large file would hold up the start for seconds. */
function checkIntegrity(raw: BetterSqlite.Database): void {
  raw.pragma('schema_version');
  raw.prepare('SELECT count(*) FROM sqlite_schema').get();
}

async function migrate(query: Kysely<unknown>, { migrations, file, checkFile }: OpenOptions): Promise<void> {
  const applied = await appliedMigrations(query);
  const newer = applied.filter((name) => !(name in migrations));
  if (newer.length > 0)
    throw new NewerDatabaseError(`the database has migrations that this version does not know: ${newer.join(', ')}`);
  if (applied.length === Object.keys(migrations).length) return;
  const [complaint] = applied.length > 0 && checkFile ? await checkFile(file) : [];
  if (complaint !== undefined) throw new DatabaseFault('corrupt', file, complaint);
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

  override createDriver(): Driver {
    return inOrder(super.createDriver());
  }
}

class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }

  /** It does not: `inOrder` sees to that. */
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/**
 * One after the other has the connection, in the order in which they came. Kysely's own way wakes everybody who waits each
 * time: with the stages of thousands of workspaces that would cost by the square of their number.
 */
function inOrder(driver: Driver): Driver {
  const queue = createQueue();
  return {
    init: (options) => driver.init(options),
    async acquireConnection(options) {
      await queue.enter();
      return driver.acquireConnection(options);
    },
    beginTransaction: (connection, settings) => driver.beginTransaction(connection, settings),
    commitTransaction: (connection) => driver.commitTransaction(connection),
    rollbackTransaction: (connection) => driver.rollbackTransaction(connection),
    async releaseConnection(connection: DatabaseConnection) {
      await driver.releaseConnection(connection);
      queue.leave();
    },
    destroy: (options) => driver.destroy(options),
  };
}

/** Statements kept prepared: the hot ones of all stages fit well. */
const STATEMENTS_KEPT = 256;

/**
 * The connection as Kysely sees it: statements stay prepared, transactions begin IMMEDIATE, and every durable commit
 * (a `commit`, or a single write outside a transaction) is reported as a step.
 *
 * SQLite ends a transaction by itself where the disk fails in the middle of it. Then the failure that ended it is what
 * every further statement of that transaction answers, or they would be commits of their own; and rolling it back, which
 * Kysely does, finds nothing left to do.
 */
function withSteps(raw: BetterSqlite.Database, steps: Steps, watch: FaultWatch): SqliteDatabase {
  const kept = new Map<string, Statement<unknown[]>>();
  const prepare = (sql: string): Statement<unknown[]> => {
    const found = kept.get(sql);
    if (found) return found;
    const statement = watch.during(() => raw.prepare<unknown[]>(sql === 'begin' ? 'begin immediate' : sql));
    if (kept.size >= STATEMENTS_KEPT) kept.delete(kept.keys().next().value as string);
    kept.set(sql, statement);
    return statement;
  };
  /** Whether Kysely is within a transaction, whether that has written, and what ended it before Kysely did. */
  let within = false;
  let hasWritten = false;
  let ended: unknown;

  const inTurn = <Result>(sql: string, run: () => Result): Result => {
    if (ended !== undefined && sql !== 'begin') throw ended;
    try {
      const result = watch.during(run);
      within = raw.inTransaction;
      return result;
    } catch (error) {
      if (within && !raw.inTransaction) ended = error;
      throw error;
    }
  };
  const durably = <Result>(sql: string, writes: boolean, run: () => Result): Result => {
    steps.reached('commit', 'before');
    const result = inTurn(sql, run);
    // Only then: a transaction that only read proves nothing of the disk.
    if (writes || hasWritten) watch.wrote();
    hasWritten = false;
    steps.reached('commit', 'after');
    return result;
  };
  const rollBack = (statement: Statement<unknown[]>) => {
    ended = undefined;
    within = false;
    hasWritten = false;
    return raw.inTransaction ? watch.during(() => statement.run()) : { changes: 0, lastInsertRowid: 0 };
  };
  const guarded = <Result>(sql: string, statement: Statement<unknown[]>, run: () => Result): Result => {
    const isLone = !raw.inTransaction && !within;
    const writes = !statement.readonly && sql !== 'begin';
    if (sql === 'begin' || (writes && isLone)) watch.refuse();
    if (sql === 'commit' || (writes && isLone)) return durably(sql, writes, run);
    const result = inTurn(sql, run);
    hasWritten ||= writes;
    return result;
  };
  return {
    close: () => raw.close(),
    prepare(sql) {
      const statement = prepare(sql);
      return {
        reader: statement.reader,
        all: (parameters) => guarded(sql, statement, () => statement.all(...parameters)),
        run: (parameters) =>
          sql === 'rollback' ? rollBack(statement) : guarded(sql, statement, () => statement.run(...parameters)),
        iterate: (parameters) => guarded(sql, statement, () => statement.iterate(...parameters)),
      };
    },
  };
}

/** Enough to tell what is wrong; a damaged file may have thousands. */
const MOST_COMPLAINTS = 10;

/**
 * Reads a whole file, which takes seconds of CPU where it is large, and answers what is wrong with it; nothing where it is
 * sound. Throws `DatabaseFault` where it cannot be read at all.
 */
export function complaintsOf(file: string): readonly string[] {
  try {
    const raw = new BetterSqlite(file, { fileMustExist: true });
    try {
      const rows = raw.pragma(`integrity_check(${MOST_COMPLAINTS})`) as { readonly integrity_check: string }[];
      return rows.map((row) => row.integrity_check).filter((text) => text !== 'ok');
    } finally {
      raw.close();
    }
  } catch (error) {
    const fault = faultOf(error, file);
    if (fault?.kind !== 'corrupt') throw fault ?? error;
    return [fault.message];
  }
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
 * Takes the lock that makes this process the only owner, or returns undefined when another process has it. Throws
 * `DatabaseFault` where the file cannot be made or written. The kernel releases it when the process ends, however it ends: no
 * stale lock can remain.
 */
export function takeLock(file: string): Lock | undefined {
  let raw: BetterSqlite.Database | undefined;
  try {
    keepPrivate(file);
    // On a file that it may only read SQLite would answer that it has the lock, and have none.
    accessSync(file, constants.W_OK);
    raw = new BetterSqlite(file, { timeout: 0 });
    raw.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    raw?.close();
    if ((error as { code?: string }).code?.startsWith('SQLITE_BUSY')) return undefined;
    throw faultOf(error, file) ?? error;
  }
  heldLocks.add(raw);
  return {
    release() {
      if (!heldLocks.delete(raw)) return;
      raw.close();
    },
  };
}
