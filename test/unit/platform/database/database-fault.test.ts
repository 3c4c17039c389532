import { closeSync, copyFileSync, openSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type DatabaseFault, faultOf } from '../../../../src/platform/database/database-fault.ts';
import type { Database } from '../../../../src/platform/database/database-types.ts';
import { openDatabase } from '../../../../src/platform/database/open.ts';
import { CAN_LIMIT_FILES, limitFiles } from '../../../support/faults/file-limit.ts';
import { CAN_MOUNT, mountSmallVolume } from '../../../support/faults/small-volume.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';

interface Notes {
  notes: { id: number; text: string };
}

const NOTES: Migration = {
  async up(db) {
    const notes = db.schema.createTable('notes').addColumn('id', 'integer', (column) => column.primaryKey());
    await notes.addColumn('text', 'text', (column) => column.notNull()).execute();
  },
};

const tempFolder = () => folderOfTest('fault');

/** A database and what it told of itself: each kind of fault, and `well` when one has passed. */
async function open(file = join(tempFolder(), 'test.db')) {
  const told: string[] = [];
  const onFault = (fault: DatabaseFault | undefined) => void told.push(fault?.kind ?? 'well');
  const database = await openDatabase<Notes>({ file, migrations: { '001_notes': NOTES }, onFault });
  onTestFinished(() => database.close());
  return { file, database, told };
}

const note = ({ query }: Pick<Database<Notes>, 'query'>, id: number, length = 10) =>
  query
    .insertInto('notes')
    .values({ id, text: 'x'.repeat(length) })
    .execute();

const count = async ({ query }: Pick<Database<Notes>, 'query'>) =>
  (await query.selectFrom('notes').select('id').execute()).length;

describe('what SQLite says of a file', () => {
  const failing = (code: string) => Object.assign(new Error('it says so'), { code });

  it.each<[kind: string, registered: string, codes: readonly string[]]>([
    ['full', 'disk_full', ['SQLITE_FULL', 'ENOSPC']],
    [
      'corrupt',
      'database_corrupt',
      ['SQLITE_CORRUPT', 'SQLITE_CORRUPT_INDEX', 'SQLITE_NOTADB', 'SQLITE_IOERR_SHORT_READ'],
    ],
    ['failed', 'database_corrupt', ['SQLITE_IOERR_WRITE', 'SQLITE_IOERR_READ', 'EIO']],
    ['busy', 'database_failed', ['SQLITE_IOERR_NOMEM', 'EMFILE', 'SQLITE_BUSY']],
    ['denied', 'data_folder_unusable', ['SQLITE_READONLY', 'SQLITE_READONLY_DBMOVED', 'SQLITE_CANTOPEN']],
  ])('is %s, with the code %s: %j', (kind, registered, codes) => {
    for (const code of codes) {
      const cause = failing(code);
      const fault = faultOf(cause, '/somewhere/test.db');
      expect(fault).toMatchObject({ kind, code: registered, cause });
      expect(fault?.message).toBe(`/somewhere/test.db: it says so (${code})`);
    }
  });

  it.each(['SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_ERROR', 'SQLITE_MISUSE', 'ECONNRESET', undefined])(
    '%s is none',
    (code) => {
      expect(faultOf(failing(code as string), 'test.db')).toBeUndefined();
    },
  );
});

describe('a full disk', () => {
  /** Without a volume of one's own the file is kept from growing, which SQLite answers alike. */
  async function openFull() {
    const volume = CAN_MOUNT ? mountSmallVolume(1_048_576) : undefined;
    if (volume) onTestFinished(volume.remove);
    const opened = await open(join(volume?.path ?? tempFolder(), 'test.db'));
    await note(opened.database, 1);
    volume?.fill();
    if (volume) return { ...opened, free: volume.free };
    const limit = (pages: number) => sql.raw(`PRAGMA max_page_count = ${pages}`).execute(opened.database.query);
    await limit(1);
    return { ...opened, free: () => void limit(1_073_741_823) };
  }

  it('is known from the statement that meets it, told once, and over with the next write', async () => {
    const { database, told, free } = await openFull();
    for (let id = 10; id < 13; id++)
      await expect(note(database, id, 900_000)).rejects.toMatchObject({ kind: 'full', code: 'disk_full' });
    expect(told).toEqual(['full']);
    await database.commit((transaction) => count({ query: transaction }));
    expect(database.fault()).toMatchObject({ kind: 'full' });
    free();
    await note(database, 2);
    expect(told).toEqual(['full', 'well']);
    expect(database.fault()).toBeUndefined();
    expect(await count(database)).toBe(2);
  });

  it('is over by a probe, where nobody else writes', async () => {
    const { database, told, free } = await openFull();
    await expect(note(database, 10, 900_000)).rejects.toMatchObject({ kind: 'full' });
    free();
    database.probe();
    expect(told).toEqual(['full', 'well']);
  });

  it('in the middle of a transaction is told as it is, and nothing of it is kept', async () => {
    const { database, free } = await openFull();
    const half = database.commit(async (transaction) => {
      await note({ query: transaction }, 20);
      // SQLite has ended the transaction now: what follows must not be a commit of its own.
      await note({ query: transaction }, 21, 900_000).catch(() => undefined);
      await note({ query: transaction }, 22);
    });
    await expect(half).rejects.toMatchObject({ code: 'disk_full' });
    free();
    expect(await count(database)).toBe(1);
    await database.commit((transaction) => note({ query: transaction }, 23));
    expect(await count(database)).toBe(2);
  });
});

describe('a disk that does not write', () => {
  it.runIf(CAN_LIMIT_FILES)('is corrupt at once, and over by a probe when it writes again', async () => {
    const { database, told } = await open();
    await note(database, 1);
    limitFiles(8_192);
    try {
      for (const id of [2, 3])
        await expect(note(database, id)).rejects.toMatchObject({ kind: 'failed', code: 'database_corrupt' });
      database.probe();
      expect(told).toEqual(['failed']);
      expect(database.fault()?.hint).toMatch(/^The disk cannot read or write/);
    } finally {
      limitFiles('unlimited');
    }
    database.probe();
    expect(told).toEqual(['failed', 'well']);
    await note(database, 4);
    expect(await count(database)).toBe(2);
  });
});

describe('a file that is gone', () => {
  it.each(['test.db', 'test.db-wal'])('is noticed by a look: %s', async (name) => {
    const { file, database, told } = await open();
    await note(database, 1);
    expect(database.checkFileReplaced()).toBeUndefined();
    rmSync(join(file, '..', name));
    expect(database.checkFileReplaced()).toMatchObject({ kind: 'gone', code: 'database_corrupt' });
    expect(database.checkFileReplaced()?.message).toContain(`${name} was deleted or replaced`);
    expect(told).toEqual(['gone']);
  });

  it('or replaced takes no write any more, and no probe proves otherwise', async () => {
    const { file, database, told } = await open();
    await note(database, 1);
    copyFileSync(file, `${file}.other`);
    renameSync(`${file}.other`, file);
    database.checkFileReplaced();
    database.probe();
    await expect(note(database, 2)).rejects.toMatchObject({ kind: 'gone' });
    await expect(database.commit(async () => undefined)).rejects.toMatchObject({ kind: 'gone' });
    expect(await count(database)).toBe(1);
    expect(told).toEqual(['gone']);
  });

  it('is not suspected while it only grows, is checkpointed and backed up', async () => {
    const { file, database, told } = await open();
    for (let id = 0; id < 50; id++) await note(database, id, 50_000);
    await sql.raw('PRAGMA wal_checkpoint(TRUNCATE)').execute(database.query);
    await database.asFile?.backup(`${file}.copy`);
    await note(database, 100);
    expect(database.checkFileReplaced()).toBeUndefined();
    expect(told).toEqual([]);
  });
});

describe('a damaged file', () => {
  /** Writes noise over a page of rows, as a failing disk does; what SQLite keeps in memory is dropped. */
  async function damage({ file, database }: Awaited<ReturnType<typeof open>>): Promise<void> {
    for (let id = 0; id < 40; id++) await note(database, id, 3_000);
    await sql.raw('PRAGMA wal_checkpoint(TRUNCATE)').execute(database.query);
    const pages = statSync(file).size / 4_096;
    const disk = openSync(file, 'r+');
    for (let page = 2; page < pages; page++) writeSync(disk, Buffer.alloc(4_096, 0xa5), 0, 4_096, page * 4_096);
    closeSync(disk);
    await sql.raw('PRAGMA shrink_memory').execute(database.query);
  }

  it('is known from the first read that meets it, and takes no write from then on', async () => {
    const opened = await open();
    await damage(opened);
    const { database, told } = opened;
    await expect(count(database)).rejects.toMatchObject({ kind: 'corrupt', code: 'database_corrupt' });
    await expect(note(database, 100)).rejects.toMatchObject({ kind: 'corrupt' });
    database.probe();
    expect(told).toEqual(['corrupt']);
  });
});

describe('an error of a statement', () => {
  it('stays what it is, and is no fault of the file', async () => {
    const { database, told } = await open();
    await note(database, 1);
    await expect(note(database, 1)).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT_PRIMARYKEY' });
    expect([database.fault(), told]).toEqual([undefined, []]);
  });
});
