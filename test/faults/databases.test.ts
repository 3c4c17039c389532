import { randomBytes } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { asSyncError, CODES } from '../../src/model/errors.ts';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import type { CheckFile } from '../../src/platform/lib/integrity.ts';
import { CAN_LIMIT_FILES, limitFiles } from '../support/faults/file-limit.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

const SECOND = 1_000;

let world: World;
let checkFile: CheckFile;
beforeEach(async () => {
  checkFile = async () => [];
  // Half of each interval: so the weekly check comes in the middle of the first week.
  const random = { ...systemRandom(), float: () => 0.5 };
  world = await createWorld({ random, checkFile: (file) => checkFile(file) });
  await world.settled();
});
afterEach(() => world.close());

const database = () => world.installation();
const deliver = (number: number) => world.deliver('pull_request', pullEvent({ number }));
const get = (path: string) => world.read(path);

/** Noise over all pages but the first two, as a failing disk leaves it; what SQLite keeps in memory is dropped. */
async function damage(): Promise<void> {
  await sql`pragma wal_checkpoint(truncate)`.execute(database().query);
  const { file } = database();
  const pages = statSync(file).size / 4_096;
  const disk = openSync(file, 'r+');
  for (let page = 2; page < pages; page++) writeSync(disk, Buffer.alloc(4_096, 0xa5), 0, 4_096, page * 4_096);
  closeSync(disk);
  await sql`pragma shrink_memory`.execute(database().query);
}

async function expectBlocked(message: RegExp): Promise<void> {
  const status = await world.daemon().status();
  const [workspace] = [...status.workspaces.flatMap(({ causes }) => causes), ...status.broken];
  expect([status.verdict, workspace]).toMatchObject(['blocked', { code: 'database_corrupt' }]);
  expect(workspace?.message).toMatch(message);
  for (const path of ['/', '/status.json']) expect([path, (await get(path)).status]).toEqual([path, 200]);
  const metrics = await get('/metrics');
  expect(metrics.status).toBe(200);
  const text = await metrics.text();
  expect(text).toContain('worksync_up 0\n');
  expect(text).toContain('worksync_workspace_up{workspace="test"} 0\n');
  expect(text).toContain('worksync_problems{workspace="test",code="database_corrupt"} 1\n');
  // It is the only workspace: this process can store nothing.
  const ready = await fetch(`${world.daemon().address}/readyz`);
  expect([ready.status, await ready.json()]).toMatchObject([503, { components: { database: 'database_corrupt' } }]);
}

describe('a damaged database', () => {
  it('is known from the first statement that meets it; every webhook gets 503, and all doors go on to answer', async () => {
    await damage();
    const answers = [await deliver(1), await deliver(2), await deliver(3)];
    expect(answers).toEqual([503, 503, 503]);
    await expectBlocked(/malformed|SQLITE_CORRUPT|not a database/);
  });
});

describe('a database file that is', () => {
  const places: readonly (readonly [string, (file: string) => void])[] = [
    ['deleted', (file) => rmSync(file)],
    [
      'deleted with all beside it',
      (file) => {
        for (const end of ['', '-wal', '-shm']) rmSync(file + end);
      },
    ],
    ['without its log', (file) => rmSync(`${file}-wal`)],
    ['moved away', (file) => renameSync(file, `${file}.away`)],
    [
      'replaced by a copy',
      (file) => {
        copyFileSync(file, `${file}.copy`);
        renameSync(`${file}.copy`, file);
      },
    ],
  ];

  it.each(places)('%s while the daemon runs takes no delivery any more', async (_name, change) => {
    expect(await deliver(1)).toBe(202);
    await world.settled();
    change(database().file);
    expect([await deliver(2), await deliver(3)]).toEqual([503, 503]);
    await expectBlocked(/was deleted or replaced while it was open/);
    expect(asSyncError(database().fault()).hint).toBe(CODES.database_corrupt.hint);
  });

  it.each([
    ['whose lock file is deleted', () => rmSync(join(world.dataFolder, 'worksync.lock')), 'gone'],
    ['overwritten at its beginning', () => overwrite(Buffer.alloc(100)), 'corrupt'],
    ['deleted', () => rmSync(database().file), 'gone'],
  ])('%s is detected while nothing comes in', async (_name, change, kind) => {
    await world.settled();
    // The header lacks all that is only in the log.
    database().asFile?.emptyLog();
    change();
    await world.until(async () => (await world.daemon().status()).verdict === 'blocked', 120 * SECOND);
    expect(database().fault()).toMatchObject({ kind });
  });

  function overwrite(bytes: Buffer): void {
    const handle = openSync(database().file, 'r+');
    writeSync(handle, bytes, 0, bytes.length, 0);
    closeSync(handle);
  }
});

describe('a disk that does not write', () => {
  it.runIf(CAN_LIMIT_FILES)(
    'blocks the workspace at once; when it writes again work resumes, and the whole file is read',
    async () => {
      const checked: string[] = [];
      checkFile = async (file) => {
        checked.push(file);
        return [];
      };
      limitFiles(4_096);
      try {
        expect(await deliver(1)).toBe(503);
        await expectBlocked(/disk I\/O error/);
      } finally {
        limitFiles('unlimited');
      }
      await world.clock.advance(5 * SECOND);
      // The copy that is read is made in real time.
      await expect.poll(() => world.clock.advance(100).then(() => checked.length)).toBeGreaterThan(0);
      expect((await world.daemon().status()).verdict).toBe('ok');
      expect(await deliver(1)).toBe(202);
    },
  );
});

it('a full disk makes the process not ready, and ready again by itself within five seconds of the space', async () => {
  const limit = (pages: number) => sql.raw(`pragma max_page_count = ${pages}`).execute(database().query);
  await limit(1);
  expect(
    await world.deliver('pull_request', pullEvent({ number: 1, title: randomBytes(40_000).toString('base64') })),
  ).toBe(503);
  expect((await fetch(`${world.daemon().address}/readyz`)).status).toBe(503);
  expect((await get('/metrics').then((answer) => answer.text())).includes('worksync_disk_full 1\n')).toBe(true);
  await limit(1_073_741_823);
  await world.clock.advance(5 * SECOND);
  expect((await fetch(`${world.daemon().address}/readyz`)).status).toBe(200);
  expect((await world.daemon().status()).verdict).toBe('ok');
  expect(await deliver(2)).toBe(202);
});

describe('the weekly check', () => {
  const DAY = 86_400_000;

  it('reads a copy of the whole database, leaves nothing behind, and blocks all of it where it is damaged', async () => {
    const seen: string[] = [];
    checkFile = async (file) => (seen.push(file) < 2 ? [] : ['row 7 missing']);
    await world.clock.advance(8 * DAY);
    expect(seen).toHaveLength(1);
    expect(seen[0]).not.toBe(database().file);
    expect(existsSync(seen[0] as string)).toBe(false);
    expect((await world.daemon().status()).verdict).toBe('ok');
    await world.clock.advance(8 * DAY);
    expect(readdirSync(dirname(database().file)).filter((name) => name.includes('.check'))).toEqual([]);
    await expectBlocked(/row 7 missing/);
  });
});
