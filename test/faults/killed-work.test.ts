import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/platform/database/open.ts';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { openInstallationFile, openTables } from '../../src/store/installation/installation.ts';
import { INSTALLATION_MIGRATIONS } from '../../src/store/schema/installation-migrations.ts';
import type { Schema } from '../../src/store/schema/tables.ts';
import type { WorkInputs } from '../support/faults/killed-work.ts';
import { killsOf } from '../support/harness/depth.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { inboxOf } from '../support/harness/intake.ts';
import { COMPILE_CACHE } from '../support/harness/processes.ts';
import { openStore } from '../support/harness/store.ts';
import { sessionsEnded } from '../support/postgres/server-sessions.ts';
import { newPlace, ON_POSTGRES, storePlace } from '../support/postgres/store-place.ts';
import { dumpStore, fillStore } from '../support/rows/filled-store.ts';

/** Real processes that are killed in the middle of what is done once: the next one goes on, and nothing is lost or doubled. */

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
  /** Whether the kill came when nothing was left to do, so that the work would be refused. */
  readonly isDone?: () => Promise<boolean>;
  /** After the work was done. */
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
      if (!(await each.isDone?.())) expect([step, await done(each, 0)]).toEqual([step, { steps: expect.any(Number) }]);
      await each.check();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, go));
  return told.steps;
}

/** A file of SQLite with rows in each table. */
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

  it('at any step of a walk goes on where it stopped: each page once, the watermark with the last', async () => {
    // The schema is there already, so that the steps counted are those of the walk.
    const begin = async () => {
      const file = join(folder(), 'walk.db');
      const at = named(await storePlace(file));
      await (await openStore({ file })).close();
      const poll = (step: number) => child<object>('poll-child', at.place, String(step));
      return { at, file, poll };
    };
    expect(await (await begin()).poll(0)).toEqual({ steps: 6, asked: ['1', '2', '3'] });
    // Killed before the nth commit, or after it: the page of that commit is asked for again, or not.
    const expected = [['1', '2', '3'], ['2', '3'], ['2', '3'], ['3'], ['3']];
    for (const [index, asked] of expected.entries()) {
      const { at, file, poll } = await begin();
      expect(await poll(index + 1)).toBe('SIGKILL');
      await isOver(at);
      expect(await poll(0)).toMatchObject({ asked });
      const store = await openStore({ file });
      expect((await inboxOf(store)).map((row) => row.body)).toEqual(['page 1', 'page 2', 'page 3']);
      expect(await store.query.selectFrom('polls').selectAll().execute()).toMatchObject([
        { watermark: '2026-01-04T00:00:00Z', etag: '"1"', walk: null },
      ]);
      await store.close();
    }
  });
});
