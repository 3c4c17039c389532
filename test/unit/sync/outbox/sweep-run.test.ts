import { describe, expect, it } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { workItemKey } from '../../../../src/model/item.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import type { Schedule } from '../../../../src/platform/lib/scheduler.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { blankEntity, saveEntity } from '../../../../src/store/changes/entities.ts';
import { removeChange, updateChange } from '../../../../src/store/changes/outbox-rows.ts';
import type { Store } from '../../../../src/store/database.ts';
import { saveItem } from '../../../../src/store/items/items.ts';
import type { RecordsRoute } from '../../../../src/store/workspace/server-capabilities.ts';
import { writeServerFact } from '../../../../src/store/workspace/server-facts.ts';
import { readSweepPosition } from '../../../../src/store/workspace/sweep-position.ts';
import { enqueueReads } from '../../../../src/store/workspace/workspace-reads.ts';
import type { OutboxContext } from '../../../../src/sync/outbox/outbox-context.ts';
import { SWEEP, workspaceSweepJobs } from '../../../../src/sync/outbox/sweep-jobs.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { itemRow } from '../../../support/rows/items.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Stores tasks, each with a link to a work item. */
async function linkTasks({ query }: Store, count: number): Promise<void> {
  for (const number of Array.from({ length: count }).keys()) {
    const [key, taskId] = [workItemKey('jira', 'cloud', `${number}`), `t${number}`];
    const row = blankEntity(entity.link(key, taskId), 'link', { item_key: key, task_id: taskId, known_at: 1 });
    await saveEntity(query, { ...row, known: '{}' });
    await saveItem(query, itemRow(key), 1);
  }
}

/** Returns a job of the sweep. The quota allows this many reads of links in a day. */
function jobOver(
  store: Store,
  name: string,
  {
    when = { everyMs: DAY } as Schedule,
    recordsPullRequests = true,
    readsPerDay = 4,
    clock = createTravellingClock(),
  } = {},
) {
  const outbox = createWakeSignal();
  const quota = { requests: 50 * readsPerDay, window: DAY };
  const parts = { store, clock, logger: silentLogger, outbox, recordsPullRequests } as unknown as OutboxContext;
  const jobs = workspaceSweepJobs(parts, when, quota);
  const run = async (signal = new AbortController().signal) => jobs.find((job) => job.name === name)?.run(signal);
  return { clock, outbox, run, names: jobs.map((job) => job.name) };
}

const read = ({ query }: Store) =>
  query.selectFrom('outbox').select(['entity', 'next_since', 'since', 'lane']).orderBy('entity').execute();
const entities = async (store: Store) => (await read(store)).map((row) => row.entity);
/** Answers all reads. */
const answerAll = ({ query }: Store) => query.deleteFrom('outbox').execute();

it.each<[count: number, readsPerDay: number, when: Schedule]>([
  // The fourth read would be at nine tenths of this interval.
  [3, 4, { everyMs: 20 * HOUR }],
  [4, 4, { everyMs: 20 * HOUR + 1 }],
  [4, 4, 'off'],
  [1, 0, { everyMs: DAY }],
])('requests %i reads in one run, at %i reads a day with the schedule %j', async (count, readsPerDay, when) => {
  const store = await openTestStore();
  await linkTasks(store, 9);
  const { clock, run } = jobOver(store, 'workspace.links', { when, readsPerDay });
  let isOver = false;
  void run().then(() => {
    isOver = true;
  });
  let requested = 0;
  while (!isOver && clock.elapsed() < 2 * DAY) {
    await clock.advance(60_000);
    requested += (await read(store)).length;
    await answerAll(store);
  }
  expect([isOver, requested]).toEqual([true, count]);
});

it('continues where the process ended, and after the last task begins again with the first', async () => {
  const store = await openTestStore();
  await linkTasks(store, 3);
  const clock = createTravellingClock();
  /** Runs the job until the process ends after some hours. Returns the reads, each answered at once. */
  async function runFor(hours: number): Promise<string[]> {
    const stopping = new AbortController();
    const running = jobOver(store, 'workspace.links', { clock, readsPerDay: 24 }).run(stopping.signal);
    const seen: string[] = [];
    for (let minutes = 0; minutes < 60 * hours; minutes++) {
      await clock.advance(60_000);
      seen.push(...(await entities(store)));
      await answerAll(store);
    }
    stopping.abort();
    await clock.advance(HOUR);
    await running;
    return seen;
  }
  const [first, second, third] = ['t0', 't1', 't2'].map(entity.readLinks);
  expect(await runFor(1.5)).toEqual([first, second]);
  expect(await runFor(2)).toEqual([third]);
  expect((await readSweepPosition(store.query))?.endedAt).not.toBeNull();
  expect(await runFor(0.5)).toEqual([first]);
});

it('waits for the answer to its last read, and for the time between two reads', async () => {
  const store = await openTestStore();
  await linkTasks(store, 3);
  const stopping = new AbortController();
  const { clock, run } = jobOver(store, 'workspace.links', { readsPerDay: 24 });
  const running = run(stopping.signal);
  await clock.advance(5 * HOUR);
  expect(await entities(store)).toEqual([entity.readLinks('t0')]);
  await answerAll(store);
  await clock.advance(30_000);
  expect(await entities(store)).toEqual([entity.readLinks('t1')]);
  await answerAll(store);
  await clock.advance(HOUR - 60_000);
  expect(await entities(store)).toEqual([]);
  await clock.advance(2 * 60_000);
  expect(await read(store)).toMatchObject([{ entity: entity.readLinks('t2'), lane: 'backfill' }]);
  stopping.abort();
  await running;
  expect(clock.pending).toBe(0);
});

const RECORDS = [entity.readPullRequests];
const TASKS = [entity.readTasks];

it.each<[state: RecordsRoute['state'], recordsPullRequests: boolean, lists: readonly string[]]>([
  ['open', true, [...RECORDS, ...TASKS]],
  ['closed', true, TASKS],
  ['unknown', true, TASKS],
  ['open', false, TASKS],
])('with a route for records that is %s, and connections that use it: %j, lists %j', async (state, uses, lists) => {
  const store = await openTestStore();
  await writeServerFact(store.query, 'records', { state, since: 0 });
  const { clock, run, names } = jobOver(store, SWEEP, { recordsPullRequests: uses });
  expect(names.includes('workspace.records')).toBe(uses);
  const sweeps = () => store.query.selectFrom('workspace_sweeps').select(['tasks_at', 'records_at']).execute();
  await run();
  const first = [{ tasks_at: null, records_at: lists === TASKS ? clock.now() : null }];
  expect([await entities(store), await sweeps()]).toEqual([lists, first]);
  await clock.advance(HOUR);
  await run();
  expect(await sweeps()).toEqual(first);
});

it('requests a missing list again, but not one that is pending', async () => {
  const store = await openTestStore();
  await writeServerFact(store.query, 'records', { state: 'open', since: 0 });
  const { clock, run } = jobOver(store, SWEEP);
  await run();
  const first = { since: clock.now(), lane: 'backfill' };
  await removeChange(store.query, entity.readTasks);
  await clock.advance(HOUR);
  await run();
  const [records, tasks] = [...RECORDS, ...TASKS].map((name) => ({ entity: name, ...first }));
  expect(await read(store)).toMatchObject([{ ...records }, { ...tasks, since: clock.now() }]);
});

it('lists the tasks again after a read that was in flight before the sweep began', async () => {
  const store = await openTestStore();
  await enqueueReads(store.query, TASKS, 1);
  await updateChange(store.query, entity.readTasks, { state: 'sending' });
  const { clock, run } = jobOver(store, SWEEP);
  await run();
  expect(await read(store)).toMatchObject([{ entity: entity.readTasks, next_since: clock.now() }]);
});

describe('a route for records', () => {
  const JOB = 'workspace.records';

  it.each<[state: RecordsRoute['state'], age: number, isTried: boolean]>([
    ['closed', DAY / 2 - 1, false],
    ['closed', DAY / 2, true],
    ['open', DAY, false],
  ])('that is %s for %i ms is tried: %j', async (state, age, isTried) => {
    const store = await openTestStore();
    const { clock, outbox, run } = jobOver(store, JOB);
    await writeServerFact(store.query, 'records', { state, since: clock.now() - age });
    await run();
    await outbox.wait();
    expect(await entities(store)).toEqual(isTried ? RECORDS : []);
  });

  it.each([SWEEP, JOB])(
    'that is closed is regarded by the owner of the workspace alone, in one transaction of the job %s',
    async (name) => {
      const getReady = async (store: Store) => {
        await writeServerFact(store.query, 'records', { state: 'closed', since: 0 });
        return jobOver(store, name).run;
      };
      expect(await remainsOf(getReady)).toEqual([]);
    },
  );
});
