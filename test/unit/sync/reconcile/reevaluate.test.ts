import { expect, onTestFinished, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
import { applyBatch } from '../../../../src/sync/reconcile/apply-batch.ts';
import { createBatchContexts, PLAIN_RULES } from '../../../../src/sync/reconcile/context.ts';
import { createReevaluation, rulesEvaluatedBy } from '../../../../src/sync/reconcile/reevaluate.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { turnsBetweenCommits } from '../../../support/cost/turns-of-others.ts';
import { remainsOf, remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { openTestInstallation } from '../../../support/harness/store.ts';
import { batchContext, RULES, SOURCES, saidOf } from '../../../support/rows/batches.ts';
import { workItem } from '../../../support/rows/items.ts';

/** By these rules bugs become tasks; by `PLAIN_RULES` they do not. */
const PRESENT = { ...RULES, digest: 'present' };

/** Bugs that were evaluated by other rules, and the functions that re-evaluate them by the present ones. */
async function afterOtherRules(store: Store, bugs: number, onError = (): void => undefined) {
  const items = Array.from({ length: bugs }, (_, at) =>
    workItem({ key: `jira:cloud-1:${10_001 + at}`, identifier: `ENG-${at}`, type: 'Bug' }),
  );
  const batch = items.map((item) => saidOf(item));
  await store.commit((query) => applyBatch(query, batch, batchContext(1_000, { rules: PLAIN_RULES })));
  const stopping = new AbortController();
  const notified: number[] = [];
  const outbox = { ...createWakeSignal(), notify: () => void notified.push(notified.length) };
  const errors: LogFields[] = [];
  const logger = {
    ...silentLogger,
    error(fields: LogFields) {
      errors.push(fields);
      onError();
    },
  };
  const parts = { store, clock: createTravellingClock(), logger, rules: PRESENT };
  const contexts = createBatchContexts({ ...parts, sources: SOURCES, usedShare: () => 0 });
  return {
    notified,
    errors,
    contexts,
    reevaluateWithoutDigest: createReevaluation({ ...parts, contexts, outbox, rules: RULES }).reevaluate,
    reevaluate: createReevaluation({ ...parts, contexts, outbox }).reevaluate,
    /** Stops after the first transaction. */
    reevaluateOnce: () =>
      createReevaluation({ ...parts, contexts, outbox: { ...outbox, notify: () => stopping.abort() } }).reevaluate(
        stopping.signal,
      ),
  };
}

const enqueued = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').where('kind', '=', 'task').execute()).length;

test('the evaluations and their progress are stored together, or neither is', async () => {
  expect(await remainsOf(async (store) => (await afterOtherRules(store, 3)).reevaluateOnce)).toEqual([]);
});

test('evaluates all open items by the new rules, each once, and continues after an interruption', async () => {
  const store = await openTestStore();
  const { reevaluateOnce, reevaluate, notified } = await afterOtherRules(store, 25);
  await reevaluateOnce();
  const first = await enqueued(store);
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThan(25);
  expect(await rulesEvaluatedBy(store.query)).not.toBe(PRESENT.digest);
  await store.query.deleteFrom('outbox').execute();
  await reevaluate(new AbortController().signal);
  expect(await enqueued(store)).toBe(25 - first);
  expect(await rulesEvaluatedBy(store.query)).toBe(PRESENT.digest);
  expect(notified.length).toBeGreaterThan(0);
  notified.length = 0;
  await reevaluate(new AbortController().signal);
  expect(notified).toEqual([]);
});

test('evaluates open items again when a list shows ids with a new prefix', async () => {
  const store = await openTestStore();
  const { reevaluate, contexts } = await afterOtherRules(store, 2);
  const { signal } = new AbortController();
  await reevaluate(signal);
  await store.query.deleteFrom('outbox').execute();
  const evaluatedAfter = async (taskId: string) => {
    const task = { taskId, key: taskId, title: '', status: 'open', source: 'api', updatedAt: '' };
    await store.commit((query) => saveTask(query, task, 1));
    contexts.invalidate();
    await reevaluate(signal);
    return enqueued(store);
  };
  expect(await evaluatedAfter('tsk_1')).toBe(0);
  expect(await evaluatedAfter('bug_1')).toBe(2);
  expect(await rulesEvaluatedBy(store.query)).toBe('present bug_');
});

test('the caller gets the error of every failing statement of a database that cannot be written', async () => {
  const reevaluating = async (store: Store) => {
    const { reevaluate } = await afterOtherRules(store, 1);
    return () => reevaluate(new AbortController().signal);
  };
  const error = new DatabaseFault('full', 'a file', 'no space is left');
  expect(await wrongWhereStatementsFail(reevaluating, { inParts: true, error })).toEqual([]);
});

test('a process that lost its lease does not store that all items were evaluated', async () => {
  const reevaluating = async (store: Store) => {
    const { reevaluate } = await afterOtherRules(store, 0);
    return () => reevaluate(new AbortController().signal);
  };
  expect(await remainsOfLost(reevaluating)).toEqual([]);
});

test('items that cannot be evaluated are skipped and logged', async () => {
  const store = await openTestStore();
  const { reevaluate, errors } = await afterOtherRules(store, 2);
  await store.query.updateTable('items').set({ fields: '{}' }).execute();
  await reevaluate(new AbortController().signal);
  expect(errors).toEqual([{ from: 'jira:cloud-1:10001', items: 2, error: expect.any(Error) }]);
  expect(await rulesEvaluatedBy(store.query)).toBe(PRESENT.digest);
  expect(await enqueued(store)).toBe(0);
});

test('rules without a digest cause no evaluation', async () => {
  const store = await openTestStore();
  const { reevaluateWithoutDigest, notified } = await afterOtherRules(store, 2);
  await reevaluateWithoutDigest(new AbortController().signal);
  expect(notified).toEqual([]);
  expect(await rulesEvaluatedBy(store.query)).toBeUndefined();
});

test('yields the event loop many times after each transaction', async () => {
  const turns = await turnsBetweenCommits(async (store) => {
    const { reevaluate } = await afterOtherRules(store, 25);
    return () => reevaluate(new AbortController().signal);
  });
  // Each step is two commits, and the first one reads the next items.
  expect(Math.min(...turns.filter((_, at) => at % 2 === 1))).toBeGreaterThanOrEqual(10);
});

test('a process that lost its lease since does not store which items could not be evaluated', async () => {
  let isLost = false;
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const store = await installation.store('test', async () => {
    if (isLost) throw new SyncError('lease_lost', 'it was taken over');
  });
  const { reevaluate } = await afterOtherRules(store, 1, () => {
    isLost = true;
  });
  await store.query.updateTable('items').set({ fields: '{}' }).execute();
  const before = await store.query.selectFrom('meta').selectAll().execute();
  await expect(reevaluate(new AbortController().signal)).rejects.toMatchObject({ code: 'lease_lost' });
  expect(await store.query.selectFrom('meta').selectAll().execute()).toEqual(before);
});
