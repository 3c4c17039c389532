import { expect, onTestFinished, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
import { applyBatch } from '../../../../src/sync/reconcile/batch.ts';
import { createBatchInputs } from '../../../../src/sync/reconcile/batch-inputs.ts';
import { PLAIN_RULES } from '../../../../src/sync/reconcile/item-rules.ts';
import { keyHorizon } from '../../../../src/sync/reconcile/key-horizon.ts';
import { createOpenReevaluation } from '../../../../src/sync/reconcile/reevaluate-open.ts';
import { rulesEvaluatedBy } from '../../../../src/sync/reconcile/reevaluation.ts';
import { remainsOf, remainsOfLost } from '../../../support/all-or-nothing.ts';
import { RULES, SOURCES, saidOf } from '../../../support/batches.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { openTestStore } from '../../../support/intake.ts';
import { workItem } from '../../../support/items.ts';
import { openTestInstallation } from '../../../support/store.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';
import { turnsBetweenCommits } from '../../../support/turns-of-others.ts';

/** By those of before nothing becomes a task. */
const PRESENT = { ...RULES, digest: 'present' };
const MOMENT = { now: 1_000, usedShare: 0 };

/** Bugs that were taken over by other rules, and what looks at them by the present ones. */
async function afterOtherRules(store: Store, bugs: number, onError = (): void => undefined) {
  const items = Array.from({ length: bugs }, (_, at) =>
    workItem({ key: `jira:cloud-1:${10_001 + at}`, identifier: `ENG-${at}`, type: 'Bug' }),
  );
  const surroundings = { sources: SOURCES, horizon: keyHorizon([]), logger: silentLogger, rules: PLAIN_RULES };
  const said = items.map((item) => saidOf(item));
  await store.commit((query) => applyBatch(query, said, MOMENT, surroundings));
  const stopping = new AbortController();
  const rung: number[] = [];
  const outbox = { ...createWakeSignal(), notify: () => void rung.push(rung.length) };
  const errors: LogFields[] = [];
  const logger = {
    ...silentLogger,
    error(fields: LogFields) {
      errors.push(fields);
      onError();
    },
  };
  const parts = { store, clock: createTravellingClock(), logger, rules: PRESENT };
  const inputs = createBatchInputs({ ...parts, sources: SOURCES, usedShare: () => 0 });
  return {
    rung,
    errors,
    inputs,
    lookWithout: createOpenReevaluation({ ...parts, inputs, outbox, rules: RULES }),
    lookAgain: createOpenReevaluation({ ...parts, inputs, outbox }),
    /** It is told to end when it has looked at the first of them. */
    lookOnce: () =>
      createOpenReevaluation({ ...parts, inputs, outbox: { ...outbox, notify: () => stopping.abort() } })(
        stopping.signal,
      ),
  };
}

const wanted = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').where('kind', '=', 'task').execute()).length;

test('what was looked at by the new rules, what came of it and how far the look is are stored together, or nothing is', async () => {
  expect(await remainsOf(async (store) => (await afterOtherRules(store, 3)).lookOnce)).toEqual([]);
});

test('all open items are looked at by the new rules, some at a time, from where a look ended, and each once', async () => {
  const store = await openTestStore();
  const { lookOnce, lookAgain, rung } = await afterOtherRules(store, 25);
  await lookOnce();
  const first = await wanted(store);
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThan(25);
  expect(await rulesEvaluatedBy(store.query)).not.toBe(PRESENT.digest);
  await store.query.deleteFrom('outbox').execute();
  await lookAgain(new AbortController().signal);
  expect(await wanted(store)).toBe(25 - first);
  expect(await rulesEvaluatedBy(store.query)).toBe(PRESENT.digest);
  expect(rung.length).toBeGreaterThan(0);
  rung.length = 0;
  await lookAgain(new AbortController().signal);
  expect(rung).toEqual([]);
});

test('evaluates open items again when a list shows ids of another form', async () => {
  const store = await openTestStore();
  const { lookAgain, inputs } = await afterOtherRules(store, 2);
  const { signal } = new AbortController();
  await lookAgain(signal);
  await store.query.deleteFrom('outbox').execute();
  const see = async (taskId: string) => {
    const task = { taskId, key: taskId, title: '', status: 'open', source: 'api', updatedAt: '' };
    await store.commit((query) => saveTask(query, task, 1));
    inputs.tasksChanged();
    await lookAgain(signal);
    return wanted(store);
  };
  expect(await see('tsk_1')).toBe(0);
  expect(await see('bug_1')).toBe(2);
  expect(await rulesEvaluatedBy(store.query)).toBe('present bug_');
});

test('whatever statement fails where the database cannot be written, whoever waits is told', async () => {
  const looking = async (store: Store) => {
    const { lookAgain } = await afterOtherRules(store, 1);
    return () => lookAgain(new AbortController().signal);
  };
  const error = new DatabaseFault('full', 'a file', 'no space is left');
  expect(await wrongWhereStatementsFail(looking, { inParts: true, error })).toEqual([]);
});

test('one that has lost the workspace does not note that it has looked at all of them', async () => {
  const looking = async (store: Store) => {
    const { lookAgain } = await afterOtherRules(store, 0);
    return () => lookAgain(new AbortController().signal);
  };
  expect(await remainsOfLost(looking)).toEqual([]);
});

test('items that cannot be looked at are left out, and told', async () => {
  const store = await openTestStore();
  const { lookAgain, errors } = await afterOtherRules(store, 2);
  await store.query.updateTable('items').set({ fields: '{}' }).execute();
  await lookAgain(new AbortController().signal);
  expect(errors).toEqual([{ from: 'jira:cloud-1:10001', items: 2, error: expect.any(Error) }]);
  expect(await rulesEvaluatedBy(store.query)).toBe(PRESENT.digest);
  expect(await wanted(store)).toBe(0);
});

test('without rules that have a digest nothing is looked at', async () => {
  const store = await openTestStore();
  const { lookWithout, rung } = await afterOtherRules(store, 2);
  await lookWithout(new AbortController().signal);
  expect(rung).toEqual([]);
  expect(await rulesEvaluatedBy(store.query)).toBeUndefined();
});

test('after each look everybody else gets many turns', async () => {
  const turns = await turnsBetweenCommits(async (store) => {
    const { lookAgain } = await afterOtherRules(store, 25);
    return () => lookAgain(new AbortController().signal);
  });
  // A look is two commits, of which the first says what is looked at.
  expect(Math.min(...turns.filter((_, at) => at % 2 === 1))).toBeGreaterThanOrEqual(10);
});

test('one that has lost the workspace since does not note which items could not be looked at', async () => {
  let isLost = false;
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const store = await installation.store('test', async () => {
    if (isLost) throw new SyncError('lease_lost', 'it was taken over');
  });
  const { lookAgain } = await afterOtherRules(store, 1, () => {
    isLost = true;
  });
  await store.query.updateTable('items').set({ fields: '{}' }).execute();
  const before = await store.query.selectFrom('meta').selectAll().execute();
  await expect(lookAgain(new AbortController().signal)).rejects.toMatchObject({ code: 'lease_lost' });
  expect(await store.query.selectFrom('meta').selectAll().execute()).toEqual(before);
});
