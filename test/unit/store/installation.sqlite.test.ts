import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { sql } from 'kysely';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { SCHEMA } from '../../../src/model/build.ts';
import { entity } from '../../../src/model/change.ts';
import { openDatabase } from '../../../src/platform/database/open.ts';
import { complaintsOf, copyDatabase, markAsCopy } from '../../../src/platform/database/sqlite.ts';
import { systemClock, systemRandom } from '../../../src/platform/lib/clock.ts';
import { memoryFolder } from '../../../src/platform/lib/folders.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createWorkspaceService } from '../../../src/reference-service/service.ts';
import { appendDeliveries } from '../../../src/store/deliveries/append-deliveries.ts';
import {
  acquireDataFolder,
  type Installation,
  openInstallation,
  openInstallationFile,
} from '../../../src/store/installation/installation.ts';
import { saveItem } from '../../../src/store/items/items.ts';
import {
  isReadAfterRestore,
  lastBeforeRestore,
  PULL_REQUESTS_READ,
  readMeta,
  TASKS_READ,
  writeMeta,
} from '../../../src/store/meta.ts';
import { acceptBackup } from '../../../src/store/restore/restore.ts';
import { INSTALLATION_MIGRATIONS, READABLE_SINCE } from '../../../src/store/schema/installation-migrations.ts';
import { readStatus } from '../../../src/store/status/stored-status.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { waits } from '../../support/rows/changes.ts';
import { refusal } from '../../support/rows/config-files.ts';
import { itemRow } from '../../support/rows/items.ts';

const random = systemRandom();
const TOO_OLD = { '001_sessions': { up: async () => undefined } };

async function open(file: string): Promise<Installation> {
  const installation = await openInstallationFile({ file, random });
  onTestFinished(() => installation.close());
  return installation;
}

async function create(...[file, migrations]: [file: string, migrations: object]): Promise<void> {
  await (await openDatabase({ file, migrations: migrations as typeof INSTALLATION_MIGRATIONS })).close();
}

function execute(file: string, statement: string): void {
  const raw = new BetterSqlite(file);
  raw.exec(statement);
  raw.close();
}

describe('a data folder', () => {
  it.each(['worksync.db', 'team.db'])('leaves %s of a version before the first release untouched', async (name) => {
    const path = folderOfTest('installation');
    const file = join(path, name);
    await create(file, TOO_OLD);
    const before = readFileSync(file);
    await expect(openInstallation(path, { random })).rejects.toMatchObject({
      code: 'database_too_old',
      message: expect.stringMatching(new RegExp(`/${name}(?::| has) .*which reads data since commit 5ada3647`)),
      hint: expect.stringContaining('start with an empty data folder at least 15 minutes after'),
    });
    expect([readFileSync(file).equals(before), readdirSync(path)]).toEqual([true, [name]]);
  });

  it('of the previous build is opened with its rows, and so is a backup that it made', async () => {
    const path = folderOfTest('installation');
    const file = join(path, 'worksync.db');
    execute(file, readFileSync(join(import.meta.dirname, '../../support/rows/previous-build/worksync.sql'), 'utf8'));
    copyFileSync(file, join(path, 'backup.db'));
    const { query, store, close } = await openInstallation(path, { random });
    onTestFinished(close);
    expect(await readStatus((await store('demo')).query, 0)).toMatchObject({ items: 4, tasks: 4, links: { total: 3 } });
    const applied = await query
      .withTables<{ kysely_migration: { name: string } }>()
      .selectFrom('kysely_migration')
      .select('name')
      .execute();
    expect(Number(applied.at(-1)?.name.slice(0, 3))).toBe(SCHEMA);
    markAsCopy(join(path, 'backup.db'));
    await acceptBackup(join(path, 'backup.db'), join(path, 'draft.db'), async () => []);
  });
});

it('the released migrations still create the same tables', async () => {
  const file = join(folderOfTest('released'), 'released.db');
  const released = Object.entries(INSTALLATION_MIGRATIONS).filter(([name]) => name <= '006_imported_changes');
  await create(file, Object.fromEntries(released));
  const raw = new BetterSqlite(file, { readonly: true });
  const tables = raw.prepare('select name, sql from sqlite_schema order by name').raw().all();
  raw.close();
  expect(createHash('sha256').update(JSON.stringify(tables)).digest('hex')).toBe(
    '8ab7dd030a40e150b858a35abce805fda18a1cd078250cbce9ef871be1708acc',
  );
});

describe('a data folder in memory', () => {
  const path = memoryFolder(`:memory:test-${process.pid}`) as string;
  afterEach(() => rmSync(path, { recursive: true, force: true }));

  it.each([
    ['a folder that others may read', () => mkdirSync(path, { mode: 0o755 })],
    ['a link', () => symlinkSync(tmpdir(), path)],
  ])('refuses %s in its place', (_what, make) => {
    make();
    expect(refusal(() => acquireDataFolder(path)).code).toBe('data_folder_unusable');
  });

  it('is emptied at the start, and deleted at the end', () => {
    mkdirSync(join(path, 'worksync.files'), { recursive: true, mode: 0o700 });
    writeFileSync(join(path, 'worksync.db'), 'left');
    const folder = acquireDataFolder(path);
    expect([readdirSync(path), statSync(path).mode & 0o777]).toEqual([['worksync.lock'], 0o700]);
    expect(refusal(() => acquireDataFolder(path)).code).toBe('locked');
    writeFileSync(join(path, 'worksync.db'), 'mine');
    folder.release();
    expect(existsSync(path)).toBe(false);
  });
});

describe('a copy of a database', () => {
  const FACTS = [TASKS_READ, PULL_REQUESTS_READ, 'other'];
  const UNVERIFIED = { facts: [undefined, undefined, '1'], requests: 200, boots: ['restored'] };

  /** A copy of a database in which two workspaces have read everything. */
  async function copied(): Promise<string> {
    const folder = folderOfTest('doubt');
    const installation = await open(join(folder, 'first.db'));
    for (const name of ['one', 'two']) {
      const { query } = await installation.store(name);
      for (const fact of FACTS) await writeMeta(query, fact, '1');
    }
    const file = join(folder, 'copy.db');
    await copyDatabase(installation.file, file);
    return file;
  }

  async function knownIn(installation: Installation, workspace: string) {
    const { query } = await installation.store(workspace);
    const facts = await Promise.all(FACTS.map((fact) => readMeta(query, fact)));
    const requests = await query.selectFrom('ledger').select('boot').execute();
    return { facts, requests: requests.length, boots: [...new Set(requests.map(({ boot }) => boot))] };
  }

  it('counts a full quota window as used and reads all lists again, once in each workspace', async () => {
    const file = await copied();
    const first = await open(file);
    for (const name of ['one', 'two']) expect(await knownIn(first, name)).toEqual(UNVERIFIED);
    const { query } = await first.store('one');
    await writeMeta(query, TASKS_READ, '2');
    await query.deleteFrom('ledger').execute();
    await first.close();
    expect(await knownIn(await open(file), 'one')).toEqual({ facts: ['2', undefined, '1'], requests: 0, boots: [] });
  });

  it('deletes changes that can follow again, and marks all existing items as unverified', async () => {
    const folder = folderOfTest('doubt');
    const first = await open(join(folder, 'first.db'));
    const { query } = await first.store('one');
    await saveItem(query, itemRow('there'), 1);
    await saveItem(query, itemRow('gone', { gone: 1 }), 1);
    await waits(query, 'link:waits', { kind: 'link' });
    await waits(query, 'link:held', { kind: 'link', state: 'held' });
    await waits(query, 'link:unknown', { kind: 'link', state: 'unknown', sent: '{}' });
    await waits(query, 'read:tasks', { kind: 'read', sent: '{"cursor":"old"}' });
    await writeMeta(query, entity.readLinks('t1'), '7');
    const body = Buffer.alloc(0);
    await appendDeliveries(query, [{ connection: 'c', key: 'k', source: 'webhook', event: 'e', body }], 1);
    const file = join(folder, 'copy.db');
    await copyDatabase(first.file, file);
    const { query: copy } = await (await open(file)).store('one');
    expect(await lastBeforeRestore(copy)).toBe(1);
    expect(await readMeta(copy, entity.readLinks('t1'))).toBeUndefined();
    expect(await isReadAfterRestore(copy, entity.readTasks)).toBe(true);
    expect(await copy.selectFrom('outbox').select('entity').execute()).toEqual([{ entity: 'link:unknown' }]);
    const items = await copy.selectFrom('items').select(['key', 'unverified']).orderBy('key').execute();
    expect(items.map(({ key, unverified }) => `${key} ${unverified}`)).toEqual(['gone 0', 'there 1']);
  });

  it('stays a copy if it cannot be marked as unverified', async () => {
    const file = await copied();
    let isOpen = false;
    const onStatement = (text: string) => {
      isOpen ||= text.toLowerCase() === 'pragma user_version';
      if (isOpen && text === 'commit') throw new Error('commit fails');
    };
    await expect(openInstallationFile({ file, random, onStatement })).rejects.toThrow('commit fails');
    expect(await knownIn(await open(file), 'two')).toEqual(UNVERIFIED);
  });

  it('is marked, and a database that is not a copy is not', async () => {
    const file = join(folderOfTest('doubt'), 'own.db');
    const installation = await open(file);
    await writeMeta((await installation.store('one')).query, TASKS_READ, '1');
    await installation.close();
    const again = await open(file);
    expect((await knownIn(again, 'one')).facts[0]).toBe('1');
    const version = await sql<{ user_version: number }>`pragma user_version`.execute(again.query);
    expect(version.rows[0]?.user_version).toBe(0);
  });
});

describe('a backup', () => {
  async function backupIn(folder: string): Promise<string> {
    const { file, close } = await openInstallationFile({ file: join(folder, 'own.db'), random });
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
  const changed = (statement: string) => (file: string) => {
    copyFileSync(join(file, '..', 'backup.db'), file);
    execute(file, statement);
  };
  const marked = (make: (file: string) => Promise<unknown>) => async (file: string) => {
    await make(file);
    markAsCopy(file);
  };
  async function serviceIn(file: string): Promise<void> {
    const quota = { requests: 0, window: 1, burst: 0, burstWindow: 1 };
    const service = await createWorkspaceService({ file, clock: systemClock(), random, logger: silentLogger, quota });
    await service.close();
  }

  it('is accepted, also of an older version, and not modified', async () => {
    const backup = await backupIn(folderOfTest('backup'));
    const before = readFileSync(backup);
    await accept(backup);
    expect([readFileSync(backup).equals(before), existsSync(`${backup}-wal`)]).toEqual([true, false]);
    for (const last of Object.keys(INSTALLATION_MIGRATIONS)) {
      const file = join(folderOfTest(`backup-${last}`), 'older.db');
      await create(file, Object.fromEntries(Object.entries(INSTALLATION_MIGRATIONS).filter(([name]) => name <= last)));
      markAsCopy(file);
      await expect(accept(file)).resolves.toBeUndefined();
    }
  });

  const REFUSED = ['backup_refused', 'Give a file that "worksync backup" wrote. Nothing was changed.'] as const;
  const DAMAGED = ['database_corrupt', 'restore another one'] as const;

  it.each<readonly [what: string, make: (file: string) => unknown, code: string, hint: string]>([
    ['an empty file', (file) => writeFileSync(file, ''), ...REFUSED],
    ['an endless device', (file) => symlinkSync('/dev/zero', file), ...REFUSED],
    ['a foreign database with a table of migrations', (file) => execute(file, FOREIGN), ...REFUSED],
    ['a database in use, which has no mark', (file) => copyFileSync(join(file, '..', 'own.db'), file), ...REFUSED],
    ['a trigger', changed('create trigger evil after insert on meta begin delete from inbox; end'), ...REFUSED],
    ['a trigger of worksync with another statement', changed(CHANGED_TRIGGER), ...REFUSED],
    ['the database of the reference service', serviceIn, ...REFUSED],
    ['a version before the first release', marked((file) => create(file, TOO_OLD)), 'database_too_old', ''],
    ['a newer version', newer, 'database_newer', 'version that made it'],
    ['a truncated backup', damaged((file) => truncateSync(file, 8_192)), ...DAMAGED],
    ['a backup that was overwritten in the middle', damaged(overwrite), ...DAMAGED],
    ['a backup that does not fit on the volume', huge, 'disk_full', ''],
  ])('is refused: %s', async (_what, make, code, hint) => {
    const folder = folderOfTest('backup');
    await backupIn(folder);
    const file = join(folder, 'given.db');
    await make(file);
    await expect(accept(file)).rejects.toMatchObject({ code, hint: expect.stringContaining(hint) });
  });
});

const FOREIGN = `create table kysely_migration (name text, timestamp text);
  insert into kysely_migration values ('001_schema', ''); pragma user_version = 1`;

const CHANGED_TRIGGER = `drop trigger items_counted_in;
  create trigger items_counted_in after insert on items begin delete from inbox; end`;

async function newer(file: string): Promise<void> {
  const migrations = { ...INSTALLATION_MIGRATIONS, '999_newer': { up: async () => undefined } };
  const database = await openDatabase({ file, migrations, readableSince: READABLE_SINCE });
  await sql`pragma user_version = 1`.execute(database.query);
  await database.close();
}

function damaged(damage: (file: string) => void): (file: string) => void {
  return (file) => {
    copyFileSync(join(file, '..', 'backup.db'), file);
    damage(file);
  };
}

function overwrite(file: string): void {
  const content = readFileSync(file);
  content.fill(0xff, 8_192, content.length - 8_192);
  writeFileSync(file, content);
}

/** The header of a database of 64 TiB, and a file without blocks. */
function huge(file: string): void {
  const header = Buffer.alloc(100);
  header.write('SQLite format 3\0', 'latin1');
  header.writeUInt16BE(1, 16);
  header.writeUInt32BE(2 ** 30, 28);
  header.writeUInt32BE(1, 60);
  writeFileSync(file, header);
  truncateSync(file, 65_536 * 2 ** 30);
}
