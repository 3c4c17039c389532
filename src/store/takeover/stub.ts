import { closeSync, openSync, readSync, renameSync, rmSync } from 'node:fs';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { openDatabase } from '../../lib/database/open.ts';

/** No version that works with a file for each workspace knows it, so each of them says `database_newer`. */
const STUB = '999_rows_are_in_worksync_db';

/** SQLite's `application_id`, four bytes in the head of the file: stubs are told without being opened, at every start. */
const STUB_ID = 0x77_73_73_74;
const PLACE_OF_ID = 68;

const LOGS = ['-wal', '-shm'] as const;

/** Whether the file stands in the place of one that was taken over. */
export function isStub(file: string): boolean {
  const head = Buffer.alloc(PLACE_OF_ID + 4);
  const opened = openSync(file, 'r');
  try {
    const length = readSync(opened, head, 0, head.length, 0);
    return length === head.length && head.readUInt32BE(PLACE_OF_ID) === STUB_ID;
  } finally {
    closeSync(opened);
  }
}

/** Puts a database without rows where one stood that was taken over: whole, or not at all. */
export async function writeStub(file: string): Promise<void> {
  const draft = `${file}.stub`;
  for (const path of ['', ...LOGS].map((end) => draft + end)) rmSync(path, { force: true });
  const stub: Migration = { up: async () => undefined };
  const database = await openDatabase({ file: draft, migrations: { [STUB]: stub } });
  await sql`pragma application_id = ${sql.lit(STUB_ID)}`.execute(database.query);
  await database.close();
  // A log that is left of the file before is not this one's.
  for (const end of LOGS) rmSync(file + end, { force: true });
  renameSync(draft, file);
}
