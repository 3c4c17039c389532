import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { type Kysely, sql, type Transaction } from 'kysely';
import type { Migration } from 'kysely/migration';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type DatabaseFault, faultOf } from '../../../../src/platform/database/database-fault.ts';
import {
  type Database,
  NewerDatabaseError,
  type OpenOptions,
} from '../../../../src/platform/database/database-types.ts';
import { openDatabase } from '../../../../src/platform/database/open.ts';
import { complaintsOf, copyDatabase, takeLock } from '../../../../src/platform/database/sqlite.ts';
import { yieldToEventLoop } from '../../../../src/platform/lib/concurrency.ts';
import { CAN_MOUNT, mountSmallVolume } from '../../../support/faults/small-volume.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';

interface Notes {
  notes: { id: number; text: string };
}

const FIRST: Migration = {
  async up(db) {
    await db.schema
      .createTable('notes')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('text', 'text', (column) => column.notNull())
      .execute();
  },
};

const tempFolder = () => folderOfTest('sqlite');

async function open(options: Partial<OpenOptions> = {}): Promise<Database<Notes>> {
  const file = options.file ?? join(tempFolder(), 'test.db');
  const database = await openDatabase<Notes>({ migrations: { '001_first': FIRST }, ...options, file });
  onTestFinished(() => database.close());
  return database;
}

async function namesOf(database: Database<Notes>): Promise<string[]> {
  const rows = await database.query
    .withTables<{ sqlite_schema: { name: string } }>()
    .selectFrom('sqlite_schema')
    .select('name')
    .execute();
  return rows.map(({ name }) => name);
}

describe('a database as it is opened', () => {
  it('does not wait for the disk in a relaxed commit, and does so again after it, however it ended', async () => {
    const database = await open();
    const level = async (on: Kysely<Notes> | Transaction<Notes>) =>
      (await sql<{ synchronous: number }>`pragma synchronous`.execute(on)).rows[0]?.synchronous;
    const during = await database.commitRelaxed(async (transaction) => {
      await transaction.insertInto('notes').values({ id: 1, text: 'a' }).execute();
      return level(transaction);
    });
    expect(during).toBe(1);
    expect(await level(database.query)).toBe(2);
    const failing = database.commitRelaxed(async (transaction) => {
      await transaction.insertInto('notes').values({ id: 2, text: 'b' }).execute();
      throw new Error('changed its mind');
    });
    await expect(failing).rejects.toThrow('changed its mind');
    expect(await level(database.query)).toBe(2);
    expect(await database.query.selectFrom('notes').select('id').execute()).toEqual([{ id: 1 }]);
  });

  it('keeps everybody else out of a relaxed commit', async () => {
    const database = await open();
    const levels: (number | undefined)[] = [];
    const look = async (on: Kysely<Notes> | Transaction<Notes>) => {
      const { rows } = await sql<{ synchronous: number }>`pragma synchronous`.execute(on);
      levels.push(rows[0]?.synchronous);
    };
    await Promise.all([
      database.commitRelaxed((transaction) => look(transaction)),
      database.commit((transaction) => look(transaction)),
      look(database.query),
      database.commitRelaxed((transaction) => look(transaction)),
      database.commit((transaction) => look(transaction)),
    ]);
    expect(levels).toEqual([1, 2, 2, 1, 2]);
  });

  it('lies in files that only this user may read', async () => {
    const folder = tempFolder();
    const database = await open({ file: join(folder, 'test.db') });
    await database.query.insertInto('notes').values({ id: 1, text: 'a' }).execute();
    expect(readdirSync(folder).length).toBeGreaterThan(1);
    for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
  });

  it('keeps what was committed and nothing of what threw', async () => {
    const file = join(tempFolder(), 'test.db');
    const first = await openDatabase<Notes>({ file, migrations: { '001_first': FIRST } });
    await first.commit((transaction) => transaction.insertInto('notes').values({ id: 1, text: 'a' }).execute());
    const failing = first.commit(async (transaction) => {
      await transaction.insertInto('notes').values({ id: 2, text: 'b' }).execute();
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    await first.close();
    const second = await open({ file });
    expect(await second.query.selectFrom('notes').selectAll().execute()).toEqual([{ id: 1, text: 'a' }]);
    expect(second.size()).toBeGreaterThan(4_096);
  });
});

describe('migrations', () => {
  it('that fail half-way leave nothing, and can be run again', async () => {
    const file = join(tempFolder(), 'test.db');
    const failing: Migration = {
      async up(db) {
        await FIRST.up(db);
        throw new Error('half-way');
      },
    };
    await expect(openDatabase({ file, migrations: { '001_first': failing } })).rejects.toThrow('half-way');
    const database = await open({ file, migrations: { '000_nothing': { up: async () => undefined } } });
    expect(await namesOf(database)).not.toContain('notes');
    await database.close();
    const again = { '000_nothing': { up: async () => undefined }, '001_first': FIRST };
    expect(await namesOf(await open({ file, migrations: again }))).toContain('notes');
  });

  it('of a newer program are worked with by those that it named, and left as they are', async () => {
    const file = join(tempFolder(), 'test.db');
    const nothing: Migration = { up: async () => undefined };
    const known = { '001_first': FIRST, '002_second': nothing };
    const newer = { ...known, '003_wider': nothing };
    await (await openDatabase({ file, migrations: newer, readableSince: '002_second' })).close();
    const old = await openDatabase<Notes>({ file, migrations: known, readableSince: '001_first' });
    await old.query.insertInto('notes').values({ id: 1, text: 'by the older one' }).execute();
    await old.close();
    await expect(openDatabase({ file, migrations: { '001_first': FIRST } })).rejects.toThrow(NewerDatabaseError);
    const narrower = { ...newer, '004_narrower': nothing };
    await (await openDatabase({ file, migrations: narrower, readableSince: '004_narrower' })).close();
    await expect(openDatabase({ file, migrations: known })).rejects.toThrow('003_wider, 004_narrower');
  });
});

describe('a file that is no sound database', () => {
  it.each([['a text', Buffer.from('this is not a database at all, but it is longer than its header'.repeat(100))]])(
    '%s is refused, and left as it was',
    async (_, bytes) => {
      const file = join(tempFolder(), 'test.db');
      writeFileSync(file, bytes);
      await expect(openDatabase({ file, migrations: {} })).rejects.toMatchObject({
        kind: 'corrupt',
        code: 'database_corrupt',
      });
      expect(statSync(file).size).toBe(bytes.length);
    },
  );
});

describe('a backup', () => {
  it('of a file that others write to on and on comes to its end', async () => {
    const { file, query } = await open();
    for (let id = 0; id < 20; id++) {
      await query
        .insertInto('notes')
        .values({ id, text: 'x'.repeat(1_000_000) })
        .execute();
    }
    const other = new BetterSqlite(file);
    onTestFinished(() => void other.close());
    other.pragma('synchronous = OFF');
    const writing = other.prepare("insert into notes (text) values ('more')");
    const copy = join(tempFolder(), 'copy.db');
    let isCopied = false;
    const copying = copyDatabase(file, copy).then(() => {
      isCopied = true;
    });
    // One commit for each portion of the copy, or more; it takes eighty portions.
    for (let turn = 0; turn < 2_000 && !isCopied; turn++) {
      writing.run();
      await yieldToEventLoop();
    }
    expect(isCopied).toBe(true);
    await copying;
    expect(complaintsOf(copy)).toEqual([]);
    expect((await open({ file: copy })).asFile?.isCopy()).toBe(true);
  });
});

describe('the lock', () => {
  const SQLITE = join(import.meta.dirname, '../../../../src/platform/database/sqlite.ts');

  /** Another process that tries for the lock, says what it got, and lives until it is killed. */
  async function otherProcess(file: string) {
    const code = `
      const { takeLock } = await import(${JSON.stringify(SQLITE)});
      const lock = takeLock(${JSON.stringify(file)});
      process.stdout.write(lock ? 'taken' : 'refused');
      process.stdin.resume();`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', code], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const [said] = (await once(child.stdout, 'data')) as [Buffer];
    return { child, said: said.toString() };
  }

  it('can be seen by its owner only, also where an older version let everybody see it, and keeps being held [A20]', async () => {
    const file = join(tempFolder(), 'lock');
    const lock = takeLock(file);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    chmodSync(file, 0o644);
    expect(takeLock(file)).toBeUndefined();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await otherProcess(file)).said).toBe('refused');
    lock?.release();
  });

  it('is released when its process is killed', async () => {
    const file = join(tempFolder(), 'lock');
    const { child, said } = await otherProcess(file);
    expect(said).toBe('taken');
    expect(takeLock(file)).toBeUndefined();
    child.kill('SIGKILL');
    await once(child, 'exit');
    const lock = takeLock(file);
    expect(lock).toBeDefined();
    lock?.release();
  });
});

/** A database and what it told of itself: each kind of fault, and `well` when one has passed. */
async function openWatched(file = join(tempFolder(), 'test.db')) {
  const told: string[] = [];
  const onFault = (fault: DatabaseFault | undefined) => void told.push(fault?.kind ?? 'well');
  const database = await open({ file, onFault });
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
    const opened = await openWatched(join(volume?.path ?? tempFolder(), 'test.db'));
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

  it.runIf(CAN_MOUNT)(
    'that ends a checkpoint is no damage: the log completes the file when there is space',
    async () => {
      const { database, told, free } = await openFull();
      await expect(sql.raw('PRAGMA wal_checkpoint').execute(database.query)).rejects.toMatchObject({ kind: 'full' });
      for (let look = 0; look < 2; look++) database.probe();
      expect(told).toEqual(['full']);
      free();
      database.probe();
      expect(told).toEqual(['full', 'well']);
      expect(await count(database)).toBe(1);
    },
  );

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

describe('a file that is shorter than its first page says', () => {
  const PAGE = 4_096;

  /** As a power failure leaves it that ends a checkpoint after the first page: the rest is in the log. */
  async function interruptCheckpoint(): Promise<string> {
    const { file, database } = await openWatched();
    for (let id = 0; id < 20; id++) await note(database, id, 3_000);
    const left = join(tempFolder(), 'left.db');
    for (const end of ['', '-wal']) copyFileSync(file + end, left + end);
    await sql.raw('PRAGMA wal_checkpoint').execute(database.query);
    const handle = openSync(left, 'r+');
    writeSync(handle, readFileSync(file), 0, PAGE, 0);
    closeSync(handle);
    return left;
  }

  it('is sound if its log has the missing pages, and is completed', async () => {
    const file = await interruptCheckpoint();
    const bytes = statSync(file).size;
    const database = await open({ file });
    database.probe();
    expect([database.fault(), await count(database)]).toEqual([undefined, 20]);
    expect(statSync(file).size).toBeGreaterThan(bytes);
    expect(complaintsOf(file)).toEqual([]);
  });

  it.each([
    ['the log is in the file', 0],
    ['the log has fewer pages', 1],
  ])('is damaged if another program has cut it, and %s', async (_name, later) => {
    const { file, database } = await openWatched();
    for (let id = 0; id < 20; id++) await note(database, id, 3_000);
    await sql.raw('PRAGMA wal_checkpoint(TRUNCATE)').execute(database.query);
    for (let id = 0; id < later; id++) await note(database, 100 + id);
    truncateSync(file, 2 * PAGE);
    database.probe();
    expect(database.fault()).toMatchObject({ kind: 'corrupt' });
  });
});
