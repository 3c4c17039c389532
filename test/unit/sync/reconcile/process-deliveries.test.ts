import { expect, test } from 'vitest';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import type { Store } from '../../../../src/store/database.ts';
import { type PendingDelivery, pendingDeliveries } from '../../../../src/store/inbox.ts';
import { appendAnswer } from '../../../../src/store/workspace-answers.ts';
import { createBatchInputs } from '../../../../src/sync/reconcile/batch-inputs.ts';
import type { PoisonMessages } from '../../../../src/sync/reconcile/poison-messages.ts';
import { createDeliveryProcessor } from '../../../../src/sync/reconcile/process-deliveries.ts';
import { remainsOf, remainsOfLost } from '../../../support/all-or-nothing.ts';
import { RULES, SOURCES } from '../../../support/batches.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { openTestStore } from '../../../support/intake.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';
import { turnsBetweenCommits } from '../../../support/turns-of-others.ts';

/** Lists of tasks, of which each is one delivery. @returns what takes all of them over */
async function withLists(store: Store, lists: readonly number[]): Promise<() => Promise<void>> {
  const { takeOver, pending } = await waiting(store, lists);
  return async () => takeOver.all(await pending());
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
  const poisonMessages: Pick<PoisonMessages, 'has'> = { has: () => false };
  const takeOver = createDeliveryProcessor({
    ...{ ...parts, meter: silentMeter, outbox: createWakeSignal(), fetches: createWakeSignal() },
    ...{
      inputs: createBatchInputs({ ...parts, usedShare: () => 0 }),
      poisonMessages: poisonMessages as PoisonMessages,
    },
  });
  const pending = () => pendingDeliveries(store.query, 100, 1024 * 1024);
  return { takeOver, pending };
}

test('what came of deliveries and that they are taken over are stored together, or neither is', async () => {
  expect(await remainsOf((store) => withLists(store, [1, 2]))).toEqual([]);
});

test('a delivery that tells of more than one portion holds is taken over too, and those after it', async () => {
  const store = await openTestStore();
  const takeAll = await withLists(store, [60, 1, 60]);
  await takeAll();
  const states = await store.query.selectFrom('inbox').select('state').execute();
  expect(states.map(({ state }) => state)).toEqual(['applied', 'applied', 'applied']);
  expect(await store.query.selectFrom('tasks').select('key').execute()).toHaveLength(121);
});

test('a suspect that the database did not let in is no delivery over which the process ended', async () => {
  const plain = await openTestStore();
  let refusals = 6;
  const refusing: Store['commitRelaxed'] = (work) => {
    if (refusals-- > 0) throw new DatabaseFault('full', 'a file', 'no space is left');
    return plain.commitRelaxed(work);
  };
  const store: Store = { ...plain, commitRelaxed: refusing };
  const { takeOver, pending } = await waiting(store, [1]);
  for (let [delivery] = await pending(); delivery; [delivery] = await pending())
    await takeOver.suspect(delivery).catch(() => undefined);
  const rows = await plain.query.selectFrom('inbox').select(['state', 'attempts']).execute();
  expect(rows).toEqual([{ state: 'applied', attempts: 1 }]);
});

test('one that has lost the workspace puts nothing into quarantine, and counts no attempt', async () => {
  const suspected = (attempts: number) => async (store: Store) => {
    const { takeOver, pending } = await waiting(store, [1]);
    await store.query.updateTable('inbox').set({ attempts }).execute();
    const [delivery] = await pending();
    return () => takeOver.suspect(delivery as PendingDelivery);
  };
  for (const attempts of [0, 5]) expect(await remainsOfLost(suspected(attempts))).toEqual([]);
});

test('whatever statement fails where the database cannot be written, whoever waits is told', async () => {
  const error = new DatabaseFault('full', 'a file', 'no space is left');
  const taking = (store: Store) => withLists(store, [2]);
  expect(await wrongWhereStatementsFail(taking, { inParts: true, error })).toEqual([]);
  const suspected = async (store: Store) => {
    const { takeOver, pending } = await waiting(store, [1]);
    const [delivery] = await pending();
    return () => takeOver.suspect(delivery as PendingDelivery);
  };
  expect(await wrongWhereStatementsFail(suspected, { inParts: true, error })).toEqual([]);
});

test('between two portions everybody else gets many turns', async () => {
  const turns = await turnsBetweenCommits((store) => withLists(store, [60, 60, 60]));
  expect(turns).toHaveLength(2);
  expect(Math.min(...turns)).toBeGreaterThanOrEqual(10);
});
