import { existsSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { sql, type Transaction } from 'kysely';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { OpenOptions } from '../../lib/database/database-types.ts';
import { openDatabase } from '../../lib/database/open.ts';
import { ATTACHED, copyRows } from '../copy-rows.ts';
import { INSTALLATION_FILE, type Installation } from '../installation.ts';
import type { Schema, Tables } from '../tables.ts';
import { OLD_MIGRATIONS } from './old-migrations.ts';
import { isStub, writeStub } from './stub.ts';

/**
 * Imports the old file of one workspace's rows, from before `worksync.db` had those of all.
 *
 * Its rows are copied in one transaction, which also notes that this was done; then the file gets another name, and a stub
 * takes its place, so that an older version says `database_newer` instead of starting with an empty ledger. Killed at any
 * point, the next call goes on.
 */
export async function takeOver(
  installation: Installation,
  { workspace, file, checkFile }: OldFile,
): Promise<TakenOver> {
  const kept = keptName(file);
  if (existsSync(kept) && !existsSync(file)) {
    await writeStub(file);
    return { rows: 0 };
  }
  try {
    if (isStub(file)) return { rows: 0 };
    const [complaint] = checkFile ? await checkFile(file) : [];
    if (complaint !== undefined) throw new SyncError('database_corrupt', `${file}: ${complaint}`);
    // Brings it to the last layout of its kind, and its log into the file itself.
    await (await openDatabase<Tables>({ file, migrations: OLD_MIGRATIONS })).close();
    const rows = (await wasCopied(installation, workspace)) ? 0 : await copy(installation, workspace, file);
    if (existsSync(kept)) throw twice(file, kept);
    renameSync(file, kept);
    await writeStub(file);
    return { rows };
  } catch (error) {
    throw asSyncError(error);
  }
}

export interface OldFile {
  readonly workspace: string;
  readonly file: string;
  /** Reads the whole file first: what is damaged stays out. */
  readonly checkFile?: OpenOptions['checkFile'];
}

export interface TakenOver {
  /** How many rows were copied. */
  readonly rows: number;
}

/** Beside a workspace's database stood that of its reference service, which stays where it is. */
const OLD_FILE = /^([^.]+)\.db(?:\.taken-over)?$/;

/** The workspaces of a data folder that have, or once had, a file of their own. */
export function oldWorkspaces(folder: string): readonly string[] {
  const names = readdirSync(folder)
    .filter((name) => name !== INSTALLATION_FILE)
    .flatMap((name) => OLD_FILE.exec(name)?.[1] ?? []);
  return [...new Set(names)].sort();
}

/** Those of them whose rows are still there, and nowhere else. */
export function workspacesInOldFiles(folder: string): readonly string[] {
  return oldWorkspaces(folder).filter((workspace) => {
    const file = join(folder, `${workspace}.db`);
    return existsSync(file) && !isStub(file);
  });
}

/** What the file is called once its rows are in `worksync.db`; worksync never reads it again. */
export function keptName(file: string): string {
  return `${file}.taken-over`;
}

async function copy(installation: Installation, workspace: string, file: string): Promise<number> {
  return installation.query.connection().execute(async (connection) => {
    await sql`attach database ${file} as ${sql.id(ATTACHED)}`.execute(connection);
    try {
      return await connection.transaction().execute(async (transaction) => {
        const number = await numberOf(transaction, workspace, file);
        const rows = await copyRows(transaction, { to: number });
        await transaction
          .insertInto('installation')
          .values({ name: factOf(workspace), value: file })
          .execute();
        return rows;
      });
    } finally {
      await sql`detach database ${sql.id(ATTACHED)}`.execute(connection);
    }
  });
}

async function numberOf(transaction: Transaction<Schema>, name: string, file: string): Promise<number> {
  const known = await transaction.selectFrom('workspaces').select('id').where('name', '=', name).executeTakeFirst();
  if (known) throw twice(file, 'worksync.db');
  const { id } = await transaction.insertInto('workspaces').values({ name }).returning('id').executeTakeFirstOrThrow();
  return id;
}

async function wasCopied({ query }: Installation, workspace: string): Promise<boolean> {
  const noted = query.selectFrom('installation').select('name').where('name', '=', factOf(workspace));
  return (await noted.executeTakeFirst()) !== undefined;
}

function factOf(workspace: string): string {
  return `taken-over.${workspace}`;
}

function twice(file: string, other: string): SyncError {
  const hint = `worksync keeps the rows of all workspaces in worksync.db now. Move ${file} out of the data folder.`;
  return new SyncError('database_failed', `${file} contains rows of a workspace that ${other} contains too`, { hint });
}
