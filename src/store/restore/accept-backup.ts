import { chmodSync, copyFileSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { sql } from 'kysely';
import { SyncError } from '../../model/errors/sync-error.ts';
import { openDatabase } from '../../platform/database/open.ts';
import { readHeader, readMigrations, readObjects, type SchemaObject } from '../../platform/database/sqlite.ts';
import type { CheckFile } from '../../platform/lib/integrity.ts';
import { INSTALLATION_MIGRATIONS, READABLE_SINCE, withReadable } from '../schema/installation-migrations.ts';

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
  const header = headerOf(backup);
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

function headerOf(backup: string) {
  try {
    return readHeader(backup);
  } catch (error) {
    throw refused(backup, `it cannot be read: ${(error as Error).message}`, error);
  }
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
      {
        hint: 'Restore it with the version that made it, or a newer one. Nothing was changed.',
      },
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
    const objects = sql<SchemaObject>`select type, name, tbl_name, sql,
      (select group_concat(name) from pragma_table_xinfo(sqlite_schema.name)) as columns from sqlite_schema`;
    return (await objects.execute(database.query)).rows;
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
