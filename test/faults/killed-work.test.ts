import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { sql } from 'kysely';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../src/platform/database/open.ts';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { readBackfills, requestBackfill } from '../../src/store/connections/backfills.ts';
import { openInstallationFile, openTables } from '../../src/store/installation/installation.ts';
import { INSTALLATION_MIGRATIONS } from '../../src/store/schema/installation-migrations.ts';
import type { Schema } from '../../src/store/schema/tables.ts';
import { fastClock } from '../support/fakes/crash-clock.ts';
import { NO_QUOTA, startWorkspaceService } from '../support/fakes/workspace-service.ts';
import type { WorkInputs } from '../support/faults/killed-work.ts';
import { killsOf } from '../support/harness/depth.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { inboxOf } from '../support/harness/intake.ts';
import { COMPILE_CACHE } from '../support/harness/processes.ts';
import { openStore } from '../support/harness/store.ts';
import { sessionsEnded } from '../support/postgres/server-sessions.ts';
import { newPlace, ON_POSTGRES, storePlace } from '../support/postgres/store-place.ts';
import { dumpStore, fillStore } from '../support/rows/filled-store.ts';

const run = promisify(execFile);
const env = { PATH: process.env['PATH'] ?? '', TZ: 'UTC', NODE_COMPILE_CACHE: COMPILE_CACHE };
const AT_ONCE = availableParallelism() + 1;

/** The last message of a child, or the signal that ended it. */
async function child<Told>(name: string, ...given: readonly string[]): Promise<Told | string> {
  const program = join(import.meta.dirname, '../support/faults', `${name}.ts`);
  try {
    return JSON.parse((await run(process.execPath, [program, ...given], { env })).stdout) as Told;
  } catch (error) {
    const { signal } = error as { signal?: string | null };
    if (signal) return signal;
    throw error;
  }
}

const folder = () => folderOfTest('killed');

/** The name of one run, by which its sessions are found on a server. */
interface Named {
  readonly name: string;
  readonly place: string;
}

function named(place: string): Named {
  const name = `killed_${randomBytes(4).toString('hex')}`;
  return { name, place: ON_POSTGRES ? `${place}&application_name=${name}` : place };
}

async function isOver({ name, place }: Named): Promise<void> {
  if (ON_POSTGRES) await sessionsEnded(place, 'application_name', [name]);
}

interface Case<Work extends keyof WorkInputs> {
  readonly input: WorkInputs[Work];
  /** The database at which the sessions of a dead process may still be open. */
  readonly at?: Named;
  /** After the kill, before the same work is done again. */
  readonly between?: () => Promise<void>;
  /** Whether the kill came when nothing was left to do, so that the work would be refused. */
  readonly isDone?: () => Promise<boolean>;
  readonly check: () => Promise<void>;
}

/** Does the work once as a whole, and once for each of the steps: up to there, and then anew. @returns how many steps there are */
async function killAtEach<Work extends keyof WorkInputs>(
  work: Work,
  { prepare, every }: { prepare: () => Promise<Case<Work>>; every: number },
): Promise<number> {
  const done = async ({ input }: Case<Work>, step: number) =>
    child<{ steps: number }>('killed-work', work, JSON.stringify(input), String(step));
  const whole = await prepare();
  const told = await done(whole, 0);
  if (typeof told === 'string') throw new Error(`nobody was to kill it: ${told}`);
  await whole.check();
  const left = killsOf(
    Array.from({ length: told.steps }, (_, index) => index + 1),
    every,
  );
  const go = async () => {
    for (let step = left.shift(); step !== undefined; step = left.shift()) {
      const each = await prepare();
      expect([step, await done(each, step)]).toEqual([step, 'SIGKILL']);
      if (each.at) await isOver(each.at);
      await each.between?.();
      if (!(await each.isDone?.())) expect([step, await done(each, 0)]).toEqual([step, { steps: expect.any(Number) }]);
      await each.check();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, go));
  return told.steps;
}

async function filled(file: string, rows: number): Promise<void> {
  await (await openInstallationFile({ file, random: systemRandom() })).close();
  const { commit, close } = await openTables({ file });
  await commit((transaction) => fillStore(transaction, rows));
  await close();
}

async function dumpOf(file: string): Promise<object> {
  const { query, close } = await openTables({ file });
  const dump = await dumpStore(query);
  await close();
  // PostgreSQL has no place for the sign of code 0.
  return JSON.parse(JSON.stringify(dump).replaceAll(String.raw`\u0000`, String.raw`\ufffd`)) as object;
}

/** A copy that has come to its end has forgotten where it came from. */
async function isWhole(file: string, wanted: object): Promise<boolean> {
  return isDeepStrictEqual(await dumpOf(file), wanted);
}

describe('a process that is killed', () => {
  it('while it creates the tables leaves none of them, or all', async () => {
    const steps = await killAtEach('migrate', {
      every: 1,
      async prepare() {
        const at = named(newPlace(join(folder(), 'test.db')));
        const names = async () => {
          const { query, close } = await openDatabase<Schema>({ file: at.place, migrations: {} }).catch(async () =>
            openTables({ file: at.place }),
          );
          const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(query);
          await close();
          return rows.map(({ name }) => name);
        };
        return {
          ...{ input: { place: at.place }, at },
          async check() {
            expect(await names()).toEqual(Object.keys(INSTALLATION_MIGRATIONS));
            const { query, close } = await openTables({ file: at.place });
            expect(await query.selectFrom('meta').selectAll().execute()).toEqual([]);
            await close();
          },
        };
      },
    });
    expect(steps).toBeGreaterThanOrEqual(2);
  });

  it('while it copies everything into another database goes on where it stopped', async () => {
    const source = join(folder(), 'source.db');
    await filled(source, 6);
    const wanted = await dumpOf(source);
    const steps = await killAtEach('copy', {
      every: 6,
      async prepare() {
        const at = named(await storePlace(join(folder(), 'target.db')));
        return {
          ...{ input: { from: source, to: at.place }, at },
          isDone: () => isWhole(at.place, wanted),
          check: async () => expect(await dumpOf(at.place)).toEqual(wanted),
        };
      },
    });
    expect(steps).toBeGreaterThanOrEqual(40);
  });

  const ALL = ['1', '2', '3'];
  it.each([
    {
      work: 'poll',
      steps: 6,
      asked: ALL,
      // The last commit ends the walk, so that a poll after it would read everything again.
      killedAt: [ALL, ['2', '3'], ['2', '3'], ['3'], ['3']],
      expected: { polls: [{ watermark: '2026-01-04T00:00:00Z', etag: '"1"', walk: null }], backfills: [] },
    },
    {
      work: 'backfill',
      steps: 8,
      asked: ['units', ...ALL],
      killedAt: [['units', ...ALL], ALL, ALL, ['2', '3'], ['2', '3'], ['3'], ['3']],
      expected: { polls: [], backfills: [{ units: 1, unitsDone: 1, pages: 3 }] },
    },
  ])('at any step of a $work goes on where it stopped and takes each page once', async (row) => {
    // The schema is there already, so that the steps counted are those of the walk.
    const begin = async () => {
      const file = join(folder(), 'walk.db');
      const at = named(await storePlace(file));
      const store = await openStore({ file });
      if (row.work === 'backfill') await requestBackfill(store.query, { connection: 'notes', since: null, now: 1 });
      await store.close();
      return { at, file, walk: (step: number) => child<object>('walk-child', row.work, at.place, String(step)) };
    };
    expect(await (await begin()).walk(0)).toEqual({ steps: row.steps, asked: row.asked });
    for (const [index, asked] of row.killedAt.entries()) {
      const { at, file, walk } = await begin();
      expect(await walk(index + 1)).toBe('SIGKILL');
      await isOver(at);
      expect(await walk(0)).toMatchObject({ asked });
      const store = await openStore({ file });
      expect((await inboxOf(store)).map(({ body }) => body)).toEqual(['page 1', 'page 2', 'page 3']);
      const polls = await store.query.selectFrom('polls').selectAll().execute();
      expect({ polls, backfills: await readBackfills(store.query) }).toMatchObject(row.expected);
      await store.close();
    }
  });
});

/** Facts that are missing from the database, or only in a file. */
describe.skipIf(ON_POSTGRES)('a process that is killed, beside a file', () => {
  it('while it makes a backup leaves none that is taken for whole, and the database as it was', async () => {
    const source = join(folder(), 'worksync.db');
    await filled(source, 900);
    const wanted = await dumpOf(source);
    const steps = await killAtEach('back-up', {
      every: 3,
      async prepare() {
        const data = folder();
        copyFileSync(source, join(data, 'worksync.db'));
        const destination = join(folder(), 'copy.db');
        return {
          input: { data, destination },
          async between() {
            expect(await dumpOf(join(data, 'worksync.db'))).toEqual(wanted);
            if (!existsSync(destination)) return;
            expect(await dumpOf(destination)).toEqual(wanted);
            // Its name is taken for good.
            rmSync(destination);
          },
          async check() {
            expect(await dumpOf(destination)).toEqual(wanted);
            expect(existsSync(`${destination}.unfinished`)).toBe(false);
          },
        };
      },
    });
    expect(steps).toBeGreaterThanOrEqual(10);
  });

  it('while it replaces an API key leaves one key that works, and its secret in the file', async () => {
    const steps = await killAtEach('rotate', {
      every: 4,
      async prepare() {
        const service = await startWorkspaceService({ clock: fastClock(), quota: NO_QUOTA });
        const { workspaceId, userId, url, oauthToken: token } = service;
        const { apiKeyId: keyId } = await service.service.mintKey({ workspaceId, userId, description: 'old' });
        const path = join(folder(), 'ci.key');
        const owner = service.client(token);
        const use = async () => {
          const secret = existsSync(path) ? readFileSync(path, 'utf8').trim() : '';
          if (secret !== '') await service.client(secret).listTasks({ query: { limit: 1 } }, {});
        };
        // Others use what stands in the file, as soon as it stands there.
        const traffic = setInterval(() => void use().catch(() => undefined), 50);
        onTestFinished(async () => {
          clearInterval(traffic);
          await service.close();
        });
        return {
          input: { url, token, keyId, path },
          async check() {
            clearInterval(traffic);
            await use();
            const { apiKeys } = (await owner.listApiKeys({}, {})).body;
            const active = apiKeys.filter(({ status }) => status === 'active');
            const secret = readFileSync(path, 'utf8').trim();
            const made = active.filter(({ description }) => description === 'the new one');
            expect(made.map(({ keyPrefix }) => secret.startsWith(keyPrefix))).toEqual([true]);
            expect(active.map(({ apiKeyId }) => apiKeyId)).not.toContain(keyId);
          },
        };
      },
    });
    expect(steps).toBeGreaterThanOrEqual(12);
  });
});
