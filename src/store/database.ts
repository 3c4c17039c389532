import type { Kysely, Transaction } from 'kysely';
import { SyncError } from '../errors/sync-error.ts';
import {
  CorruptDatabaseError,
  type Database,
  NewerDatabaseError,
  type OpenOptions,
  openDatabase,
} from '../lib/sqlite.ts';
import { MIGRATIONS } from './migrations.ts';
import type { Tables } from './tables.ts';

/** The database of one workspace. */
export type Store = Database<Tables>;

/** What an operation runs on: a transaction, or the store's `query` where a single statement is enough. */
export type Query = Kysely<Tables> | Transaction<Tables>;

/** Opens, checks and brings up to date. Throws `database_newer`, `database_corrupt`, `disk_full`, `database_failed`. */
export async function openStore(options: Omit<OpenOptions, 'migrations'>): Promise<Store> {
  try {
    return await openDatabase<Tables>({ ...options, migrations: MIGRATIONS });
  } catch (error) {
    throw storeError(error, options.file);
  }
}

/** What went wrong with a database, as a SyncError; others pass through. */
export function storeError(error: unknown, file: string): unknown {
  if (error instanceof SyncError) return error;
  if (error instanceof NewerDatabaseError) return new SyncError('database_newer', error.message, { cause: error });
  if (error instanceof CorruptDatabaseError) return new SyncError('database_corrupt', error.message, { cause: error });
  const code = (error as { code?: string }).code ?? '';
  if (code === 'SQLITE_FULL')
    return new SyncError('disk_full', `no space left for ${file}`, {
      cause: error,
    });
  if (code.startsWith('SQLITE_CORRUPT') || code.startsWith('SQLITE_NOTADB'))
    return new SyncError('database_corrupt', `${file} is damaged`, {
      cause: error,
    });
  if (code.startsWith('SQLITE_'))
    return new SyncError('database_failed', `${file}: ${code}`, {
      cause: error,
    });
  return error;
}
