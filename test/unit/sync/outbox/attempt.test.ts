import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { readLedger } from '../../../../src/store/ledger.ts';
import { updateChange } from '../../../../src/store/outbox-rows.ts';
import { enqueueInitialReads, PULL_REQUESTS_READ, TASKS_READ } from '../../../../src/store/workspace-reads.ts';
import { remainsOf } from '../../../support/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { openTestStore } from '../../../support/intake.ts';
import { type Answer, added, linkOf, outboxBench } from '../../../support/outbox-bench.ts';
import { withoutTable } from '../../../support/without-table.ts';

const refusal = (status: number, errorCode: string): Answer => ({
  status,
  json: { code: status, message: 'not this way', errorCode },
});
const REFUSED_KEY = refusal(401, 'unauthorized');
const REFUSED = refusal(422, 'validation_failed');
const LIMITED = refusal(429, 'rate_limited');
/** Of something in front of the workspace. */
const FAILED: Answer = { status: 500 };

test.each<[what: string, answer: Answer | undefined]>([
  ['taken', added(1)],
  ['refused', REFUSED],
  ['limited', LIMITED],
  ['refused for its key', REFUSED_KEY],
  ['failed', FAILED],
  ['not answered', undefined],
])(
  'a request that was %s: its end in the ledger and what became of its change are stored together, or neither is',
  async (_what, answer) => {
    expect(
      await remainsOf(async (store) => {
        const { slot, take, attempt } = await outboxBench(store, 1, () => answer);
        const own = await slot();
        const prepared = await take(own, linkOf(1));
        if (!prepared) throw new Error('nothing is to be sent');
        return () => attempt(prepared, own);
      }),
    ).toEqual([]);
  },
);

test.each<[what: string, answer: Answer | undefined]>([
  ['taken', added(1)],
  ['refused', REFUSED],
  ['limited', LIMITED],
  ['not answered', undefined],
])(
  'a request that was %s: whichever statement about its end fails, none of them stays, and it waits for the next start',
  async (_what, answer) => {
    const wrong = await wrongWhereStatementsFail(
      async (store) => {
        const { slot, take, attempt } = await outboxBench(store, 1, () => answer);
        const own = await slot();
        const prepared = await take(own, linkOf(1));
        if (!prepared) throw new Error('nothing is to be sent');
        return () => attempt(prepared, own);
      },
      { isQuiet: true },
    );
    expect(wrong).toEqual([]);
  },
);

test('when the attempt has ended, so has the request in the ledger', async () => {
  const store = await openTestStore();
  const { send } = await outboxBench(store, 2, (taskId) => (taskId === 't1' ? added(1) : FAILED));
  await send(linkOf(1));
  await send(linkOf(2));
  const rows = await readLedger(store.query);
  expect(rows.map(({ completed, status }) => [completed !== null, status])).toEqual([
    [true, 201],
    [true, 500],
  ]);
});

test('requests that do not get through open the breaker, and people are told', async () => {
  const { send, breaker, told } = await outboxBench(await openTestStore(), 3, () => FAILED);
  await send(linkOf(1));
  await send(linkOf(2));
  expect([breaker.open, told]).toEqual([false, []]);
  await send(linkOf(3));
  expect([breaker.open, told]).toEqual([true, ['server_failed']]);
});

test('a refused key is told at once, and says nothing of whether the workspace is there', async () => {
  const { send, breaker, told, clock, throttle } = await outboxBench(await openTestStore(), 4, () => REFUSED_KEY);
  for (const number of [1, 2, 3, 4]) {
    const sent = send(linkOf(number));
    await clock.until(() => told.length === number);
    await sent;
  }
  expect(told).toEqual(Array.from({ length: 4 }, () => 'unauthorized'));
  expect([breaker.open, breaker.failing]).toEqual([false, false]);
  // Code and remedy are shown beside the reason, so it repeats neither.
  expect(throttle.snapshot().halt).toEqual({ code: 'unauthorized', reason: 'the workspace refused the key' });
});

test('a refused first read of the tasks stays reported until the tasks were read', async () => {
  const store = await openTestStore();
  const answers: Answer[] = [
    refusal(404, 'not_found'),
    refusal(404, 'not_found'),
    { status: 200, json: { tasks: [], nextCursor: null } },
  ];
  const { send, told, clock } = await outboxBench(store, 0, () => answers.shift());
  await store.database.deleteFrom('meta').where('name', 'in', [TASKS_READ, PULL_REQUESTS_READ]).execute();
  await store.commit((query) => enqueueInitialReads(query, clock.now(), true));
  await send(entity.readTasks);
  await send(entity.readPullRequests);
  expect(told).toEqual(['not_found']);
  await store.commit((query) => updateChange(query, entity.readTasks, { not_before: 0 }));
  await send(entity.readTasks);
  expect(told).toEqual(['not_found', undefined]);
});

test.each<[what: string, answer: Answer]>([
  ['takes', added(3)],
  ['refuses', REFUSED],
  ['puts off', LIMITED],
])('what the workspace itself %s shows that it is there, and people are told so', async (_what, answer) => {
  const { send, breaker, told } = await outboxBench(await openTestStore(), 3, (taskId) =>
    taskId === 't3' ? answer : FAILED,
  );
  await send(linkOf(1));
  await send(linkOf(2));
  await send(linkOf(3));
  expect([breaker.open, told]).toEqual([false, [undefined]]);
  // One that fails alone from now on is at fault itself.
  expect(breaker.isAtFault(linkOf(1))).toBe(true);
});

test.each([
  ['taken', added(1)],
  ['not answered', undefined],
])('whoever ends does not wait for a request that was %s and whose end could not be stored', async (_what, answer) => {
  const store = await openTestStore();
  const { send, throttle } = await outboxBench(store, 1, () => answer);
  await withoutTable(store.database, 'requests', () => send(linkOf(1)));
  await throttle.stop();
  expect(await store.query.selectFrom('outbox').select('state').execute()).toEqual([{ state: 'sending' }]);
});
