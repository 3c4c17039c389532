import { describe, expect, it } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { workItemKey } from '../../../../src/model/item.ts';
import { createWakeSignal } from '../../../../src/platform/lib/clock.ts';
import type { Schedule } from '../../../../src/platform/lib/scheduler.ts';
import { blankEntity, saveEntity } from '../../../../src/store/changes/entities.ts';
import { removeChange } from '../../../../src/store/changes/outbox-rows.ts';
import { saveItem } from '../../../../src/store/items/items.ts';
import type { RecordsRoute } from '../../../../src/store/workspace/server-capabilities.ts';
import { writeServerFact } from '../../../../src/store/workspace/server-facts.ts';
import type { Store } from '../../../../src/store/workspace-scope.ts';
import { SWEEP, workspaceSweepJobs } from '../../../../src/sync/outbox/sweep-jobs.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';
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
  const settings = { quota, workspace: { sweep: when }, recordsPullRequests };
  const jobs = workspaceSweepJobs(workspaceContext({ store, clock, outbox }, settings));
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
});
