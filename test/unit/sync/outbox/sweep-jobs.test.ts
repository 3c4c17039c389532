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
import { createTravellingClock, type TravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
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

/** Runs the job for `ms` and answers each read at once. Returns the entities that were read. */
async function readFor(store: Store, clock: TravellingClock, ms: number): Promise<string[]> {
  const quota = { requests: 200, window: 15 * MINUTE };
  const parts = {
    clock,
    logger: silentLogger,
    outbox: createWakeSignal(),
    when: { everyMs: 24 * HOUR } as const,
    quota,
  };
  const job = workspaceSweepJobs({ store, recordsPullRequests: true, ...parts }).find(
    ({ name }) => name === 'workspace.links',
  );
  const stopping = new AbortController();
  const run = job?.run(stopping.signal);
  const read: string[] = [];
  for (const end = clock.elapsed() + ms; clock.elapsed() < end; ) {
    await clock.advance(MINUTE / 2);
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
    for (const row of await store.query.selectFrom('outbox').select(['entity', 'lane']).execute()) {
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
  expect(
    await remainsOf(async (store) => {
      const clock = createTravellingClock();
      if (isRunning) await store.commit((query) => beginSweep(query, clock.now()));
      const quota = { requests: 200, window: 15 * MINUTE };
      const jobs = workspaceSweepJobs({
        recordsPullRequests: true,
        store,
        clock,
        logger: silentLogger,
        outbox: createWakeSignal(),
        when: { everyMs: HOUR },
        quota,
      });
      return async () => jobs.find(({ name }) => name === SWEEP)?.run(new AbortController().signal);
    }),
  ).toEqual([]);
});

/** Returns the job of this name, and its clock. */
async function jobOver(store: Store, name: string, outbox = createWakeSignal()) {
  const clock = createTravellingClock();
  const quota = { requests: 200, window: 15 * MINUTE };
  const jobs = workspaceSweepJobs({
    recordsPullRequests: true,
    ...{ store, clock, logger: silentLogger, outbox, quota },
    when: { everyMs: HOUR },
  });
  const job = jobs.find((each) => each.name === name);
  if (!job) throw new Error(`there is no job ${name}`);
  return { clock, job };
}

it.each([false, true])(
  'rejects and stores nothing when any statement of a sweep fails, running: %s',
  async (isRunning) => {
    expect(
      await wrongWhereStatementsFail(async (store) => {
        if (isRunning) await store.commit((query) => beginSweep(query, 1));
        const { job } = await jobOver(store, SWEEP);
        return async () => job.run(new AbortController().signal);
      }),
    ).toEqual([]);
  },
);

it('rejects and requests no read without its position when any statement fails', async () => {
  expect(
    await wrongWhereStatementsFail(async (store) => {
      await linkedTasks(1, store);
      const { clock, job } = await jobOver(store, 'workspace.links');
      return async () => {
        const stopping = new AbortController();
        // Without a failure the job waits for an answer at this time.
        const run = Promise.resolve(job.run(stopping.signal));
        const isOver = run.then(
          () => true,
          () => true,
        );
        await clock.advance(MINUTE);
        stopping.abort();
        await isOver;
        return run;
      };
    }),
  ).toEqual([]);
});

it('requests a missing list again, but not one that is pending', async () => {
  const store = await openTestStore();
  await writeServerFact(store.query, 'records', { state: 'open', since: 0 });
  const outbox = createWakeSignal();
  const { clock, job } = await jobOver(store, SWEEP, outbox);
  const run = async () => {
    await job.run(new AbortController().signal);
    await outbox.wait();
  };
  const reads = async () =>
    store.query.selectFrom('outbox').select(['entity', 'since', 'lane']).orderBy('entity').execute();
  await run();
  const first = { since: clock.now(), lane: 'backfill' };
  const [records, tasks] = [entity.readPullRequests, entity.readTasks];
  expect(await reads()).toEqual([records, tasks].map((name) => ({ entity: name, ...first })));
  await removeChange(store.query, tasks);
  await clock.advance(HOUR);
  await run();
  const again = { since: clock.now(), lane: 'backfill' };
  expect(await reads()).toEqual([
    { entity: records, ...first },
    { entity: tasks, ...again },
  ]);
});

it('waits for the answer to its last read, and for the time between two reads', async () => {
  const store = await linkedTasks(3);
  const { clock, job } = await jobOver(store, 'workspace.links');
  const stopping = new AbortController();
  const run = job.run(stopping.signal);
  const reads = async () =>
    (await store.query.selectFrom('outbox').select('entity').execute()).map((row) => row.entity);
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
  await run;
  expect(clock.pending).toBe(0);
});

it('asks for the records of a workspace without a route again once a day, and not just after a refusal', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const parts = {
    store,
    clock,
    logger: silentLogger,
    outbox: createWakeSignal(),
    quota: { requests: 200, window: 15 * MINUTE },
  };
  const jobs = workspaceSweepJobs({ ...parts, recordsPullRequests: true, when: { everyMs: 24 * HOUR } });
  const run = () => jobs.find(({ name }) => name === 'workspace.records')?.run(new AbortController().signal);
  const reads = async () => (await store.query.selectFrom('outbox').select('entity').execute()).length;
  await writeServerFact(store.query, 'records', { state: 'closed', since: clock.now() });
  await run();
  expect(await reads()).toBe(0);
  await clock.advance(24 * HOUR);
  await run();
  expect(await reads()).toBe(1);
});
