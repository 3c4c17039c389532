import * as fs from 'node:fs';
import { join } from 'node:path';
import BetterSqlite, { type Statement } from 'better-sqlite3';
import type { CompiledQuery, Kysely, QueryResult } from 'kysely';
import { syncFolder } from '../lib/folders.ts';
import type { Steps } from '../lib/telemetry.ts';
import { DatabaseFault, type FaultWatch, faultOf, isLocked, placeOf, watchFaults } from './database-fault.ts';
import { APPLIED, migrate } from './database-schema.ts';
import { type Database, MissingDatabaseError, type OpenOptions } from './database-types.ts';
import { createFileLog, LOG, LOG_LIMIT } from './file-log.ts';
import {
  BEGIN,
  COMMIT,
  type Locks,
  overOneConnection,
  ROLLBACK,
  SQLITE_DIALECT,
  type Statements,
} from './one-connection.ts';

/**
 * The only opener of files.
 *
 * Every file is opened with WAL and `synchronous=FULL`: a commit survives a power failure, except those of `commitRelaxed`.
 * (better-sqlite3 would default to NORMAL in WAL mode.) Transactions begin IMMEDIATE. There is one connection per file, and
 * its use is serialised, so a transaction must await nothing but queries.
 *
 * Every statement passes through here, and with it every failure of the file: see `database-fault.ts`.
 *
 * Brings an older database up to date. Throws `DatabaseFault` for a file that cannot be used, `NewerDatabaseError` for
 * one that is newer than this program.
 */
export async function openSqlite<Tables>(options: OpenOptions): Promise<Database<Tables>> {
  const { file } = options;
  const watch = watchFaults((error) => faultOf(error, file), options.onFault);
  const raw = openFile(options);
  const statements = withSteps(raw, options.steps, watch);
  const query = overOneConnection<Tables>(SQLITE_DIALECT, statements, locksOf(file, watch));
  try {
    await migrate(query as Kysely<unknown>, {
      migrations: options.migrations,
      readableSince: options.readableSince,
      missing: options.existing ? new MissingDatabaseError(file) : undefined,
      hasTable: async (name) =>
        watch.during(() => raw.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(name)) !== undefined,
      before: () => checkWhole(options),
    });
    // SQLite keeps the old pages of a statement that writes in several places: in a file, each page would cost a system call.
    // Only migrations sort more than memory should take.
    raw.pragma('temp_store = MEMORY');
    // From now on `patient` waits for locks, and not the thread within SQLite.
    raw.pragma('busy_timeout = 10');
  } catch (error) {
    await query.destroy();
    throw error;
  }
  const pragma = (source: string) => Number(watch.during(() => raw.pragma(source, { simple: true })));
  const log = createFileLog(raw, file);
  const checkHeader = createHeaderCheck(raw, file, watch);
  return {
    file,
    query,
    commit: (work) => query.transaction().execute(work),
    commitRelaxed: (work) =>
      query.connection().execute(async (own) => {
        // No other code has the connection meanwhile.
        pragma('synchronous = NORMAL');
        try {
          return await own.transaction().execute(work);
        } finally {
          pragma('synchronous = FULL');
        }
      }),
    size: () => pragma('page_count') * pragma('page_size'),
    fault: watch.present,
    checkFileReplaced: createFileCheck(options, watch),
    probe() {
      try {
        checkHeader();
        if (!watch.present()?.mayPass || raw.inTransaction) return;
        // Rewrites the same number: the smallest commit.
        watch.during(() => raw.pragma(`user_version = ${pragma('user_version')}`));
        watch.wrote();
      } catch {
        // The fault is known, and was already reported.
      }
    },
    condemn: (complaint) => watch.note(new DatabaseFault('corrupt', file, complaint)),
    keptLog: log.kept,
    asFile: {
      backup: (destination) => backUp(raw, destination, watch),
      emptyLog: () => watch.during(log.empty),
      isCopy: () => pragma('user_version') === COPY,
    },
    close: () => query.destroy(),
  };
}

/** Throws the fault of the file. */
async function checkWhole({ file, checkFile }: OpenOptions): Promise<void> {
  const [complaint] = checkFile ? await checkFile(file) : [];
  if (complaint !== undefined) throw new DatabaseFault('corrupt', file, complaint);
}

const LOCK_HINTS = {
  gone: 'End all worksync processes of this data folder, and start one: without this file two may work at once.',
};

/** Detects that the file, or its log, is no longer the opened one: then commits go into a file that nobody will read. */
function createFileCheck({ file, lock }: OpenOptions, watch: FaultWatch): () => DatabaseFault | undefined {
  if (file === ':memory:') return watch.present;
  const paths = [file, file + LOG, ...(lock === undefined ? [] : [lock])];
  const places = paths.map((path) => ({ path, place: placeOf(path) }));
  return () => {
    try {
      const lost = places.find(({ path, place }) => place !== undefined && placeOf(path) !== place);
      if (lost) {
        const reason = `${lost.path} was deleted or replaced while it was open`;
        watch.note(new DatabaseFault('gone', file, reason, undefined, lost.path === lock ? LOCK_HINTS : undefined));
      }
    } catch (error) {
      const fault = faultOf(error, file);
      if (fault === undefined) throw error;
      watch.note(fault);
    }
    return watch.present();
  };
}

/**
 * Detects that another program has overwritten the beginning of the file, or has cut its end, because SQLite may have cached its
 * first pages.
 *
 * A checkpoint writes the first page before the file grows, and a power failure or a full disk may end it there. Then the log
 * has the missing pages, and another checkpoint completes the file.
 */
function createHeaderCheck(raw: BetterSqlite.Database, file: string, watch: FaultWatch): () => void {
  const missingBytes = () => {
    const header = watch.during(() => readHeader(file));
    return header === undefined ? Number.POSITIVE_INFINITY : header.expectedBytes - header.bytes;
  };

  /** Whether the log cannot supply the missing pages. False while another program prevents a complete checkpoint. */
  function isDamaged(missing: number): boolean {
    if (missing === Number.POSITIVE_INFINITY) return true;
    if (missing <= 0 || raw.inTransaction) return false;
    const [checkpoint] = watch.during(() => raw.pragma('wal_checkpoint')) as [Checkpoint];
    const { busy, log, checkpointed } = checkpoint;
    if (busy !== 0 || log !== checkpointed) return false;
    // A checkpoint extends the file with zeros, so its size afterwards does not show a gap that was larger than the log.
    return missing > log * Number(raw.pragma('page_size', { simple: true })) || missingBytes() > 0;
  }

  return () => {
    if (file === ':memory:' || placeOf(file) === undefined) return;
    if (isDamaged(missingBytes()))
      watch.note(new DatabaseFault('corrupt', file, 'another program has damaged it while it was open'));
  };
}

/** The row of `pragma wal_checkpoint`: https://sqlite.org/pragma.html#pragma_wal_checkpoint */
interface Checkpoint {
  /** 1 if another program prevented it. */
  readonly busy: number;
  /** Pages in the log, and those of them that are in the file now. */
  readonly log: number;
  readonly checkpointed: number;
}

/** Pages per step: a millisecond or less. */
const PAGES_OF_STEP = 64;

async function backUp(raw: BetterSqlite.Database, destination: string, watch: FaultWatch): Promise<void> {
  try {
    await raw.backup(destination, { progress: () => PAGES_OF_STEP });
  } catch (error) {
    const fault = faultOf(error, destination);
    // A damage is one of the file itself; any other fault concerns the copy only.
    if (fault?.kind === 'corrupt') watch.note(fault);
    throw fault ?? error;
  }
}

function openFile(options: OpenOptions): BetterSqlite.Database {
  try {
    return openSound(options);
  } catch (error) {
    throw faultOf(error, options.file) ?? error;
  }
}

function openSound(options: OpenOptions): BetterSqlite.Database {
  const existed = fs.existsSync(options.file);
  // Readable by this user only, from its first byte; SQLite gives its side files the same mode.
  if (!existed && options.file !== ':memory:') fs.closeSync(fs.openSync(options.file, 'a', 0o600));
  const raw = new BetterSqlite(
    options.file,
    options.onStatement ? { verbose: (sql) => options.onStatement?.(String(sql)) } : {},
  );
  try {
    raw.pragma('journal_mode = WAL');
    raw.pragma('synchronous = FULL');
    raw.pragma('foreign_keys = ON');
    raw.pragma('busy_timeout = 10');
    raw.pragma(`journal_size_limit = ${LOG_LIMIT}`);
    if (raw.pragma('synchronous', { simple: true }) !== 2) throw new Error('synchronous=FULL was not accepted');
    // Reads the first pages only: a full check of a large file would delay the start by seconds.
    if (existed) raw.prepare('SELECT count(*) FROM sqlite_schema').get();
  } catch (error) {
    raw.close();
    throw error;
  }
  return raw;
}

/** The `user_version` of a file that is a copy, and has no changes since it was made. */
const COPY = 1;

/** Marks a database that no process has open as a copy. */
export function markAsCopy(file: string): void {
  withFile(file, (raw) => raw.pragma(`user_version = ${COPY}`));
}

/** Opens a database file for one piece of work. */
function withFile<Result>(file: string, work: (raw: BetterSqlite.Database) => Result): Result {
  const raw = new BetterSqlite(file, { fileMustExist: true });
  try {
    return work(raw);
  } finally {
    raw.close();
  }
}

/**
 * A consistent copy of a database that this process, or another, may be writing to. It is marked as a copy. Throws
 * `DatabaseFault`.
 */
export async function copyDatabase(file: string, destination: string): Promise<void> {
  fs.closeSync(fs.openSync(destination, 'ax', 0o600));
  const raw = openFile({ file, migrations: {} });
  try {
    // Reads the state of this moment: otherwise the copy would begin again with each commit of another process, and never end.
    raw.exec('begin');
    raw.pragma('schema_version');
    const watch = watchFaults((error) => faultOf(error, file));
    await backUp(raw, destination, watch);
  } finally {
    raw.close();
  }
  markAsCopy(destination);
}

/** The first bytes of each database, and the places of numbers in its header: https://sqlite.org/fileformat.html */
const MAGIC = 'SQLite format 3\0';
const HEADER_BYTES = 100;
const AT = { pageSize: 16, pages: 28, userVersion: 60 } as const;

/**
 * Reads the first bytes of a file, and nothing else.
 *
 * @returns the bytes of the file and the bytes by its header, and whether it is marked as a copy; undefined if it is no database in a
 * regular file
 */
export function readHeader(file: string) {
  // A pipe without a writer would block.
  const handle = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    const found = fs.fstatSync(handle);
    const header = Buffer.alloc(HEADER_BYTES);
    if (!found.isFile() || fs.readSync(handle, header, 0, HEADER_BYTES, 0) < HEADER_BYTES) return undefined;
    if (header.toString('latin1', 0, MAGIC.length) !== MAGIC) return undefined;
    const pageSize = header.readUInt16BE(AT.pageSize);
    return {
      bytes: found.size,
      expectedBytes: (pageSize === 1 ? 65_536 : pageSize) * header.readUInt32BE(AT.pages),
      isCopy: header.readUInt32BE(AT.userVersion) === COPY,
    };
  } finally {
    fs.closeSync(handle);
  }
}

/** A table, index, trigger or view. */
export interface SchemaObject {
  readonly type: string;
  readonly name: string;
  readonly tbl_name: string;
  readonly sql: string | null;
  /** Names of the columns, separated by commas; null where it has none. */
  readonly columns: string | null;
}

/** Returns the objects of a database file of unknown origin. */
export function readObjects(file: string): readonly SchemaObject[] {
  return withFile(file, (raw) => {
    raw.pragma('trusted_schema = OFF');
    return raw.prepare<unknown[], SchemaObject>(OBJECTS).all();
  });
}

/** Reads each `SchemaObject` of a database. */
export const OBJECTS = `select type, name, tbl_name, sql,
  (select group_concat(name) from pragma_table_xinfo(sqlite_schema.name)) as columns from sqlite_schema`;

/** Names of the migrations that were applied to a database file. */
export function readMigrations(file: string): readonly string[] {
  return withFile(file, (raw) => {
    raw.pragma('trusted_schema = OFF');
    return raw.prepare<unknown[], string>(`select name from ${APPLIED} order by name`).pluck().all();
  });
}

/** Copies the log into the file itself, as far as the file can be read. No other process has it open. */
export function foldLog(file: string): void {
  try {
    withFile(file, (raw) => raw.pragma('wal_checkpoint(truncate)'));
  } catch {
    // A damaged file stays unchanged.
  }
}

/** A file that another program keeps locked is a fault of its own: nothing can be stored meanwhile. */
function locksOf(file: string, watch: FaultWatch): Locks {
  return {
    isLocked,
    isKnown: () => watch.present()?.kind === 'locked',
    giveUp(error) {
      const fault = new DatabaseFault('locked', file, 'another program keeps it locked', error);
      watch.note(fault);
      return fault;
    },
  };
}

/** Statements kept prepared: the hot ones of all stages fit well. */
const STATEMENTS_KEPT = 256;

/**
 * Statements stay prepared, and every durable commit (a `commit`, or a single write outside a transaction) is reported as a step.
 *
 * SQLite ends a transaction itself if the disk fails in the middle of it. Every further statement of that transaction then throws
 * the same failure, or it would be a commit of its own; and the rollback of Kysely finds nothing left to do.
 */
function withSteps(raw: BetterSqlite.Database, steps: Steps | undefined, watch: FaultWatch): Statements {
  const kept = new Map<string, Statement<unknown[]>>();
  const prepare = (sql: string): Statement<unknown[]> => {
    const found = kept.get(sql);
    if (found) return found;
    const statement = watch.during(() => raw.prepare<unknown[]>(sql));
    if (kept.size >= STATEMENTS_KEPT) kept.delete(kept.keys().next().value as string);
    kept.set(sql, statement);
    return statement;
  };
  /** Whether Kysely is within a transaction, whether that has written, and the failure that ended it before Kysely did. */
  let within = false;
  let hasWritten = false;
  let ended: unknown;

  const inTurn = <Result>(sql: string, run: () => Result): Result => {
    if (ended !== undefined && sql !== BEGIN) throw ended;
    try {
      const result = watch.during(run);
      if (sql === BEGIN || sql === COMMIT) within = raw.inTransaction;
      return result;
    } catch (error) {
      if (within && !raw.inTransaction) ended = error;
      throw error;
    }
  };
  const durably = <Result>(sql: string, writes: boolean, run: () => Result): Result => {
    steps?.reached('commit', 'before');
    const result = inTurn(sql, run);
    // A transaction without writes proves nothing about the disk.
    if (writes || hasWritten) watch.wrote();
    hasWritten = false;
    steps?.reached('commit', 'after');
    return result;
  };
  const rollBack = <Row>(statement: Statement<unknown[]>): QueryResult<Row> => {
    ended = undefined;
    within = false;
    hasWritten = false;
    return raw.inTransaction ? watch.during(() => resultOf<Row>(statement, [])) : { rows: [] };
  };
  return {
    close: () => raw.close(),
    run<Row>({ sql, parameters }: CompiledQuery) {
      const statement = prepare(sql);
      if (sql === ROLLBACK) return rollBack<Row>(statement);
      const run = () => resultOf<Row>(statement, parameters);
      const writes = !statement.readonly && sql !== BEGIN;
      const isLone = writes && !within && !raw.inTransaction;
      if (sql === BEGIN || isLone) watch.refuse();
      if (sql === COMMIT || isLone) return durably(sql, writes, run);
      const result = inTurn(sql, run);
      hasWritten ||= writes;
      return result;
    },
  };
}

function resultOf<Row>(statement: Statement<unknown[]>, parameters: readonly unknown[]): QueryResult<Row> {
  if (statement.reader) return { rows: statement.all(...parameters) as Row[] };
  const { changes, lastInsertRowid } = statement.run(...parameters);
  return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
}

/** Enough to show the fault; a damaged file may have thousands. */
const MOST_COMPLAINTS = 10;

/**
 * Reads a whole file, which takes seconds of CPU if it is large, and returns its faults; none if it is intact. Throws
 * `DatabaseFault` if it cannot be read at all.
 */
export function complaintsOf(file: string): readonly string[] {
  try {
    const check = (raw: BetterSqlite.Database) => raw.pragma(`integrity_check(${MOST_COMPLAINTS})`);
    const rows = withFile(file, check) as { readonly integrity_check: string }[];
    return rows.map((row) => row.integrity_check).filter((text) => text !== 'ok');
  } catch (error) {
    const fault = faultOf(error, file);
    if (fault?.kind !== 'corrupt') throw fault ?? error;
    return [fault.message];
  }
}

/**
 * Makes the names in a folder durable. Node's permission model, under which the container runs, forbids that call, and so does a
 * folder without read permission: there, SQLite does it if it can, as for each journal that it begins.
 */
export function syncNames(folder: string): void {
  try {
    syncFolder(folder);
  } catch (error) {
    if (!['ERR_ACCESS_DENIED', 'EACCES'].includes(String((error as NodeJS.ErrnoException).code))) throw error;
    beginJournal(join(folder, '.worksync-sync'));
  }
}

function beginJournal(file: string): void {
  const raw = new BetterSqlite(file);
  try {
    raw.pragma('synchronous = FULL');
    raw.pragma('user_version = 1');
  } finally {
    raw.close();
    fs.rmSync(file, { force: true });
  }
}

/** Held until released; stored here because a garbage-collected handle would drop its lock silently. */
const heldLocks = new Set<BetterSqlite.Database>();

export interface Lock {
  release(): void;
}

/**
 * Every reader of the file may lock it too, and so exclude its owner. Older versions let everybody read it. An existing file is
 * not opened, because closing it would drop the locks that this process has on it.
 */
function keepPrivate(file: string): void {
  const mode = fs.statSync(file, { throwIfNoEntry: false })?.mode;
  if (mode === undefined) fs.closeSync(fs.openSync(file, 'a', 0o600));
  try {
    if (mode !== undefined && (mode & 0o077) !== 0) fs.chmodSync(file, 0o600);
  } catch {
    // A file system without modes.
  }
}

/**
 * Takes the lock that makes this process the only owner; returns undefined if another process has it. Throws `DatabaseFault` if
 * the file cannot be created or written. The kernel releases it when the process ends in any way, so no stale lock can remain.
 */
export function takeLock(file: string): Lock | undefined {
  let raw: BetterSqlite.Database | undefined;
  try {
    keepPrivate(file);
    // With a read-only file, SQLite would report a lock that it does not have.
    fs.accessSync(file, fs.constants.W_OK);
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
