import { expect, onTestFinished, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, findEntities, saveEntity } from '../../../../src/store/entities.ts';
import { applyBatch } from '../../../../src/sync/reconcile/apply-batch.ts';
import {
  createBatchContexts,
  createRules,
  PLAIN_RULES,
  type RulesInput,
} from '../../../../src/sync/reconcile/context.ts';
import { createReevaluation, rulesEvaluatedBy } from '../../../../src/sync/reconcile/reevaluate.ts';
import { turnsBetweenCommits } from '../../../support/cost/turns-of-others.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOf, remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { openTestInstallation } from '../../../support/harness/store.ts';
import { batchContext, RULES, SOURCES, START, saidOf, TRACKER } from '../../../support/rows/batches.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

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

test('a database that accepts no writes skips no item', async () => {
  const plain = await openTestStore();
  await afterOtherRules(plain, 1);
  const full = new DatabaseFault('full', 'a file', 'no space is left');
  const refuse = () => Promise.reject(full);
  const { reevaluate, errors } = await afterOtherRules({ ...plain, commitRelaxed: refuse }, 0);
  await expect(reevaluate(new AbortController().signal)).rejects.toBe(full);
  expect([errors, await rulesEvaluatedBy(plain.query)]).toEqual([[], undefined]);
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

const BEFORE: RulesInput = {
  trailers: ['Task'],
  links: [],
  users: { jira: { ben: 'u1' }, github: { ann: 'u2' } },
  grammars: [],
  addresses: ['https://app.example.com/workspace'],
  documents: true,
  triage: [{ when: { type: ['Bug'] }, create: 'bug', title: '{title}', labels: [], since: 0, sync: ['assignees'] }],
  workflow: { preset: 'standard', rules: [], several: 'all', bots: 'names', since: 0 },
  connections: new Set(['code', 'tracker']),
  digest: 'before',
};

const MERGED = pull({
  url: 'https://github.com/acme/app/pull/1',
  ...{ title: 'Fixes BUG-1', state: 'merged', isPublic: false, baseBranch: 'main', defaultBranch: 'main' },
  ...{ createdAt: '2026-01-05T08:00:00Z', mergedAt: '2026-01-05T08:30:00Z', closedAt: '2026-01-05T08:30:00Z' },
});
/** In a public repository only users move tasks. */
const OF_ANN = pull({
  ...{ key: 'github:github.com:5001:pull:2', identifier: '2', url: 'https://github.com/acme/app/pull/2' },
  ...{ title: 'Fixes BUG-2', author: 'ann', isPublic: true, createdAt: '2026-01-05T08:00:00Z' },
});
const OF_BEN = workItem({ key: 'jira:cloud-1:10001', identifier: 'ENG-1', type: 'Bug', assignees: ['ben'] });
/** A task was created for it before it had an assignee. */
const FOLLOWED = workItem({
  ...{ key: 'jira:cloud-1:10002', identifier: 'ENG-2', type: 'Bug', assignees: ['ben'] },
  url: 'https://jira.example.com/browse/ENG-2',
});
const DOCUMENT = 'https://app.example.com/workspace/docs/d1';

/** Returns the changes that the evaluation by other rules drops. @param held the changes that are held before */
async function droppedBy(other: Partial<RulesInput>, held: readonly string[], connections = SOURCES) {
  const store = await openTestStore();
  const task = { title: '', status: 'open', source: 'api', updatedAt: '' };
  const items = [{ ...MERGED, description: DOCUMENT }, OF_ANN, OF_BEN, FOLLOWED].map((item) => saidOf(item));
  const created = { remote_id: 'BUG-3', desired: '{"title":"An issue"}', known: '{"title":"An issue"}' };
  await store.commit(async (query) => {
    for (const key of ['BUG-1', 'BUG-2']) await saveTask(query, { ...task, taskId: key, key }, START);
    await saveTask(query, { ...task, taskId: 'BUG-3', key: 'BUG-3', source: FOLLOWED.key }, START);
    const ofItem = { ...blankEntity(entity.task(FOLLOWED.key), 'task', { item_key: FOLLOWED.key }), ...created };
    await saveEntity(query, ofItem);
    const loose = JSON.stringify({ taskId: null, isMissing: false });
    const document = blankEntity(entity.document('d1'), 'document', { item_key: MERGED.key });
    await saveEntity(query, { ...document, known: loose });
    await applyBatch(query, items, batchContext(START, { rules: createRules(BEFORE) }));
  });
  const before = await changes(store);
  const names = [...before].flatMap(([name, what]) => (held.includes(what) ? [name] : []));
  await store.query
    .updateTable('outbox')
    .set({ state: 'held' })
    .where('entity', 'in', ['', ...names])
    .execute();
  const rules = createRules({ ...BEFORE, digest: 'after', ...other });
  const parts = { store, clock: createTravellingClock(), logger: silentLogger, rules };
  const contexts = createBatchContexts({ ...parts, sources: connections, usedShare: () => 0 });
  const reevaluation = createReevaluation({ ...parts, contexts, outbox: createWakeSignal() });
  expect(reevaluation.areChangesCurrent()).toBe(false);
  await reevaluation.reevaluate(new AbortController().signal);
  expect(reevaluation.areChangesCurrent()).toBe(true);
  const after = await changes(store);
  const left = [...after.values()];
  return [...before.values()].filter((what) => !left.includes(what)).sort();
}

/** Returns what each change writes, by its name: its kind and the task, or the kind and the assignee that it gives to a task. */
async function changes({ query }: Store): Promise<ReadonlyMap<string, string>> {
  const rows = await query.selectFrom('outbox').select(['entity', 'kind']).where('kind', '!=', 'read').execute();
  const entities = await findEntities(
    query,
    rows.map((row) => row.entity),
  );
  return new Map(
    entities.map(({ entity: name, kind, task_id, desired }) => {
      const assignee = /"assigneeIds":\["(\w+)"/.exec(desired ?? '')?.[1];
      return [name, [kind, task_id, assignee].filter((part) => part != null).join(' ')];
    }),
  );
}

const MOVES = ['task_update BUG-1', 'task_update BUG-2'];
const OF_CODE = ['document BUG-1', 'link BUG-1', 'link BUG-2', 'pull_request', 'pull_request', ...MOVES];
const WITHOUT_MIRROR = new Map([...SOURCES].map(([name, source]) => [name, { ...source, records: false }]));
const ONLY_TRACKER = new Map([[TRACKER.name, TRACKER]]);

test.each<[reason: string, dropped: readonly string[], other: Partial<RulesInput>, connections?: typeof SOURCES]>([
  ['nothing', [], {}],
  ['all rules for task states', MOVES, { workflow: undefined }],
  ['the preset', MOVES, { workflow: { ...BEFORE.workflow, preset: undefined } as never }],
  ['the rule for new tasks', ['task u1', 'task_update BUG-3 u1'], { triage: [] }],
  ['the user of an assignee', ['task u1', 'task_update BUG-3 u1'], { users: { github: { ann: 'u2' } } }],
  ['the user of an author', ['task_update BUG-2'], { users: { jira: { ben: 'u1' } } }],
  ['the setting for documents', ['document BUG-1'], { documents: false }],
  ['the mirror', ['pull_request', 'pull_request'], {}, WITHOUT_MIRROR],
  ['the connection', OF_CODE, { connections: new Set(['tracker']) }, ONLY_TRACKER],
])('drops the pending and held changes whose reason is gone: %s was removed', async (_reason, dropped, ...after) => {
  const [other, connections] = after;
  expect(await droppedBy(other, [], connections)).toEqual(dropped);
  expect(await droppedBy(other, dropped, connections)).toEqual(dropped);
});
