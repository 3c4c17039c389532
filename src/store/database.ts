import type { Kysely, Transaction } from 'kysely';
import { asSyncError } from '../errors/sync-error.ts';
import { type Database, type OpenOptions, openDatabase } from '../lib/sqlite.ts';
import { MIGRATIONS } from './migrations.ts';
import type { Tables } from './tables.ts';

/** The database of one workspace. */
export type Store = Database<Tables>;

/** What an operation runs on: a transaction, or the store's `query` where a single statement is enough. */
export type Query = Kysely<Tables> | Transaction<Tables>;

/** Opens, checks and brings up to date. Throws `database_newer`, and what a `DatabaseFault` says. */
export async function openStore(options: Omit<OpenOptions, 'migrations'>): Promise<Store> {
  try {
    return await openDatabase<Tables>({ ...options, migrations: MIGRATIONS });
  } catch (error) {
    throw asSyncError(error);
  }
}
