import { expect, test } from 'vitest';
import { createWakeSignal } from '../../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../../src/platform/lib/telemetry.ts';
import { blankEntity, saveEntity } from '../../../../src/store/changes/entities.ts';
import { addDifference } from '../../../../src/store/changes/outbox-rows.ts';
import { readLedger } from '../../../../src/store/quota/ledger.ts';
import { enqueueReads } from '../../../../src/store/workspace/workspace-reads.ts';
import type { Store } from '../../../../src/store/workspace-scope.ts';
import { createOutbox } from '../../../../src/sync/outbox/outbox.ts';
import { openWorkspaceApi } from '../../../../src/sync/outbox/sender.ts';
import { type Answer, added, linkOf, outboxBench } from '../../../support/cost/outbox-bench.ts';
import { remainsOf, remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';

const item = 'jira:cloud:issue:9';
const name = `task:${item}`;

/** Returns the start of an outbox whose process died with two links in flight and a pending creation. */
async function startAfterCrash(store: Store): Promise<() => Promise<void>> {
  const { context, clock, slot, take } = await outboxBench(store, 2);
  for (const number of [1, 2]) await take(await slot(), linkOf(number));
  await store.commit(async (query) => {
    await saveEntity(query, blankEntity(name, 'task', { item_key: item, desired: '{}' }));
    const request = { kind: 'task', lane: 'triage', since: clock.now(), due: clock.now(), weight: 1 } as const;
    await addDifference(query, { entity: name, ...request, waiting: [] });
  });
  const outbox = createOutbox(context);
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

test('requeues nothing after it lost the workspace to another process', async () => {
  const getReady = async (store: Store) => {
    const { outbox, wakeSignal, addLink, clock, slot, take } = await setUp(0, undefined, store);
    outbox.start();
    await clock.advance(1_000);
    await addLink(1);
    await take(await slot(), linkOf(1));
    await addLink();
    return async () => {
      wakeSignal.notify();
      await clock.advance(60_000);
      await outbox.stop();
    };
  };
  expect(await remainsOfLost(getReady)).toEqual([]);
});

/** Opens an outbox with pending links. */
async function setUp(links: number, answer?: Parameters<typeof outboxBench>[2], given?: Store) {
  const store = given ?? (await openTestStore());
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
  const { context, clock } = bench;
  const outbox = createOutbox({
    ...{ ...context, logger: silentLogger, store: { ...store, commit }, outbox: wakeSignal, inbox: createWakeSignal() },
    onTrouble: () => undefined,
    onWrite: () => undefined,
  });
  const waiting = async () => (await store.query.selectFrom('outbox').select('entity').execute()).length;
  return {
    ...{ ...bench, store, wakeSignal, outbox, waiting, lostAcks, delayedAcks },
    async untilDone() {
      while ((await waiting()) > 0) await clock.toNextTimer();
    },
    /** Adds a link. Then wakes the outbox and lets `ms` pass. */
    async addLink(number = 9, ms?: number) {
      const now = clock.now();
      const ids = { task_id: `t${number}`, desired: '{"url":"u"}' };
      await saveEntity(store.query, blankEntity(linkOf(number), 'link', ids));
      const request = { entity: linkOf(number), kind: 'link', lane: 'link', since: now, due: now, weight: 1 } as const;
      await addDifference(store.query, { ...request, waiting: [] });
      if (ms === undefined) return;
      wakeSignal.notify();
      await clock.advance(ms);
    },
  };
}

test.each([
  [1_000, 'keeps', 1],
  [1_001, 'drops', 0],
])('a clock that is set back by %d ms %s the due times of earlier changes', async (back, _effect, left) => {
  const { outbox, clock, addLink, waiting, wakeSignal } = await setUp(0);
  outbox.start();
  for (const [number, by] of [back, 1_000].entries()) {
    await addLink(number);
    clock.jumpWall(-by);
    wakeSignal.notify();
    await clock.advance(500);
    expect(await waiting()).toBe(left + number);
  }
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
  const { outbox, addLink, clock, untilDone, lostAcks, delayedAcks } = await setUp(1, (taskId) => {
    sent.push(taskId);
    return sent.length === 2 ? answer.promise : added(Number(taskId.slice(1)));
  });
  const settled = Promise.withResolvers<void>();
  delayedAcks.set(3, settled.promise);
  outbox.start();
  await clock.advance(10_000);
  await addLink(1, 10_000);
  expect(sent).toEqual(['t1', 't1']);
  settled.resolve();
  await clock.advance(1);
  lostAcks.add(5);
  await addLink(9, 10_000);
  answer.resolve(added(1));
  await untilDone();
  await outbox.stop();
  expect(sent).toEqual(['t1', 't1', 't9']);
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

const refusal = (status: number, errorCode: string): Answer => ({
  status,
  json: { code: status, message: 'not this way', errorCode },
});
const LIMITED = refusal(429, 'rate_limited');

/** Claims a link, and returns its request with this answer. */
const requestWith = (answer: Answer | undefined) => async (store: Store) => {
  const { slot, take, attempt } = await outboxBench(store, 1, () => answer);
  const own = await slot();
  const prepared = await take(own, linkOf(1));
  if (!prepared) throw new Error('nothing is to be sent');
  return () => attempt(prepared, own);
};

test.each<[what: string, answer: Answer | undefined]>([
  ['answered', added(1)],
  ['limited', LIMITED],
  ['not answered', undefined],
])('stores the end of a request that was %s together with the outcome of its change', async (_what, answer) => {
  expect(await remainsOf(requestWith(answer))).toEqual([]);
});

test.each([
  ['answered', added(1)],
  ['limited', LIMITED],
])('completes a request that was %s in the ledger', async (_what, answer) => {
  const store = await openTestStore();
  const { send } = await outboxBench(store, 1, () => answer);
  await send(linkOf(1));
  expect(await readLedger(store.query)).toMatchObject([{ completed: expect.any(Number), status: answer.status }]);
});

test('returns the answer of the workspace to a command, and nothing else', async () => {
  const { store, clock, throttle } = await outboxBench(await openTestStore(), 0);
  const answer = { status: 200, headers: {}, body: Buffer.from('{}') };
  const http = { request: async () => answer, close: async () => undefined };
  const context = workspaceContext({ store, clock, throttle });
  const { send } = openWorkspaceApi(
    context,
    () => 'key',
    http,
    undefined,
    async () => undefined,
  );
  const request = { method: 'GET', path: '/tasks', headers: {}, route: 'listTasks' } as const;
  expect(await send(request, { lane: 'interactive' })).toEqual(answer);
});
