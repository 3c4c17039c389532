import { copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { openDatabase } from '../../../src/platform/database/open.ts';
import { complaintsOf, copyDatabase, markAsCopy } from '../../../src/platform/database/sqlite.ts';
import { systemClock } from '../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { createWorkspaceService } from '../../../src/reference-service/service.ts';
import { openInstallationFile } from '../../../src/store/installation.ts';
import { acceptBackup } from '../../../src/store/restore/accept-backup.ts';
import { INSTALLATION_MIGRATIONS, READABLE_SINCE } from '../../../src/store/schema/installation-migrations.ts';
import { folderOfTest } from '../../support/harness/folder.ts';

async function backupIn(folder: string): Promise<string> {
  const { file, close } = await openInstallationFile({ file: join(folder, 'own.db'), random: systemRandom() });
  await close();
  const backup = join(folder, 'backup.db');
  await copyDatabase(file, backup);
  return backup;
}

function accept(backup: string): Promise<void> {
  const draft = join(folderOfTest('draft'), 'worksync.db.restoring');
  return acceptBackup(backup, draft, async (file) => complaintsOf(file));
}

/** Runs a statement in a database, without changing the mark of a backup. */
function execute(file: string, statement: string): void {
  const raw = new BetterSqlite(file);
  raw.exec(statement);
  raw.close();
}

it('accepts a backup and does not modify it', async () => {
  const folder = folderOfTest('backup');
  const backup = await backupIn(folder);
  const before = readFileSync(backup);
  await accept(backup);
  expect(readFileSync(backup).equals(before)).toBe(true);
  expect(existsSync(`${backup}-wal`)).toBe(false);
});

it.each(Object.keys(INSTALLATION_MIGRATIONS))('accepts the backup of a version that ended with %s', async (last) => {
  const file = join(folderOfTest('backup'), 'older.db');
  const names = Object.keys(INSTALLATION_MIGRATIONS).filter((name) => name <= last);
  const migrations = Object.fromEntries(names.map((name) => [name, INSTALLATION_MIGRATIONS[name] as never]));
  await (await openDatabase({ file, migrations })).close();
  markAsCopy(file);
  await expect(accept(file)).resolves.toBeUndefined();
});

it.each<readonly [string, (file: string) => unknown]>([
  ['an empty file', (file) => writeFileSync(file, '')],
  ['text', (file) => writeFileSync(file, 'no database at all '.repeat(1_000))],
  ['a directory', (file) => mkdirSync(file)],
  ['an endless device', (file) => symlinkSync('/dev/zero', file)],
  ['a foreign database', (file) => execute(file, 'create table notes (text); pragma user_version = 1')],
  ['a foreign database with a table of migrations', (file) => execute(file, FOREIGN)],
  ['a database in use, which has no mark', (file) => copyFileSync(join(file, '..', 'own.db'), file)],
  ['a trigger', (file) => changedBackup(file, 'create trigger evil after insert on meta begin delete from inbox; end')],
  ['a trigger of worksync with another statement', (file) => changedBackup(file, CHANGED_TRIGGER)],
  ['a view', (file) => changedBackup(file, 'create view evil as select * from meta')],
  ['an index', (file) => changedBackup(file, 'create index evil on meta (value)')],
  ['a table', (file) => changedBackup(file, 'create table evil (text)')],
  ['another column', (file) => changedBackup(file, 'alter table meta add column evil text')],
  ['a missing table', (file) => changedBackup(file, 'drop table polls')],
])('refuses %s', async (_what, make) => {
  const folder = folderOfTest('backup');
  await backupIn(folder);
  const file = join(folder, 'given.db');
  await make(file);
  await expect(accept(file)).rejects.toMatchObject({
    code: 'backup_refused',
    hint: 'Give a file that "worksync backup" wrote. Nothing was changed.',
  });
});

const FOREIGN = `create table kysely_migration (name text, timestamp text);
  insert into kysely_migration values ('001_schema', ''); pragma user_version = 1`;

const CHANGED_TRIGGER = `drop trigger items_counted_in;
  create trigger items_counted_in after insert on items begin delete from inbox; end`;

function changedBackup(file: string, statement: string): void {
  copyFileSync(join(file, '..', 'backup.db'), file);
  execute(file, statement);
}

it('refuses the database of the reference service, also with the mark of a backup', async () => {
  const file = join(folderOfTest('backup'), 'team.service.db');
  const service = await createWorkspaceService({
    file,
    clock: systemClock(),
    random: systemRandom(),
    logger: silentLogger,
    quota: NO_QUOTA,
  });
  await service.close();
  await expect(accept(file)).rejects.toMatchObject({ code: 'backup_refused' });
  markAsCopy(file);
  await expect(accept(file)).rejects.toMatchObject({ code: 'backup_refused' });
});

it('refuses the backup of a version before the first release, and does not modify it', async () => {
  const file = join(folderOfTest('backup'), 'older.db');
  await (await openDatabase({ file, migrations: { '001_sessions': { up: async () => undefined } } })).close();
  markAsCopy(file);
  const before = readFileSync(file);
  await expect(accept(file)).rejects.toMatchObject({ code: 'database_too_old' });
  expect(readFileSync(file).equals(before)).toBe(true);
});

it('refuses the backup of a newer version, with a hint to use that version', async () => {
  const file = join(folderOfTest('backup'), 'newer.db');
  const newer = { ...INSTALLATION_MIGRATIONS, '999_newer': { up: async () => undefined } };
  const database = await openDatabase({ file, migrations: newer, readableSince: READABLE_SINCE });
  await sql`pragma user_version = 1`.execute(database.query);
  await database.close();
  await expect(accept(file)).rejects.toMatchObject({
    code: 'database_newer',
    hint: expect.stringContaining('version that made it'),
  });
});

it.each<readonly [string, (file: string) => void]>([
  ['truncated', (file) => truncateSync(file, 8_192)],
  ['longer than its header states', (file) => truncateSync(file, 2 ** 40)],
  [
    'overwritten in the middle',
    (file) => {
      const content = readFileSync(file);
      content.fill(0xff, 8_192, content.length - 8_192);
      writeFileSync(file, content);
    },
  ],
])('reports a backup as damaged that is %s', async (_what, damage) => {
  const backup = await backupIn(folderOfTest('backup'));
  damage(backup);
  await expect(accept(backup)).rejects.toMatchObject({
    code: 'database_corrupt',
    hint: expect.stringContaining('restore another one'),
  });
});

it('refuses a backup that does not fit on the volume', async () => {
  const file = join(folderOfTest('backup'), 'huge.db');
  const header = Buffer.alloc(100);
  header.write('SQLite format 3\0', 'latin1');
  header.writeUInt16BE(1, 16);
  header.writeUInt32BE(2 ** 30, 28);
  header.writeUInt32BE(1, 60);
  writeFileSync(file, header);
  truncateSync(file, 65_536 * 2 ** 30);
  await expect(accept(file)).rejects.toMatchObject({ code: 'disk_full' });
});

const NO_QUOTA = { requests: 0, window: 1, burst: 0, burstWindow: 1 };
