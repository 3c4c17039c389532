import { chmodSync, copyFileSync, existsSync, linkSync, renameSync, rmSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { CompiledQuery, type NotNull, sql, type Transaction } from 'kysely';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { openDatabase } from '../../platform/database/open.ts';
import {
  copyDatabase,
  foldLog,
  markAsCopy,
  OBJECTS,
  readHeader,
  readMigrations,
  readObjects,
  type SchemaObject,
  syncNames,
} from '../../platform/database/sqlite.ts';
import type { Random } from '../../platform/lib/clock.ts';
import type { CheckFile } from '../../platform/lib/integrity.ts';
import { deleteRows, findWorkspace } from '../installation/deletions.ts';
import { type Installation, openInstallationFile, openTables } from '../installation/installation.ts';
import { markWorkspaceUnverified } from '../items/mark-unverified.ts';
import { INSTALLATION_MIGRATIONS, READABLE_SINCE, withReadable } from '../schema/installation-migrations.ts';
import { type Schema, WORKSPACE_TABLES, type WorkspaceTable } from '../schema/tables.ts';
import { countRows, type Sql, scopeOf } from '../workspace-scope.ts';

/** Numbers of rows of one workspace. */
export interface WorkspaceRows {
  readonly name: string;
  readonly deliveries: number;
  readonly items: number;
  readonly tasks: number;
  /** Gateway tokens that are not revoked. */
  readonly tokens: number;
}

interface DatabaseRows {
  readonly workspaces: readonly WorkspaceRows[];
  /** Logged-in browsers. */
  readonly sessions: number;
}

/** The effects of a restore. */
export interface RestorePlan {
  readonly backup: DatabaseRows;
  /** Null if there is no database, or if it cannot be read. */
  readonly present: DatabaseRows | null;
  /** Code and message if the present database cannot be read. */
  readonly presentFault: string | null;
  /** The name under which the present database would be kept; null if it would not be replaced. */
  readonly kept: string | null;
}

/**
 * Checks a backup as a restore does, and counts the rows of the backup and of the present database. Both are read from copies, so
 * nothing is changed. Throws what the restore would throw.
 */
export async function planRestore(restore: Restore, workspace?: string): Promise<RestorePlan> {
  const { file, backup: path } = restore;
  // Another file than the draft of a restore, which may run at the same time.
  const draft = await createDraft(restore, `${file}.trial`);
  try {
    const backup = await rowsIn(draft);
    if (workspace !== undefined && !backup.workspaces.some(({ name }) => name === workspace))
      throw notInBackup(path, workspace);
    const exists = existsSync(file);
    const { rows: present = null, fault: presentFault = null } = exists ? await readPresent(file) : {};
    return { backup, present, presentFault, kept: exists && workspace === undefined ? previousName(file) : null };
  } finally {
    removeDatabase(draft);
  }
}

/** Returns a fault instead of throwing, because a damaged database is a reason to restore. */
async function readPresent(file: string): Promise<{ rows?: DatabaseRows; fault?: string }> {
  const copy = `${file}.planning`;
  removeDatabase(copy);
  try {
    await copyDatabase(file, copy);
    return { rows: await rowsIn(copy) };
  } catch (error) {
    const { code, message } = asSyncError(error);
    return { fault: `${code}: ${message}` };
  } finally {
    removeDatabase(copy);
  }
}

async function rowsIn(file: string): Promise<DatabaseRows> {
  const { query, close } = await openTables({ file });
  try {
    const workspaces = await query
      .selectFrom('workspaces')
      .select('name')
      .select(({ selectFrom, fn }) => {
        const count = fn.countAll<number>();
        return [
          selectFrom('inbox').select(count.as('n')).whereRef('workspace', '=', 'workspaces.id').as('deliveries'),
          selectFrom('items').select(count.as('n')).whereRef('workspace', '=', 'workspaces.id').as('items'),
          selectFrom('tasks').select(count.as('n')).whereRef('workspace', '=', 'workspaces.id').as('tasks'),
          selectFrom('gateway_tokens')
            .select(count.as('n'))
            .whereRef('workspace', '=', 'workspaces.id')
            .where('revoked_at', 'is', null)
            .as('tokens'),
        ];
      })
      .$narrowType<{ deliveries: NotNull; items: NotNull; tasks: NotNull; tokens: NotNull }>()
      .orderBy('name')
      .execute();
    return { workspaces, sessions: await countRows(query.selectFrom('sessions')) };
  } finally {
    await close();
  }
}

export interface Restore {
  /** The backup. It is not modified. */
  readonly backup: string;
  /** The database. No other process has it open. */
  readonly file: string;
  readonly random: Random;
  readonly checkFile: CheckFile;
}

/**
 * Replaces the database with a backup, and keeps the previous file beside it. Items are unverified afterwards; see
 * `mark-unverified.ts`. Throws what `acceptBackup` throws; nothing is changed then.
 *
 * @returns the new name of the previous database; null if there was none
 */
export async function restoreAll(restore: Restore): Promise<string | null> {
  const draft = await createDraft(restore);
  return replaceDatabase(restore.file, draft);
}

/**
 * Restores the rows of one workspace in place of its present rows. All other workspaces stay as they are.
 * Throws `not_found` if the backup contains no such workspace.
 *
 * @returns the number of restored rows
 */
export async function restoreWorkspace(
  installation: Installation,
  workspace: string,
  restore: Omit<Restore, 'file'>,
): Promise<number> {
  const draft = await createDraft({ ...restore, file: installation.file });
  try {
    return await installation.query.connection().execute(async (connection) => {
      await sql`attach database ${draft} as ${sql.id(ATTACHED)}`.execute(connection);
      try {
        return await connection.transaction().execute(async (transaction) => {
          const from = await numberInBackup(transaction, workspace, restore.backup);
          const to = await emptyWorkspace(transaction, workspace);
          const rows = await copyRows(transaction, from, to);
          await markWorkspaceUnverified(transaction, to);
          return rows;
        });
      } finally {
        await sql`detach database ${sql.id(ATTACHED)}`.execute(connection);
      }
    });
  } finally {
    removeDatabase(draft);
  }
}

/**
 * Creates an intact copy of the backup beside the database, in the layout of this version. The copy is marked as one, so opening it
 * marks its items as unverified.
 */
async function createDraft({ backup, file, random, checkFile }: Restore, draft = `${file}.restoring`): Promise<string> {
  removeDatabase(draft);
  try {
    await acceptBackup(backup, draft, checkFile);
    await (await openInstallationFile({ file: draft, random })).close();
    return draft;
  } catch (error) {
    removeDatabase(draft);
    throw error;
  }
}

const LOGS = ['-wal', '-shm'] as const;

function removeDatabase(file: string): void {
  for (const suffix of ['', ...LOGS]) rmSync(file + suffix, { force: true });
}

/**
 * At each moment either the previous database or the new one exists, also after a power failure: without one, the next start would
 * begin with an empty database. SQLite would apply a log of the previous database to the new one, so the log is removed first.
 */
function replaceDatabase(file: string, draft: string): string | null {
  const folder = dirname(file);
  const exists = existsSync(file);
  if (exists) foldLog(file);
  for (const log of LOGS) rmSync(file + log, { force: true });
  const previous = exists ? keepPrevious(file) : null;
  renameSync(draft, file);
  syncNames(folder);
  if (previous !== null) markPrevious(previous);
  return previous;
}

function keepPrevious(file: string): string {
  const previous = previousName(file);
  try {
    // Fails if another process has taken the name meanwhile.
    linkSync(file, previous);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return keepPrevious(file);
    // The file system has no hard links.
    renameSync(file, previous);
  }
  syncNames(dirname(file));
  return previous;
}

/** The suffix of a database that a restore replaced; the next ones also get `.2`, `.3` and so on. */
const PREVIOUS = '.before-restore';

/** Returns the name under which a restore keeps the present database: the first one that is free. */
function previousName(file: string): string {
  for (let number = 1; ; number++) {
    const name = `${file}${PREVIOUS}${number === 1 ? '' : `.${number}`}`;
    if (!existsSync(name)) return name;
  }
}

/** Marks the file as a backup, because it is as old as one if a person restores it or renames it back. */
function markPrevious(file: string): void {
  try {
    markAsCopy(file);
  } catch {
    // It may be damaged. It stays without the mark, for inspection.
  }
}

/** Returns the number of the workspace, after deleting its rows or creating it. */
async function emptyWorkspace(transaction: Sql, workspace: string): Promise<number> {
  const existing = await findWorkspace(transaction, workspace);
  if (existing !== undefined) {
    await deleteRows((piece) => piece(scopeOf(transaction, existing)));
    return existing;
  }
  const created = transaction.insertInto('workspaces').values({ name: workspace }).returning('id');
  return (await created.executeTakeFirstOrThrow()).id;
}

/** The name under which the draft is attached to the database. */
const ATTACHED = 'old';

/** The error for a workspace that a backup does not contain. */
function notInBackup(backup: string, workspace: string): SyncError {
  return new SyncError('not_found', `${backup} contains no workspace "${workspace}"`, {
    hint: '"worksync restore --dry-run <file>" lists the workspaces of a backup.',
  });
}

async function numberInBackup(transaction: Sql, workspace: string, backup: string): Promise<number> {
  const table = sql.table(`${ATTACHED}.workspaces`);
  const { rows } = await sql<{ id: number }>`select id from ${table} where name = ${workspace}`.execute(transaction);
  if (rows[0]) return rows[0].id;
  throw notInBackup(backup, workspace);
}

/**
 * Copies the rows of a workspace from the attached database. Delivery numbers are unique over all workspaces, so the copied
 * deliveries get new numbers after the existing ones.
 *
 * @param from the number of the workspace in the attached database
 * @param to its number in this database
 * @returns the number of copied rows
 */
async function copyRows(transaction: Transaction<Schema>, from: number, to: number): Promise<number> {
  const offset = await lastDelivery(transaction, 'main');
  let rows = 0;
  for (const table of Object.keys(WORKSPACE_TABLES) as WorkspaceTable[])
    rows += await copyTable(transaction, table, { from, to, offset });
  const last = offset + (await lastDelivery(transaction, ATTACHED));
  await sql`update main.sqlite_sequence set seq = max(seq, ${last}) where name = 'inbox'`.execute(transaction);
  return rows;
}

async function copyTable(
  transaction: Transaction<Schema>,
  table: WorkspaceTable,
  { from, to, offset }: { readonly from: number; readonly to: number; readonly offset: number },
): Promise<number> {
  const found = sql<{ name: string }>`select name from pragma_table_info(${table}, ${ATTACHED})`;
  const columns = (await found.execute(transaction)).rows
    .map(({ name }) => name)
    .filter((name) => name !== 'workspace');
  // An older backup lacks this table.
  if (columns.length === 0) return 0;
  const values = columns.map((column) => renumbered(table, column, offset));
  const { numAffectedRows = 0n } = await sql`
    insert into main.${sql.table(table)} (workspace, ${sql.join(columns.map((column) => sql.ref(column)))})
    select ${to}, ${sql.join(values)} from ${sql.table(`${ATTACHED}.${table}`)}
    where workspace = ${from}`.execute(transaction);
  return Number(numAffectedRows);
}

/** Returns the column, with the offset added to each delivery number in it. */
function renumbered(table: WorkspaceTable, column: string, offset: number) {
  if (offset === 0) return sql.ref(column);
  const qualified = `${table}.${column}`;
  if (qualified === 'inbox.id' || qualified === 'fetches.delivery_id') return sql`${sql.ref(column)} + ${offset}`;
  if (qualified === 'outbox.waiting') {
    const moved = sql`json_set(value, '$.id', json_extract(value, '$.id') + ${offset})`;
    return sql`(select json_group_array(json(${moved})) from json_each(waiting))`;
  }
  if (qualified === 'requests.deliveries' || qualified === 'items.deliveries')
    return sql`(select json_group_array(value + ${offset}) from json_each(${sql.ref(column)}))`;
  if (qualified === 'mentions.reason') {
    const delivery = sql`json_extract(reason, '$.delivery')`;
    return sql`iif(${delivery} is null, reason, json_set(reason, '$.delivery', ${delivery} + ${offset}))`;
  }
  return sql.ref(column);
}

/** Returns the highest delivery number that the database ever gave. */
async function lastDelivery(transaction: Transaction<Schema>, database: string): Promise<number> {
  const sequences = sql.table(`${database}.sqlite_sequence`);
  const { rows } = await sql<{ seq: number }>`select seq from ${sequences} where name = 'inbox'`.execute(transaction);
  return rows[0]?.seq ?? 0;
}

/**
 * Copies a backup to a draft, and accepts it only if worksync wrote it. A backup has the mark that `worksync backup` writes into the
 * header (`user_version` 1), and exactly the tables that the migrations of some version create. The backup itself is never opened as
 * a database, so it stays unmodified.
 *
 * Throws `backup_refused`, `database_newer`, `database_too_old`, `database_corrupt`, or `disk_full` if the draft does not fit.
 */
export async function acceptBackup(backup: string, draft: string, checkFile: CheckFile): Promise<void> {
  checkHeader(backup, dirname(draft));
  copyFileSync(backup, draft);
  chmodSync(draft, 0o600);
  await checkSchema(backup, draft);
  const [complaint] = await checkFile(draft);
  if (complaint !== undefined) throw damaged(backup, complaint);
}

/** Checks only the first bytes, because the file may be a device, or larger than the disk. */
function checkHeader(backup: string, folder: string): void {
  let header: ReturnType<typeof readHeader>;
  try {
    header = readHeader(backup);
  } catch (error) {
    throw refused(backup, `it cannot be read: ${(error as Error).message}`, error);
  }
  if (header === undefined) throw refused(backup, 'it is no database file');
  if (!header.isCopy) throw refused(backup, 'it lacks the mark of a backup');
  if (header.bytes !== header.expectedBytes)
    throw damaged(backup, `it has ${header.bytes} bytes, and its header says ${header.expectedBytes}`);
  const { bavail, bsize } = statfsSync(folder);
  if (header.bytes > bavail * bsize)
    throw new SyncError('disk_full', `${backup} has ${header.bytes} bytes, and ${folder} has ${bavail * bsize} free`, {
      hint: 'Free space on the volume of the data folder, and repeat the command. Nothing was changed.',
    });
}

async function checkSchema(backup: string, draft: string): Promise<void> {
  const { migrations, objects } = readSchema(backup, draft);
  const all = Object.keys(INSTALLATION_MIGRATIONS);
  if (migrations.length > 0 && !migrations.includes(all[0] as string))
    throw new SyncError('database_too_old', withReadable(`${backup} has an earlier layout`));
  const known = migrations.filter((name) => all.includes(name));
  const newer = migrations.filter((name) => !all.includes(name));
  if (known.length === 0 || all.slice(0, known.length).join() !== known.join())
    throw refused(backup, 'its tables are of no version of worksync');
  if (newer.length > 0)
    throw new SyncError(
      'database_newer',
      withReadable(`${backup} has migrations that this version does not know: ${newer.join()}`),
      { hint: 'Restore it with the version that made it, or a newer one. Nothing was changed.' },
    );
  const expected = new Set((await objectsAfter(migrations)).map(fingerprint));
  const foreign = objects.filter((each) => !expected.delete(fingerprint(each)) && !OPTIONAL.has(each.name));
  const missing = [...expected].map((text) => text.split('\n')[0] ?? '').filter((name) => !OPTIONAL.has(name));
  if (foreign.length + missing.length === 0) return;
  const differences = [...foreign.map(({ type, name }) => `${type} ${name}`), ...missing.map((name) => `no ${name}`)];
  throw refused(backup, `its tables are not those of worksync: ${differences.slice(0, MAX_NAMED).join(', ')}`);
}

/** Differences named in a message. */
const MAX_NAMED = 5;

/** Objects that only some versions and builds of SQLite create. */
const OPTIONAL: ReadonlySet<string> = new Set(['readable_since', 'sqlite_stat4']);

function readSchema(backup: string, draft: string) {
  try {
    return { objects: readObjects(draft), migrations: readMigrations(draft) };
  } catch (error) {
    if (String((error as { code?: unknown }).code).startsWith('SQLITE_CORRUPT')) throw damaged(backup, String(error));
    throw refused(backup, 'its tables are not those of worksync', error);
  }
}

/** Returns the objects of a database to which exactly these migrations were applied. */
async function objectsAfter(names: readonly string[]): Promise<readonly SchemaObject[]> {
  const migrations = Object.fromEntries(
    Object.entries(INSTALLATION_MIGRATIONS).filter(([name]) => names.includes(name)),
  );
  const database = await openDatabase({ file: ':memory:', migrations, readableSince: READABLE_SINCE });
  try {
    return (await database.query.executeQuery(CompiledQuery.raw(OBJECTS))).rows as SchemaObject[];
  } finally {
    await database.close();
  }
}

/**
 * Returns the text by which two objects are compared, the name in its first line. Tables and indexes are compared by name and
 * columns, because libraries may word the same statement differently. A trigger runs with each write, so its statement counts too.
 */
function fingerprint({ type, name, tbl_name, sql: text, columns }: SchemaObject): string {
  const statement = type === 'trigger' ? (text ?? '').replaceAll(/["`\s]+/g, ' ').toLowerCase() : '';
  return [name, type, tbl_name, columns ?? '', statement].join('\n');
}

function refused(backup: string, reason: string, cause?: unknown): SyncError {
  return new SyncError('backup_refused', `${backup} is no backup of worksync: ${reason}`, { cause });
}

function damaged(backup: string, complaint: string): SyncError {
  return new SyncError('database_corrupt', `${backup}: ${complaint}`, {
    hint: 'The backup is damaged: restore another one. Nothing was changed.',
  });
}
