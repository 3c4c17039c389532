import { expect, test } from 'vitest';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference } from '../../../../src/store/outbox-rows.ts';
import { enqueueReads } from '../../../../src/store/workspace-reads.ts';
import { createOutbox } from '../../../../src/sync/outbox/outbox.ts';
import type { SendContext } from '../../../../src/sync/outbox/outbox-context.ts';
import { createWorkspaceClient } from '../../../../src/workspace-api/typed-client.ts';
import { type Answer, added, BASE_URL, linkOf, outboxBench } from '../../../support/cost/outbox-bench.ts';
import { remainsOf, remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { withoutTable } from '../../../support/faults/without-table.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

const item = 'jira:cloud:issue:9';
const name = `task:${item}`;

/** Returns the start of an outbox whose process died with two links in flight and a pending creation. */
async function startAfterCrash(store: Store): Promise<() => Promise<void>> {
  const { throttle, client, clock, slot, take } = await outboxBench(store, 2);
  for (const number of [1, 2]) await take(await slot(), linkOf(number));
  await store.commit(async (query) => {
    await saveEntity(query, blankEntity(name, 'task', { item_key: item, desired: '{}' }));
    const request = { kind: 'task', lane: 'triage', since: clock.now(), due: clock.now(), weight: 1 } as const;
    await addDifference(query, { entity: name, ...request, waiting: [] });
  });
  const parts = { logger: silentLogger, meter: silentMeter, random: systemRandom() };
  const outbox = createOutbox({
    ...{
      recordsPullRequests: true,
      baseUrl: BASE_URL,
      linksAreIdempotent: false,
      taskUpdates: { form: 'whole', words: {} },
    },
    ...{ store, throttle, client, clock, ...parts },
    ...{ outbox: createWakeSignal(), inbox: createWakeSignal() },
  });
  return async () => {
    outbox.start();
    // The start ends when its first transaction is committed.
    await outbox.stop();
  };
}

test('makes requests in flight pending at the start, and delays creations until a list of tasks', async () => {
  const store = await openTestStore();
  const start = await startAfterCrash(store);
  await start();
  const rows = await store.query.selectFrom('outbox').selectAll().orderBy('entity').execute();
  expect(rows.map(({ entity, state, not_before }) => [entity, state, not_before > 0])).toEqual([
    [linkOf(1), 'pending', false],
    [linkOf(2), 'pending', false],
    ['read:tasks', 'pending', false],
    [name, 'pending', true],
  ]);
  const history = await store.query.selectFrom('requests').select(['entity', 'outcome']).orderBy('entity').execute();
  expect(history.map(({ outcome }) => outcome)).toEqual(['unknown', 'unknown']);
});

test('stores the start in one transaction', async () => {
  expect(await remainsOf(startAfterCrash)).toEqual([]);
});

test('stores nothing of the start and logs the error when any statement fails', async () => {
  expect(await wrongWhereStatementsFail(startAfterCrash, { isQuiet: true })).toEqual([]);
});

test('requeues nothing after it lost the workspace to another process', async () => {
  const getReady = async (store: Store) => {
    const { outbox, wakeSignal, clock, slot, take } = await setUpOver(store, 0);
    outbox.start();
    await clock.advance(1_000);
    await addLink(store, clock.now(), 1);
    await take(await slot(), linkOf(1));
    await addLink(store, clock.now());
    return async () => {
      wakeSignal.notify();
      await clock.advance(60_000);
      await outbox.stop();
    };
  };
  expect(await remainsOfLost(getReady)).toEqual([]);
});

/** Opens an outbox with pending links. */
async function setUp(links: number, answer?: Parameters<typeof outboxBench>[2]) {
  return setUpOver(await openTestStore(), links, answer);
}

async function setUpOver<Own extends Store>(store: Own, links: number, answer?: Parameters<typeof outboxBench>[2]) {
  const bench = await outboxBench(store, links, answer);
  let commits = 0;
  /** The numbers of commits whose acknowledgement is lost. */
  const lostAcks = new Set<number>();
  /** By number, commits whose acknowledgement waits for a promise. */
  const delayedAcks = new Map<number, Promise<void>>();
  const commit: Store['commit'] = async (work) => {
    const result = await store.commit(work);
    const number = ++commits;
    await delayedAcks.get(number);
    if (lostAcks.has(number)) throw new Error('the connection was lost');
    return result;
  };
  const wakeSignal = createWakeSignal();
  const inbox = createWakeSignal();
  const lags: number[] = [];
  let writes = 0;
  const outbox = createOutbox({
    ...{
      recordsPullRequests: true,
      baseUrl: BASE_URL,
      linksAreIdempotent: false,
      taskUpdates: { form: 'whole', words: {} },
    },
    ...{
      store: { ...store, commit },
      throttle: bench.throttle,
      client: bench.client,
      clock: bench.clock,
      outbox: wakeSignal,
      inbox,
    },
    ...{ logger: silentLogger, meter: silentMeter, random: systemRandom() },
    onWrite: () => void writes++,
    onLag: (lag) => void lags.push(lag),
  });
  const waiting = async () => (await store.query.selectFrom('outbox').select('entity').execute()).length;
  const untilDone = async () => {
    while ((await waiting()) > 0) await bench.clock.toNextTimer();
  };
  return {
    ...bench,
    store,
    wakeSignal,
    inbox,
    outbox,
    lags,
    untilDone,
    waiting,
    writes: () => writes,
    lostAcks,
    delayedAcks,
  };
}

const GONE = 't404';

test('sends all pending changes, and later ones after a wake-up', async () => {
  const { outbox, store, wakeSignal, inbox, writes, untilDone, clock } = await setUp(3, (taskId) =>
    taskId === GONE ? { status: 404, json: { code: 404, message: 'no such task', errorCode: 'not_found' } } : added(1),
  );
  outbox.start();
  outbox.start();
  await untilDone();
  await inbox.wait();
  expect(writes()).toBe(3);
  await store.commit((query) => enqueueReads(query, [`read:links:${GONE}`], clock.now()));
  await clock.advance(1);
  expect(await store.query.selectFrom('outbox').select('state').execute()).toEqual([{ state: 'pending' }]);
  wakeSignal.notify();
  await untilDone();
  // A read makes no cache stale.
  expect(writes()).toBe(3);
  await outbox.stop();
  expect(outbox.inFlight).toBe(0);
});

test('continues after the database failed for a while', async () => {
  const { outbox, store, wakeSignal, clock, untilDone, waiting } = await setUp(1);
  await withoutTable(store.database, 'outbox', async () => {
    outbox.start();
    await clock.advance(60_000);
  });
  expect(await waiting()).toBe(1);
  await untilDone();
  await withoutTable(store.database, 'ledger', async () => {
    await addLink(store, clock.now());
    wakeSignal.notify();
    await clock.advance(60_000);
  });
  expect(await waiting()).toBe(1);
  await untilDone();
  await outbox.stop();
});

test.each([1, 2, 3, 4, 5])('sends each change once if the acknowledgement of commit %s is lost', async (lost) => {
  const sent: string[] = [];
  const { outbox, clock, untilDone, lostAcks, throttle } = await setUp(2, (taskId) => {
    sent.push(taskId);
    return added(Number(taskId.slice(1)));
  });
  lostAcks.add(lost);
  outbox.start();
  await untilDone();
  await clock.advance(60_000);
  await outbox.stop();
  expect(sent.toSorted()).toEqual(['t1', 't2']);
  expect(throttle.used().used).toBe(2);
});

test('requeues no change that is sent a second time, however late the first commit is acknowledged', async () => {
  const sent: string[] = [];
  const answer = Promise.withResolvers<Answer>();
  const { outbox, store, wakeSignal, clock, untilDone, lostAcks, delayedAcks } = await setUp(1, (taskId) => {
    sent.push(taskId);
    return sent.length === 2 ? answer.promise : added(Number(taskId.slice(1)));
  });
  const settled = Promise.withResolvers<void>();
  delayedAcks.set(3, settled.promise);
  /** Adds a link and waits until the stage is idle. */
  const addAndWait = async (number: number) => {
    await addLink(store, clock.now(), number);
    wakeSignal.notify();
    await clock.advance(10_000);
  };
  outbox.start();
  await clock.advance(10_000);
  await addAndWait(1);
  expect(sent).toEqual(['t1', 't1']);
  settled.resolve();
  await clock.advance(1);
  lostAcks.add(5);
  await addAndWait(9);
  answer.resolve(added(1));
  await untilDone();
  await outbox.stop();
  expect(sent).toEqual(['t1', 't1', 't9']);
});

async function addLink(store: Store, now: number, number = 9) {
  const ids = { task_id: `t${number}`, desired: '{"url":"u"}' };
  await saveEntity(store.query, blankEntity(linkOf(number), 'link', ids));
  const request = { entity: linkOf(number), kind: 'link', lane: 'link', since: now, due: now, weight: 1 } as const;
  await addDifference(store.query, { ...request, waiting: [] });
}

test('sends one request every 30 s during an outage', async () => {
  const sentAt: number[] = [];
  let isAway = true;
  const { outbox, clock, untilDone } = await setUp(6, (taskId) => {
    sentAt.push(clock.elapsed());
    return isAway ? { status: 500 } : added(Number(taskId.slice(1)));
  });
  outbox.start();
  await clock.until(() => sentAt.length >= 8);
  const pauses = sentAt.slice(4).map((at, index) => at - (sentAt[index + 3] as number));
  // The first requests include those that were in flight when the breaker opened.
  for (const pause of pauses.slice(2)) expect(pause).toBeGreaterThanOrEqual(30_000);
  isAway = false;
  await untilDone();
  await outbox.stop();
});

test('stop waits for requests in flight and claims no more changes', async () => {
  const { outbox, store, throttle, clock } = await setUp(2);
  const answer = Promise.withResolvers<void>();
  let requests = 0;
  const client = createWorkspaceClient<SendContext>({
    workspaceId: 'current',
    async send() {
      requests++;
      await answer.promise;
      return { status: 500, headers: {}, body: Buffer.from('{}') };
    },
  });
  const slow = createOutbox({
    ...{
      recordsPullRequests: true,
      baseUrl: BASE_URL,
      linksAreIdempotent: false,
      taskUpdates: { form: 'whole', words: {} },
    },
    ...{ store, throttle, client, clock, outbox: createWakeSignal(), inbox: createWakeSignal() },
    ...{ logger: silentLogger, meter: silentMeter, random: systemRandom() },
  });
  slow.start();
  await clock.until(() => requests > 0).catch(() => undefined);
  while (requests === 0) await clock.advance(1);
  let isStopped = false;
  const stopped = slow.stop().then(() => {
    isStopped = true;
  });
  await clock.advance(1_000);
  expect([isStopped, slow.inFlight > 0]).toEqual([false, true]);
  const before = requests;
  answer.resolve();
  await stopped;
  expect([requests, slow.inFlight]).toEqual([before, 0]);
  await outbox.stop();
});

test('startWrites sends no reads', async () => {
  const { outbox, store, clock, waiting } = await setUp(1);
  await store.commit((query) => enqueueReads(query, ['read:links:t1'], clock.now() - 90_000));
  outbox.startWrites();
  while ((await waiting()) > 1) await clock.toNextTimer();
  await clock.advance(60_000);
  expect(await store.query.selectFrom('outbox').select('entity').execute()).toEqual([{ entity: 'read:links:t1' }]);
  await outbox.stop();
});
