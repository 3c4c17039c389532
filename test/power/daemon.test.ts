import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { afterAll, describe, expect, it } from 'vitest';
import { complaintsOf } from '../../src/platform/database/sqlite.ts';
import { throwAll } from '../../src/platform/lib/concurrency.ts';
import { INSTALLATION_FILE } from '../../src/store/installation/installation.ts';
import { createChance } from '../bench/quota/references/chance.ts';
import { type ChildStart, QUOTA, type Site, type Witness } from '../support/faults/crash-site.ts';
import { expectGoodEnd, openWithTasks, STORY } from '../support/faults/crash-story.ts';
import { type Before, type Change, diskAfter, lay, MANNERS, makeRecorder, readRecord } from './disk.ts';

/** How many power failures are drawn; `npm run test:power` says more. After one of ten a whole daemon goes on. */
const RUNS = Number(process.env['TEST_POWER_RUNS'] ?? 200);
const WHOLE_RUNS = Math.ceil(RUNS / 10);
/** A failure names its seed: that number as `TEST_SEED` begins with it. */
const SEED = Number(process.env['TEST_SEED'] ?? Math.floor(Math.random() * 1e9));
/** Most of a run is spent waiting for the quota, so more run at once than there are processors. */
const AT_ONCE = 3 * availableParallelism();
/** Milliseconds; it only ends what hangs. */
const HANGS = 6 * 3_600_000;
/** Nothing of the data folder was there before. */
const NOTHING: Before = { files: [], folders: [] };

const recorder = makeRecorder();
const scratch = mkdtempSync(join(tmpdir(), 'worksync-power-'));

afterAll(() => {
  recorder?.remove();
  rmSync(scratch, { recursive: true });
});

interface Settings {
  readonly record: string;
  /** The change of a file, or the sync, before which the power goes; 0: never. */
  readonly cut: number;
  /** Pages of the log after which they go into the database. */
  readonly checkpoint: number;
  readonly isSynchronous?: boolean;
}

function startOf(folder: string, { record, cut, checkpoint, isSynchronous = true }: Settings): ChildStart {
  if (!recorder) throw new Error('there is no compiler');
  return {
    flags: ['--import', join(import.meta.dirname, 'sqlite-settings.ts')],
    env: {
      ...recorder.environment({ folder, record, cut }),
      POWER_CHECKPOINT: String(checkpoint),
      ...(!isSynchronous && { POWER_SYNCHRONOUS: 'off' }),
    },
  };
}

/** The facts that must survive a power failure. Times of the fast clock. */
interface Promised {
  readonly acknowledged: readonly string[];
  readonly requests: readonly number[];
}

/** An undisturbed run: what it did to the disk, and after how many of these changes it had promised what. */
interface Recording {
  readonly folder: string;
  readonly changes: readonly Change[];
  readonly acknowledged: readonly { readonly id: string; readonly after: number }[];
  readonly requests: readonly { readonly at: number; readonly after: number }[];
}

async function recordRun(settings: Omit<Settings, 'record' | 'cut'>): Promise<Recording> {
  const record = join(scratch, 'whole.record');
  const acknowledged: Recording['acknowledged'][number][] = [];
  const requests: Recording['requests'][number][] = [];
  const after = () => readRecord(record).length;
  const witness: Witness = {
    acknowledged: (id) => void acknowledged.push({ id, after: after() }),
    requested: (at) => void requests.push({ at, after: after() }),
  };
  const { site } = await openWithTasks(witness);
  try {
    const end = await site.runChild(STORY, 0, startOf(site.data, { ...settings, record, cut: 0 }));
    expect(end.killed).toBe(false);
    return { folder: site.data, changes: readRecord(record), acknowledged, requests };
  } finally {
    rmSync(record, { force: true });
    await site.close();
  }
}

/** One disk of many that a power failure in the middle of the run may leave. @returns what is wrong with it */
function faultsOfDisk({ folder, changes, acknowledged, requests }: Recording, seed: number): readonly string[] {
  const chance = createChance(seed);
  const cut = chance.whole(0, changes.length);
  const manner = MANNERS[chance.whole(0, MANNERS.length - 1)] ?? 'sectors';
  const place = join(scratch, 'disk');
  lay(diskAfter(NOTHING, changes.slice(0, cut), manner, chance.float), folder, place);
  const promised = {
    acknowledged: acknowledged.filter(({ after }) => after <= cut).map(({ id }) => id),
    requests: requests.filter(({ after }) => after <= cut).map(({ at }) => at),
  };
  const what = `seed ${seed}, cut after change ${cut}, ${manner}`;
  return faultsOf(place, promised).map((fault) => `${what}: ${fault}`);
}

/** Looks at a data folder as it was left, which it changes by that. */
function faultsOf(folder: string, { acknowledged, requests }: Promised): readonly string[] {
  const file = join(folder, INSTALLATION_FILE);
  if (!existsSync(file)) return [...acknowledged, ...requests].map((lost) => `no database, and lost: ${lost}`);
  const complaints = complaintsOf(file);
  if (complaints.length > 0) return complaints;
  const database = new BetterSqlite(file);
  const has = (table: string) => database.prepare('select 1 from sqlite_schema where name = ?').get(table);
  const rows = <Row>(table: string, sql: string) => (has(table) ? (database.prepare(sql).all() as Row[]) : []);
  const stored = rows<{ delivery_key: string }>('inbox', 'select delivery_key from inbox').map(
    (row) => row.delivery_key,
  );
  const ledger = rows<{ started: number }>('ledger', 'select started from ledger').map((row) => row.started);
  database.close();
  const lost = acknowledged.filter((id) => !stored.includes(id)).map((id) => `acknowledged, and lost: ${id}`);
  // Only requests that still counted in the long window; the ledger forgets others.
  const latest = Math.max(...requests, ...ledger);
  const counting = requests.filter((at) => at > latest - QUOTA.window);
  if (ledger.length >= counting.length) return lost;
  return [...lost, `${counting.length} requests were sent, and the ledger knows ${ledger.length}`];
}

/** Cuts the power of a daemon, and lets another one go on. @returns whether the power went before everything was done */
async function survive(seed: number, changes: number): Promise<boolean> {
  const chance = createChance(seed);
  const { site, tasks } = await openWithTasks();
  try {
    const cut = chance.whole(1, changes);
    const record = join(scratch, `${seed}.record`);
    const settings = { record, cut, checkpoint: chance.whole(4, 60) };
    const end = await site.runChild(STORY, 0, startOf(site.data, settings));
    const manner = MANNERS[chance.whole(0, MANNERS.length - 1)] ?? 'sectors';
    if (end.killed) lay(diskAfter(NOTHING, readRecord(record), manner, chance.float), site.data);
    const what = `TEST_SEED=${seed}, cut before change ${cut}, ${manner}`;
    expect(faultsOfCopy(site).map((fault) => `${what}: ${fault}`)).toEqual([]);
    await expectGoodEnd(site, tasks, what);
    return end.killed;
  } finally {
    await site.close();
  }
}

function faultsOfCopy({ data, acknowledged, seen }: Site): readonly string[] {
  const copy = mkdtempSync(join(scratch, 'copy-'));
  try {
    if (existsSync(data)) cpSync(data, copy, { recursive: true });
    return faultsOf(copy, { acknowledged: [...acknowledged], requests: seen.arrivals });
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** The first failure ends it, when those that run have ended. */
async function inParallel(seeds: readonly number[], work: (seed: number) => Promise<void>): Promise<void> {
  const left = [...seeds];
  const failures: unknown[] = [];
  const worker = async () => {
    for (let seed = left.shift(); seed !== undefined && failures.length === 0; seed = left.shift()) {
      await work(seed).catch((error: unknown) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  throwAll(failures);
}

const seedsOf = (count: number) => Array.from({ length: count }, (_, index) => SEED + index);

it.runIf(!recorder)('is left out: these tests need Linux and a C compiler that answers to cc', () => {
  expect(recorder).toBeUndefined();
});

describe.runIf(recorder)('when the power goes', { timeout: HANGS }, () => {
  let changes = 0;

  it('each disk that may be left has what was acknowledged, and all requests that count', async () => {
    const recording = await recordRun({ checkpoint: 20 });
    changes = recording.changes.length;
    expect(recording.acknowledged).toHaveLength(STORY.flat().length);
    expect(recording.requests.length).toBeGreaterThanOrEqual(9);
    expect(seedsOf(RUNS).flatMap((seed) => faultsOfDisk(recording, seed))).toEqual([]);
  });

  it('the next daemon loses nothing, doubles nothing and keeps both windows', async () => {
    expect(changes).toBeGreaterThan(100);
    let cuts = 0;
    await inParallel(seedsOf(WHOLE_RUNS), async (seed) => {
      if (await survive(seed, changes)) cuts++;
    });
    // Runs differ in how often they checkpoint, so some end before their cut.
    expect(cuts).toBeGreaterThan(WHOLE_RUNS / 2);
  });
});
