import { expect, it } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { workItemKey } from '../../../../src/model/item.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, saveEntity } from '../../../../src/store/entities.ts';
import { saveItem } from '../../../../src/store/items.ts';
import { removeChange } from '../../../../src/store/outbox-rows.ts';
import { writeServerFact } from '../../../../src/store/server-facts.ts';
import { readSweepPosition } from '../../../../src/store/sweep-position.ts';
import { beginSweep } from '../../../../src/store/workspace-sweeps.ts';
import { SWEEP, workspaceSweepJobs } from '../../../../src/sync/outbox/sweep-jobs.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { itemRow } from '../../../support/rows/items.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Reads in a day: 2 % of 200 requests in 15 minutes. */
const READS_PER_DAY = 384;

/** Stores tasks, each with a link to a work item. */
async function linkedTasks(count: number, store?: Store): Promise<Store> {
  store ??= await openTestStore();
  for (let number = 0; number < count; number++) {
    const key = workItemKey('jira', 'cloud', String(number));
    const taskId = `t${String(number).padStart(3, '0')}`;
    const row = blankEntity(entity.link(key, taskId), 'link', { item_key: key, task_id: taskId, known_at: 1 });
    await saveEntity(store.query, { ...row, known: '{}' });
    await saveItem(store.query, itemRow(key), 1);
  }
  return store;
}

/** Returns the job of this name. */
function jobOver(store: Store, name: string, { clock = createTravellingClock(), outbox = createWakeSignal() } = {}) {
  const quota = { requests: 200, window: 15 * MINUTE };
  const parts = { store, clock, logger: silentLogger, outbox, quota, recordsPullRequests: true };
  const job = workspaceSweepJobs({ ...parts, when: { everyMs: 24 * HOUR } }).find((each) => each.name === name);
  if (!job) throw new Error(`there is no job ${name}`);
  return { clock, outbox, run: (signal = new AbortController().signal) => job.run(signal) };
}

const pending = (store: Store) =>
  store.query.selectFrom('outbox').select(['entity', 'since', 'lane']).orderBy('entity').execute();

/** Runs the job for `ms` and answers each read at once. Returns the entities that were read. */
async function readFor(store: Store, clock: TravellingClock, ms: number): Promise<string[]> {
  const stopping = new AbortController();
  const run = jobOver(store, 'workspace.links', { clock }).run(stopping.signal);
  const read: string[] = [];
  for (const end = clock.elapsed() + ms; clock.elapsed() < end; ) {
    await clock.advance(MINUTE / 2);
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
    for (const row of await pending(store)) {
      expect(row.lane).toBe('backfill');
      read.push(row.entity);
      await removeChange(store.query, row.entity);
    }
  }
  stopping.abort();
  await clock.advance(MINUTE);
  await run;
  return read;
}

it('reads links of work items one by one with at most 2 % of the quota, and continues after a restart', async () => {
  const store = await linkedTasks(60);
  const clock = createTravellingClock();
  const first = await readFor(store, clock, 2 * HOUR);
  const second = await readFor(store, clock, HOUR);
  expect(first.length).toBeGreaterThan(0.8 * (READS_PER_DAY / 12));
  expect(first.length).toBeLessThanOrEqual(READS_PER_DAY / 12 + 1);
  expect(first.length + second.length).toBeLessThanOrEqual(READS_PER_DAY / 8 + 1);
  const all = [...first, ...second];
  expect(all).toEqual(all.map((_, at) => entity.readLinks(`t${String(at).padStart(3, '0')}`)));
  expect(await readSweepPosition(store.query)).toMatchObject({ endedAt: null, read: all.length });
});

it('stores the end of a sweep, and starts the next one at the first task', async () => {
  const store = await linkedTasks(2);
  const clock = createTravellingClock();
  const names = [entity.readLinks('t000'), entity.readLinks('t001')];
  expect(await readFor(store, clock, HOUR)).toEqual(names);
  expect((await readSweepPosition(store.query))?.endedAt).not.toBeNull();
  expect(await readFor(store, clock, HOUR)).toEqual(names);
});

it.each([
  ['starts a sweep', false],
  ['requests missing lists again', true],
])('%s in one transaction', async (_name, isRunning) => {
  const getReady = async (store: Store) => {
    const { clock, run } = jobOver(store, SWEEP);
    if (isRunning) await store.commit((query) => beginSweep(query, clock.now()));
    return async () => run();
  };
  expect(await remainsOf(getReady)).toEqual([]);
});

it('requests a missing list again, but not one that is pending', async () => {
  const store = await openTestStore();
  await writeServerFact(store.query, 'records', { state: 'open', since: 0 });
  const { clock, outbox, run } = jobOver(store, SWEEP);
  await run();
  await outbox.wait();
  const first = { since: clock.now(), lane: 'backfill' };
  const [records, tasks] = [entity.readPullRequests, entity.readTasks];
  expect(await pending(store)).toEqual([records, tasks].map((name) => ({ entity: name, ...first })));
  await removeChange(store.query, tasks);
  await clock.advance(HOUR);
  await run();
  await outbox.wait();
  expect(await pending(store)).toEqual([
    { entity: records, ...first },
    { entity: tasks, ...first, since: clock.now() },
  ]);
});

it('waits for the answer to its last read, and for the time between two reads', async () => {
  const store = await linkedTasks(3);
  const { clock, run } = jobOver(store, 'workspace.links');
  const stopping = new AbortController();
  const running = run(stopping.signal);
  const reads = async () => (await pending(store)).map((row) => row.entity);
  await clock.advance(20 * MINUTE);
  expect(await reads()).toEqual([entity.readLinks('t000')]);
  await removeChange(store.query, entity.readLinks('t000'));
  await clock.advance(MINUTE / 2);
  expect(await reads()).toEqual([entity.readLinks('t001')]);
  await removeChange(store.query, entity.readLinks('t001'));
  // One read takes a day divided by 384.
  await clock.advance(3 * MINUTE);
  expect(await reads()).toEqual([]);
  await clock.advance(MINUTE);
  expect(await reads()).toEqual([entity.readLinks('t002')]);
  stopping.abort();
  await running;
  expect(clock.pending).toBe(0);
});

it('asks for the records of a workspace without a route once a day, and not just after a refusal', async () => {
  const store = await openTestStore();
  const { clock, run } = jobOver(store, 'workspace.records');
  await writeServerFact(store.query, 'records', { state: 'closed', since: clock.now() });
  await run();
  expect(await pending(store)).toEqual([]);
  await clock.advance(24 * HOUR);
  await run();
  expect(await pending(store)).toMatchObject([{ entity: entity.readPullRequests }]);
  await removeChange(store.query, entity.readPullRequests);
  await writeServerFact(store.query, 'records', { state: 'open', since: 0 });
  await run();
  expect(await pending(store)).toEqual([]);
});
