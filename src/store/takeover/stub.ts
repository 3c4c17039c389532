import { renameSync, rmSync, statSync } from 'node:fs';
import type { Migration } from 'kysely/migration';
import { openDatabase } from '../../lib/sqlite.ts';

/** No version that works with a file for each workspace knows it, so each of them says `database_newer`. */
const STUB = '999_rows_are_in_worksync_db';

/** Bytes. An old database has two dozen tables and indexes of a page each; a stub has a handful. */
const SMALLEST_OLD = 65_536;

const LOGS = ['-wal', '-shm'] as const;

/** Whether there may be rows in it: told by its size alone, since every start asks this of every workspace. */
export function holdsRows(file: string): boolean {
  return sizeOf(file) + sizeOf(`${file}-wal`) >= SMALLEST_OLD;
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Puts a database without rows where one stood that was taken over: whole, or not at all. */
export async function writeStub(file: string): Promise<void> {
  const draft = `${file}.stub`;
  for (const path of ['', ...LOGS].map((end) => draft + end)) rmSync(path, { force: true });
  const stub: Migration = { up: async () => undefined };
  await (await openDatabase({ file: draft, migrations: { [STUB]: stub } })).close();
  // A log that is left of the file before is not this one's.
  for (const end of LOGS) rmSync(file + end, { force: true });
  renameSync(draft, file);
}
