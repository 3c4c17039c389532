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
import { remainsOf, remainsOfLost } from '../../../support/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { openTestStore } from '../../../support/intake.ts';
import { type Answer, added, BASE_URL, linkOf, outboxBench } from '../../../support/outbox-bench.ts';
import { withoutTable } from '../../../support/without-table.ts';

const item = 'jira:cloud:issue:9';
const name = `task:${item}`;

/** Two links in flight when the process died, and a task that waits to be made. */
async function startAfterDeath(store: Store): Promise<() => Promise<void>> {
  const { throttle, client, clock, slot, take } = await outboxBench(store, 2);
  for (const number of [1, 2]) await take(await slot(), linkOf(number));
  await store.commit(async (query) => {
    await saveEntity(query, blankEntity(name, 'task', { item_key: item, desired: '{}' }));
    const wish = { kind: 'task', lane: 'triage', since: clock.now(), due: clock.now(), weight: 1 } as const;
    await addDifference(query, { entity: name, ...wish, waiting: [] });
  });
  const parts = { logger: silentLogger, meter: silentMeter, random: systemRandom() };
  const outbox = createOutbox({
    ...{ recordsPullRequests: true, baseUrl: BASE_URL, linksAreIdempotent: false },
    ...{ store, throttle, client, clock, ...parts },
    ...{ outbox: createWakeSignal(), inbox: createWakeSignal() },
  });
  return async () => {
    outbox.start();
    // It ends as soon as what it starts with is stored.
    await outbox.stop();
  };
}

test('at the start all that was in flight waits again, and nothing is made before a list of tasks has come', async () => {
  const store = await openTestStore();
  const start = await startAfterDeath(store);
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

test('a process that dies at its start leaves all as it found it, and tells of no request twice', async () => {
  expect(await remainsOf(startAfterDeath)).toEqual([]);
});

test('whichever statement of its start fails, all is as it was found, and no error is left to nobody', async () => {
  expect(await wrongWhereStatementsFail(startAfterDeath, { isQuiet: true })).toEqual([]);
});

test('one that has lost the workspace to another takes nothing back that the other may have sent', async () => {
  const getReady = async (store: Store) => {
    const { outbox, wakeSignal, clock, slot, take } = await runningOver(store, 0);
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

/** A running outbox over links that wait to be added, one of which is answered as the test says. */
async function running(links: number, answer?: Parameters<typeof outboxBench>[2]) {
  return runningOver(await openTestStore(), links, answer);
}

async function runningOver<Own extends Store>(store: Own, links: number, answer?: Parameters<typeof outboxBench>[2]) {
  const bench = await outboxBench(store, links, answer);
  let commits = 0;
  /** Commits whose answer gets lost, by their numbers. */
  const unheard = new Set<number>();
  /** Those whose answer comes when this is fulfilled. */
  const late = new Map<number, Promise<void>>();
  const commit: Store['commit'] = async (work) => {
    const result = await store.commit(work);
    const number = ++commits;
    await late.get(number);
    if (unheard.has(number)) throw new Error('the connection was lost');
    return result;
  };
  const wakeSignal = createWakeSignal();
  const inbox = createWakeSignal();
  const lags: number[] = [];
  let writes = 0;
  const outbox = createOutbox({
    ...{ recordsPullRequests: true, baseUrl: BASE_URL, linksAreIdempotent: false },
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
  return { ...bench, store, wakeSignal, inbox, outbox, lags, untilDone, waiting, writes: () => writes, unheard, late };
}

const GONE = 't404';

test('all that waits is sent, with what follows a write; what comes while it rests is sent when it is told', async () => {
  const { outbox, store, wakeSignal, inbox, writes, untilDone, clock } = await running(3, (taskId) =>
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
  // A read makes nothing stale.
  expect(writes()).toBe(3);
  await outbox.stop();
  expect(outbox.inFlight).toBe(0);
});

test('a database that takes nothing for a while stops nothing for good', async () => {
  const { outbox, store, wakeSignal, clock, untilDone, waiting } = await running(1);
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

test.each([1, 2, 3, 4, 5])(
  'nothing waits for good or goes twice where the answer to commit %s gets lost [F24]',
  async (lost) => {
    const asked: string[] = [];
    const { outbox, clock, untilDone, unheard, throttle } = await running(2, (taskId) => {
      asked.push(taskId);
      return added(Number(taskId.slice(1)));
    });
    unheard.add(lost);
    outbox.start();
    await untilDone();
    await clock.advance(60_000);
    await outbox.stop();
    expect(asked.toSorted()).toEqual(['t1', 't2']);
    expect(throttle.used().used).toBe(2);
  },
);

test('what goes a second time is not taken back, however late the database answers of the first', async () => {
  const asked: string[] = [];
  const answer = Promise.withResolvers<Answer>();
  const { outbox, store, wakeSignal, clock, untilDone, unheard, late } = await running(1, (taskId) => {
    asked.push(taskId);
    return asked.length === 2 ? answer.promise : added(Number(taskId.slice(1)));
  });
  const settled = Promise.withResolvers<void>();
  late.set(3, settled.promise);
  // Until the stage has done all that it can.
  const told = async (number: number) => {
    await addLink(store, clock.now(), number);
    wakeSignal.notify();
    await clock.advance(10_000);
  };
  outbox.start();
  await clock.advance(10_000);
  await told(1);
  expect(asked).toEqual(['t1', 't1']);
  settled.resolve();
  await clock.advance(1);
  unheard.add(5);
  await told(9);
  answer.resolve(added(1));
  await untilDone();
  await outbox.stop();
  expect(asked).toEqual(['t1', 't1', 't9']);
});

async function addLink(store: Store, now: number, number = 9) {
  const ids = { task_id: `t${number}`, desired: '{"url":"u"}' };
  await saveEntity(store.query, blankEntity(linkOf(number), 'link', ids));
  const wish = { entity: linkOf(number), kind: 'link', lane: 'link', since: now, due: now, weight: 1 } as const;
  await addDifference(store.query, { ...wish, waiting: [] });
}

test('while nothing gets through, requests go one by one, with pauses, until one does', async () => {
  const sentAt: number[] = [];
  let isAway = true;
  const { outbox, clock, untilDone } = await running(6, (taskId) => {
    sentAt.push(clock.elapsed());
    return isAway ? { status: 500 } : added(Number(taskId.slice(1)));
  });
  outbox.start();
  await clock.until(() => sentAt.length >= 8);
  const pauses = sentAt.slice(4).map((at, index) => at - (sentAt[index + 3] as number));
  // Those that were on their way when it was noticed are among the first ones.
  for (const pause of pauses.slice(2)) expect(pause).toBeGreaterThanOrEqual(30_000);
  isAway = false;
  await untilDone();
  await outbox.stop();
});

test('whoever stops waits for what is in flight, and takes nothing more', async () => {
  const { outbox, store, throttle, clock } = await running(2);
  const answer = Promise.withResolvers<void>();
  let asked = 0;
  const client = createWorkspaceClient<SendContext>({
    workspaceId: 'current',
    async send() {
      asked++;
      await answer.promise;
      return { status: 500, headers: {}, body: Buffer.from('{}') };
    },
  });
  const slow = createOutbox({
    ...{ recordsPullRequests: true, baseUrl: BASE_URL, linksAreIdempotent: false },
    ...{ store, throttle, client, clock, outbox: createWakeSignal(), inbox: createWakeSignal() },
    ...{ logger: silentLogger, meter: silentMeter, random: systemRandom() },
  });
  slow.start();
  await clock.until(() => asked > 0).catch(() => undefined);
  while (asked === 0) await clock.advance(1);
  let isStopped = false;
  const stopped = slow.stop().then(() => {
    isStopped = true;
  });
  await clock.advance(1_000);
  expect([isStopped, slow.inFlight > 0]).toEqual([false, true]);
  const before = asked;
  answer.resolve();
  await stopped;
  expect([asked, slow.inFlight]).toEqual([before, 0]);
  await outbox.stop();
});

test('an outbox of writes alone reads nothing', async () => {
  const { outbox, store, clock, waiting } = await running(1);
  await store.commit((query) => enqueueReads(query, ['read:links:t1'], clock.now() - 90_000));
  outbox.startWrites();
  while ((await waiting()) > 1) await clock.toNextTimer();
  await clock.advance(60_000);
  expect(await store.query.selectFrom('outbox').select('entity').execute()).toEqual([{ entity: 'read:links:t1' }]);
  await outbox.stop();
});
