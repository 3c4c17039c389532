import { randomBytes } from 'node:crypto';
import { copyFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LOG_LIMIT } from '../../src/platform/database/file-log.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { drawn } from '../support/harness/depth.ts';
import { startNode } from '../support/harness/processes.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

/** Another program that has a database of ours open, and has begun something there. */
interface OtherProgram {
  end(): Promise<void>;
}

/** A process that carries out the statements, and then holds what they took until it is ended. */
async function startOtherProgram(file: string, statements: readonly string[]): Promise<OtherProgram> {
  const script = `
    import BetterSqlite from 'better-sqlite3';
    const database = new BetterSqlite(${JSON.stringify(file)}, { timeout: 60_000 });
    for (const statement of ${JSON.stringify(statements)}) {
      const prepared = database.prepare(statement);
      if (prepared.reader) prepared.all();
      else prepared.run();
    }
    process.stdout.write('holds it');
    process.stdin.on('end', () => database.close()).resume();`;
  const process = startNode(['--input-type=module', '-e', script], { isTyped: true });
  await process.says('holds it');
  return {
    async end() {
      process.child.stdin?.end();
      await process.ended;
    },
  };
}

/** Another program has the database open: it reads for long, copies it, or keeps it locked. */

const SECOND = 1_000;
const READ = ['begin', 'select count(*) from inbox'];
const LOCK = ['begin immediate'];

let world: World;
let other: OtherProgram | undefined;
/** How often a delivery was to be stored. */
let tries: number;
beforeEach(async () => {
  tries = 0;
  const onStatement = (statement: string) => {
    if (/insert into "inbox"/i.test(statement)) tries++;
  };
  world = await createWorld({ onStatement });
  await world.settled();
});
afterEach(async () => {
  await other?.end();
  await world.close();
});

const file = () => world.installation().file;
const logSize = () => statSync(`${file()}-wal`).size;
const begin = async (statements: readonly string[]) => (other = await startOtherProgram(file(), statements));
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
/** An edit of one of forty pull requests. @param size of its text, which nothing packs; bytes */
const deliver = (count: number, size = 10) => {
  const updated = new Date(world.clock.now() - 3_600_000 + count * SECOND).toISOString();
  const body = randomBytes(size / 2).toString('hex');
  return world.deliver('pull_request', pullEvent({ number: 1 + (count % 40), body, updated }));
};
/** The daemon commits so many bytes. */
const write = async (size: number) => {
  const { query } = world.installation();
  await sql`create table large (bytes blob)`.execute(query);
  await sql`insert into large values (randomblob(${sql.lit(size)}))`.execute(query);
};
const causes = async () => (await world.partition().status()).causes;

const tried = async () => {
  const before = tries;
  await expect.poll(() => tries).toBeGreaterThan(before);
};

function deliveriesInFile(): number {
  const copy = join(world.dataFolder, 'without-log.db');
  copyFileSync(file(), copy);
  const database = new BetterSqlite(copy);
  try {
    const isThere = database.prepare("select 1 from sqlite_schema where name = 'inbox'").get() !== undefined;
    return isThere ? (database.prepare('select count(*) from inbox').pluck().get() as number) : 0;
  } finally {
    database.close();
  }
}

describe('a program that reads the database on and on', () => {
  it('and a backup beside it disturb no request, and the log is checkpointed when it ends', async () => {
    await begin(READ);
    const backup = join(world.dataFolder, 'beside.backup');
    const copying = commandLine('backup', backup, '--data', world.dataFolder);
    const statuses = new Set<number>();
    let isCopied = false;
    void copying.then(() => (isCopied = true));
    let count = 0;
    while (!isCopied || count < drawn(400)) {
      const more = await Promise.all(numbers(20).map((number) => deliver(count + number, 2_000)));
      for (const status of more) statuses.add(status);
      count += 20;
    }
    expect([...statuses]).toEqual([202]);
    expect(await copying).toMatchObject({ code: 0 });
    await world.settled();
    expect((await world.partition().status()).verdict).toBe('ok');
    expect(logSize()).toBeLessThanOrEqual(LOG_LIMIT);
    expect(deliveriesInFile()).toBeLessThan(count);

    await other?.end();
    // With the commits that follow.
    for (const number of numbers(3)) expect(await deliver(count + number)).toBe(202);
    expect(deliveriesInFile()).toBeGreaterThanOrEqual(count);
  });

  it('is told with a remedy when the log has grown over its limit; after its end the log is emptied by itself', async () => {
    await begin(READ);
    await write(LOG_LIMIT);
    expect(await deliver(1)).toBe(202);
    await world.clock.advance(60 * SECOND);
    expect(logSize()).toBeGreaterThan(LOG_LIMIT);
    expect(await causes()).toMatchObject([
      {
        code: 'database_log_kept',
        verdict: 'degraded',
        message: expect.stringMatching(/another program reads the database on and on.*\(\d+\.\d MB\)/),
        hint: expect.stringContaining('End the program that reads the database'),
      },
    ]);
    expect(await world.metrics()).toMatch(/worksync_database_log_kept_bytes \d{8,}/);
    expect(await deliver(2)).toBe(202);
    expect((await fetch(`${world.daemon().address}/readyz`)).status).toBe(200);

    await other?.end();
    await world.clock.advance(2 * SECOND);
    expect(logSize()).toBeLessThanOrEqual(LOG_LIMIT);
    expect(deliveriesInFile()).toBeGreaterThanOrEqual(2);
    expect(await causes()).toEqual([]);
    expect(await world.metrics()).toContain('worksync_database_log_kept_bytes 0\n');
  });
});

describe('a program that keeps the database locked', () => {
  /** The time that counts for the patience with the lock, milliseconds. */
  let waited: number;
  beforeEach(() => {
    waited = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => waited);
  });
  afterEach(() => vi.restoreAllMocks());

  it('for a moment is waited for: the delivery is taken, and all else goes on meanwhile', async () => {
    await begin(LOCK);
    const answer = deliver(1);
    // All this while the other program holds the lock: the delivery is tried again and again, and probes are answered.
    for (let round = 1; round <= 3; round++) {
      await tried();
      for (const probe of ['livez', 'readyz'])
        expect((await fetch(`${world.daemon().address}/${probe}`)).status).toBe(200);
    }
    await other?.end();
    expect(await answer).toBe(202);
  });

  it('for long gets every delivery 503 before any acknowledgement, with the cause and a remedy, and is over by itself', async () => {
    await begin(LOCK);
    const answers = Promise.all(numbers(5).map((number) => deliver(number)));
    await tried();
    waited = 10 * SECOND;
    expect(await answers).toEqual(numbers(5).map(() => 503));
    expect(
      (
        await world
          .partition()
          .status()
          .catch(() => undefined)
      )?.causes,
    ).toMatchObject([
      {
        code: 'database_failed',
        verdict: 'blocked',
        message: expect.stringContaining('another program keeps it locked'),
        hint: expect.stringContaining('End the program that keeps the file locked'),
      },
    ]);
    expect((await fetch(`${world.daemon().address}/readyz`)).status).toBe(503);

    await other?.end();
    await world.clock.advance(2 * SECOND);
    expect((await fetch(`${world.daemon().address}/readyz`)).status).toBe(200);
    for (const number of numbers(5)) expect(await deliver(number)).toBe(202);
    await world.settled();
    expect((await world.partition().status()).verdict).toBe('ok');
    expect((await world.people.listPullRequests({ query: {} }, {})).body.pullRequests).toHaveLength(5);
  });
});
