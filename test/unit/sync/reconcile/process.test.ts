import { expect, test } from 'vitest';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import type { Store } from '../../../../src/store/database.ts';
import { type PendingDelivery, pendingDeliveries } from '../../../../src/store/inbox.ts';
import { appendAnswer } from '../../../../src/store/workspace-answers.ts';
import { createBatchContexts } from '../../../../src/sync/reconcile/context.ts';
import type { PoisonMessages } from '../../../../src/sync/reconcile/poison-messages.ts';
import { createProcessor } from '../../../../src/sync/reconcile/process.ts';
import { remainsOf, remainsOfLost } from '../../../support/all-or-nothing.ts';
import { RULES, SOURCES } from '../../../support/batches.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { openTestStore } from '../../../support/intake.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';
import { turnsBetweenCommits } from '../../../support/turns-of-others.ts';

/** Appends lists of tasks, each as one delivery. Returns the function that processes all of them. */
async function withLists(store: Store, lists: readonly number[]): Promise<() => Promise<void>> {
  const { processor, pending } = await waiting(store, lists);
  return async () => processor.processDeliveries(await pending());
}

async function waiting(store: Store, lists: readonly number[]) {
  const clock = createTravellingClock();
  for (const [at, count] of lists.entries()) {
    const tasks = Array.from({ length: count }, (_, number) => {
      const name = `${at}-${number}`;
      return { taskId: `t${name}`, key: `T${at}-${number + 1}`, title: name, status: 'open', source: 'api' };
    });
    const answer = { action: 'saw-tasks', entity: '', sentAt: clock.now(), body: { tasks } } as const;
    await appendAnswer(store.query, answer, String(at), clock.now());
  }
  const parts = { store, clock, logger: silentLogger, sources: SOURCES, rules: RULES };
  const poisonMessages: Pick<PoisonMessages, 'isSuspected'> = { isSuspected: () => false };
  const processor = createProcessor({
    ...{ ...parts, meter: silentMeter, outbox: createWakeSignal(), fetches: createWakeSignal() },
    ...{
      contexts: createBatchContexts({ ...parts, usedShare: () => 0 }),
      poisonMessages: poisonMessages as PoisonMessages,
    },
  });
  const pending = () => pendingDeliveries(store.query, 100, 1024 * 1024);
  return { processor, pending };
}

test('the effects of deliveries and their settlement are stored together, or neither is', async () => {
  expect(await remainsOf((store) => withLists(store, [1, 2]))).toEqual([]);
});

test('a delivery that is larger than a batch is processed, and so are the deliveries after it', async () => {
  const store = await openTestStore();
  const takeAll = await withLists(store, [60, 1, 60]);
  await takeAll();
  const states = await store.query.selectFrom('inbox').select('state').execute();
  expect(states.map(({ state }) => state)).toEqual(['applied', 'applied', 'applied']);
  expect(await store.query.selectFrom('tasks').select('key').execute()).toHaveLength(121);
});

test('a failed commit of a suspected delivery does not count as another crash', async () => {
  const plain = await openTestStore();
  let refusals = 6;
  const refusing: Store['commitRelaxed'] = (work) => {
    if (refusals-- > 0) throw new DatabaseFault('full', 'a file', 'no space is left');
    return plain.commitRelaxed(work);
  };
  const store: Store = { ...plain, commitRelaxed: refusing };
  const { processor, pending } = await waiting(store, [1]);
  for (let [delivery] = await pending(); delivery; [delivery] = await pending())
    await processor.processAlone(delivery).catch(() => undefined);
  const rows = await plain.query.selectFrom('inbox').select(['state', 'attempts']).execute();
  expect(rows).toEqual([{ state: 'applied', attempts: 1 }]);
});

test('after the lease was lost, no delivery is quarantined and no attempt is counted', async () => {
  const suspected = (attempts: number) => async (store: Store) => {
    const { processor, pending } = await waiting(store, [1]);
    await store.query.updateTable('inbox').set({ attempts }).execute();
    const [delivery] = await pending();
    return () => processor.processAlone(delivery as PendingDelivery);
  };
  for (const attempts of [0, 5]) expect(await remainsOfLost(suspected(attempts))).toEqual([]);
});

test('the caller gets the error of every failing statement of a database that cannot be written', async () => {
  const error = new DatabaseFault('full', 'a file', 'no space is left');
  const taking = (store: Store) => withLists(store, [2]);
  expect(await wrongWhereStatementsFail(taking, { inParts: true, error })).toEqual([]);
  const suspected = async (store: Store) => {
    const { processor, pending } = await waiting(store, [1]);
    const [delivery] = await pending();
    return () => processor.processAlone(delivery as PendingDelivery);
  };
  expect(await wrongWhereStatementsFail(suspected, { inParts: true, error })).toEqual([]);
});

test('yields the event loop many times between two batches', async () => {
  const turns = await turnsBetweenCommits((store) => withLists(store, [60, 60, 60]));
  expect(turns).toHaveLength(2);
  expect(Math.min(...turns)).toBeGreaterThanOrEqual(10);
});
