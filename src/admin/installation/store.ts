import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { SERVICE_DATABASE } from '../../platform/config/daemon-options.ts';
import type { Database } from '../../platform/database/database-types.ts';
import { isPostgres } from '../../platform/database/postgres-address.ts';
import { isMemoryFolder } from '../../platform/lib/folders.ts';
import { checkInWorker } from '../../platform/lib/integrity.ts';
import { counted } from '../../platform/lib/quantities.ts';
import {
  type CopiedName,
  type CopyProgress,
  copyStore,
  giveUpCopy,
  type StoredRow,
} from '../../store/copy/copy-store.ts';
import { acquireDataFolder, INSTALLATION_FILE, openTables } from '../../store/installation/installation.ts';
import { replicasOf } from '../../store/installation/leases.ts';
import type { Schema } from '../../store/schema/tables.ts';
import { rebaseFact, rebaseMonotonic } from '../../sync/quota/window-ledger.ts';
import { noteAct } from '../access/audit.ts';
import type { Who } from './data.ts';

/** Moves everything from SQLite to PostgreSQL, or back, for a person. No daemon may run on either. */

/**
 * Copies the rows of all workspaces into an empty database, and compares both. The source stays unchanged. If the process is
 * killed, the same call continues the copy.
 *
 * @param from a data folder, its `worksync.db`, or an address that begins with `postgres://`
 * @param to the same
 * @returns both addresses without passwords, and the remaining steps in sentences
 *
 * Throws `not_found` if there is nothing to copy, `locked` while a daemon runs on either, `conflict` if the target has rows of
 * its own or differs in the end.
 */
export async function moveStore(from: string, to: string, who: Who, tell: (progress: CopyProgress) => void) {
  const [fromPlace, toPlace] = [placeOf(from), placeOf(to)];
  if (fromPlace.address === toPlace.address) throw new SyncError('usage', 'both places are the same database');
  await checkSource(fromPlace);
  return withStore({ ...fromPlace, existing: true }, (source) =>
    withStore(toPlace, async (target) => {
      const subject = `${source.file} to ${target.file}`;
      const act = { actor: who.actor, action: 'store-copy', workspace: null, subject };
      const tables = await copyStore({
        ...{ source, target, carry: carried, tell },
        async done(transaction, rows) {
          await refuseLiving(source);
          await noteAct({ query: transaction, clock: who.clock }, act, 'done', rows);
        },
      });
      const rows = tables.reduce((sum, each) => sum + each.rows, 0);
      return { from: source.file, to: target.file, rows, tables, next: leftToDo(fromPlace, toPlace, source.file) };
    }),
  );
}

/** Deletes the rows of an unfinished copy. Throws `conflict` if there is none. @returns the number of deleted rows */
export function giveUpMove(to: string): Promise<number> {
  return withStore({ ...placeOf(to), existing: true }, giveUpCopy);
}

interface Place {
  readonly address: string;
  /** The data folder; absent: the database is on a server. */
  readonly folder?: string;
  /** Whether it must exist; otherwise it is created. */
  readonly existing?: boolean;
}

function placeOf(text: string): Place {
  if (isPostgres(text)) return { address: text };
  const path = resolve(text);
  const folder = basename(path) === INSTALLATION_FILE ? dirname(path) : path;
  if (text.startsWith(':memory:') || isMemoryFolder(folder))
    throw new SyncError('usage', 'data in memory end with their process: name a data folder');
  return { address: join(folder, INSTALLATION_FILE), folder };
}

function refuseMissing({ address, folder }: Place): void {
  if (folder !== undefined && !existsSync(address))
    throw new SyncError('not_found', `there is no database at ${address}`, {
      hint: 'Name a data folder that a daemon has used, or the address of a PostgreSQL database.',
    });
}

async function checkSource({ address, folder }: Place): Promise<void> {
  if (folder === undefined) return;
  refuseMissing({ address, folder });
  const [complaint] = await checkInWorker(address);
  if (complaint !== undefined) throw new SyncError('database_corrupt', `${address}: ${complaint}`);
}

/** Locks the database while the work runs. Throws `locked` while a daemon works on it. */
async function withStore<Result>(place: Place, work: (database: Database<Schema>) => Promise<Result>): Promise<Result> {
  if (place.existing) refuseMissing(place);
  const owned = place.folder === undefined ? undefined : acquireDataFolder(place.folder);
  try {
    const database = await openTables({ file: place.address, existing: place.existing });
    try {
      await refuseLiving(database);
      return await work(database);
    } finally {
      await database.close();
    }
  } catch (error) {
    throw asSyncError(error);
  } finally {
    owned?.release();
  }
}

/** A data folder has a lock; on a server, the processes register themselves. */
async function refuseLiving({ query, asServer, file }: Database<Schema>): Promise<void> {
  if (!asServer) return;
  const { now } = await asServer.time();
  const living = (await replicasOf(query)).find(({ expires_at: expiresAt }) => expiresAt > now);
  if (!living) return;
  throw new SyncError('locked', `${file}: the worksync at ${living.address} works on it`, {
    hint: 'Stop every worksync that works on this database, and repeat the command.',
  });
}

/** Monotonic times of one boot are meaningless in another. */
function carried(table: CopiedName, row: StoredRow): StoredRow {
  if (table === 'ledger') return { ...row, boot: rebaseMonotonic(String(row['boot'])) };
  if (table === 'meta') return { ...row, value: rebaseFact(String(row['name']), String(row['value'])) };
  return row;
}

function leftToDo(from: Place, to: Place, described: string): readonly string[] {
  const services =
    from.folder === undefined ? [] : readdirSync(from.folder).filter((name) => name.endsWith(SERVICE_DATABASE));
  return [
    `Start worksync on the new database, and never again on ${described}: two that run share the quota and do not know of each other.`,
    keyToMove(from, to),
    ...(services.length === 0
      ? []
      : [
          `${counted(services.length, 'database')} of the embedded service were not copied: ${services.join(', ')}. Keep them in the data folder of the worksync that serves those workspaces.`,
        ]),
  ];
}

function keyToMove(from: Place, to: Place): string {
  const key = `${from.address}.key`;
  if (from.folder === undefined || !existsSync(key))
    return 'Stored secrets stay encrypted with their key: give worksync the same WORKSYNC_SECRET_KEY as before.';
  const place =
    to.folder === undefined
      ? 'give its content to every worksync as WORKSYNC_SECRET_KEY'
      : `copy it to ${to.address}.key`;
  return `Stored secrets stay encrypted with the key in ${key}: ${place}.`;
}
