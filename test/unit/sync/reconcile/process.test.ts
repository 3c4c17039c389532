import { expect, test } from 'vitest';
import type { Translation } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors.ts';
import type { Item } from '../../../../src/model/item.ts';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { appendDeliveries } from '../../../../src/store/deliveries/append-deliveries.ts';
import { type PendingDelivery, pendingDeliveries } from '../../../../src/store/deliveries/inbox.ts';
import { markTasksUnverified } from '../../../../src/store/tasks/task-creations.ts';
import { appendAnswer } from '../../../../src/store/workspace/workspace-reads.ts';
import type { Store } from '../../../../src/store/workspace-scope.ts';
import { createKeyHorizon, type ReconcileConnections } from '../../../../src/sync/reconcile/context.ts';
import { createBatchContexts, createProcessor } from '../../../../src/sync/reconcile/process.ts';
import type { WorkspaceContext } from '../../../../src/sync/workspace-context.ts';
import { turnsBetweenCommits } from '../../../support/cost/turns-of-others.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOf, remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';
import { RULES, SOURCES, START, saidOf, TRACKER, takeBatch } from '../../../support/rows/batches.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

/** An item that the database rejects. */
const BROKEN = workItem({ key: 'jira:cloud-1:broken', connector: null as never });

function processorOver(store: Store, sources: ReconcileConnections, more: Partial<WorkspaceContext>) {
  const clock = createTravellingClock({ start: START });
  const context = workspaceContext({ store, clock, sources, rules: RULES, ...more });
  const processor = createProcessor(context, createBatchContexts(context), { isSuspected: () => false });
  return { processor, pending: () => pendingDeliveries(store.query, 100, 1024 * 1024) };
}

/** A processor of deliveries whose bodies name their translation. */
async function opened(translations: Readonly<Record<string, Translation>>, refuse?: Error) {
  let commits = 0;
  const plain = await openTestStore({ steps: { reached: (_kind, edge) => void (edge === 'after' && commits++) } });
  const store: Store = refuse ? { ...plain, commitRelaxed: () => Promise.reject(refuse) } : plain;
  const translate = ({ body }: { readonly body: Uint8Array }) =>
    translations[Buffer.from(body).toString()] as Translation;
  const sources = new Map([...SOURCES].map(([name, source]) => [name, { ...source, translate }]));
  const notified: string[] = [];
  const wakeSignal = (name: string) => ({ notify: () => void notified.push(name), wait: () => Promise.resolve() });
  const signals = { outbox: wakeSignal('outbox'), fetches: wakeSignal('fetches'), writeBack: wakeSignal('write-back') };
  const { processor, pending } = processorOver(store, sources, signals);
  return {
    ...{ store: plain, notified, commits: () => commits },
    async append(...bodies: string[]) {
      const deliveries = bodies.map((body) => ({
        ...({ connection: TRACKER.name, key: body, source: 'webhook', event: 'e', body: Buffer.from(body) } as const),
      }));
      await appendDeliveries(plain.query, deliveries, START);
    },
    process: async () => processor.processDeliveries(await pending()),
  };
}

const states = async ({ query }: Store) =>
  (await query.selectFrom('inbox').select(['state', 'attempts']).orderBy('id').execute()).map(
    ({ state, attempts }) => `${state} ${attempts}`,
  );

const itemsOf = (...items: Item[]): Translation => ({ outcome: 'items', items });
const ISSUE = workItem({ type: 'Story' });

const NONE: Translation = { outcome: 'ignored', reason: 'no' };

test('only the faulty delivery of a batch waits, and it is quarantined after three attempts', async () => {
  const { store, append, process } = await opened({ good: itemsOf(ISSUE), bad: itemsOf(BROKEN), ignored: NONE });
  await append('bad', 'good', 'ignored');
  const course: string[] = [];
  for (let round = 0; round < 3; round++) {
    await process();
    course.push((await states(store)).join());
  }
  expect(course).toEqual([
    'pending 1,applied 0,ignored 0',
    'pending 2,applied 0,ignored 0',
    'quarantined 2,applied 0,ignored 0',
  ]);
  const { reason } = await store.query.selectFrom('inbox').select('reason').orderBy('id').executeTakeFirstOrThrow();
  expect(reason).toMatch(/^internal: /);
});

test.each([
  ['a database that accepts no writes', new DatabaseFault('full', 'a file', 'no space is left')],
  ['a lost lease', new SyncError('lease_lost', 'it was taken over')],
])('%s is not the fault of a delivery', async (_what, refuse) => {
  const { store, append, process } = await opened({ one: itemsOf(ISSUE), two: itemsOf(pull()) }, refuse);
  await append('one', 'two');
  await expect(process()).rejects.toBe(refuse);
  expect(await states(store)).toEqual(['pending 0', 'pending 0']);
});

const REFERENCE: Translation = { outcome: 'references', references: [TRACKER.reference(ISSUE)] };

test.each<[what: string, notified: string[], translation: Translation]>([
  ['an item', ['outbox', 'write-back'], itemsOf(ISSUE)],
  ['a reference', ['fetches'], REFERENCE],
  ['an ignored delivery', [], NONE],
])('%s notifies: %j', async (_what, expected, translation) => {
  const { append, process, notified } = await opened({ one: translation });
  await append('one');
  await process();
  expect(notified).toEqual(expected);
});

test('deliveries share a transaction up to the batch size, which grows when batches are cheap', async () => {
  const many = Array.from({ length: 25 }, (_, at) => workItem({ key: `jira:cloud-1:${at}`, identifier: `ENG-${at}` }));
  const parts = { a: itemsOf(...many.slice(0, 5)), b: itemsOf(...many.slice(5, 10)), c: itemsOf(...many.slice(10)) };
  const { store, append, process, commits } = await opened(parts);
  await append('a', 'b', 'c');
  const before = commits();
  await process();
  expect(await states(store)).toEqual(['applied 0', 'applied 0', 'applied 0']);
  // Ten items, and then fifteen.
  expect(commits() - before).toBe(2);
});

/** A processor of deliveries, each a list of so many tasks. */
async function waiting(store: Store, lists: readonly number[]) {
  for (const [at, count] of lists.entries()) {
    const tasks = Array.from({ length: count }, (_, number) => {
      const name = `${at}-${number}`;
      return { taskId: `t${name}`, key: `T${at}-${number + 1}`, title: name, status: 'open', source: 'api' };
    });
    const answer = { action: 'saw-tasks', entity: '', sentAt: START, body: { tasks } } as const;
    await appendAnswer(store.query, answer, String(at), START);
  }
  const { processor, pending } = processorOver(store, SOURCES, {});
  return { processor, pending, processAll: async () => processor.processDeliveries(await pending()) };
}

test('the effects of deliveries and their settlement are stored together, or neither is', async () => {
  expect(await remainsOf(async (store) => (await waiting(store, [1, 2])).processAll)).toEqual([]);
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

test('yields the event loop many times between two batches', async () => {
  const turns = await turnsBetweenCommits(async (store) => (await waiting(store, [60, 60, 60])).processAll);
  expect(turns).toHaveLength(2);
  expect(Math.min(...turns)).toBeGreaterThanOrEqual(10);
});

const TASKED = workItem({ type: 'Bug', updatedAt: START });

/** The lane in which the items cause a read of the list of tasks. */
async function laneOfList(items: readonly Item[], isUnsure: boolean): Promise<string | undefined> {
  const { query, commit } = await openTestStore();
  if (isUnsure) await markTasksUnverified(query, START);
  await commit((transaction) =>
    takeBatch(
      transaction,
      items.map((item) => saidOf(item)),
      1,
    ),
  );
  const rows = await query.selectFrom('outbox').select(['entity', 'lane']).where('entity', '=', 'read:tasks').execute();
  return rows[0]?.lane;
}

test.each<[what: string, lane: string | undefined, items: readonly Item[], isUnsure?: boolean]>([
  ['names no task', undefined, [pull()]],
  ['names a possible new task', 'read', [pull({ title: 'Fixes BUG-7' })]],
  ['becomes a task', undefined, [TASKED]],
  ['becomes a task, and names a possible new one', 'triage', [{ ...TASKED, title: 'As BUG-7' }]],
  ['becomes a task, while tasks are unverified', 'triage', [TASKED], true],
  ['becomes no task, while tasks are unverified', undefined, [{ ...TASKED, type: 'Story' }], true],
])('an item that %s causes a read of the list of tasks in lane %s', async (_what, lane, items, isUnsure = false) => {
  expect(await laneOfList(items, isUnsure)).toBe(lane);
});

const CACHED = ['BUG-3', 'BUG-12', 'BUG-7', 'OPS-2', 'A1-5'];

test.each<[key: string, cached: string[], expected: boolean]>([
  ['BUG-13', CACHED, true],
  ['BUG-12', CACHED, false],
  ['BUG-1', CACHED, false],
  // The workspace's own kinds count before their first task; other prefixes count only after it.
  ['IDEA-1', CACHED, true],
  ['OPS-1', [], false],
  ['BUGS-99', CACHED, false],
])('the unknown key %s beside the cached keys %j may be a new task: %s', (key, cached, expected) => {
  expect(createKeyHorizon(cached).mayBeNew(key)).toBe(expected);
});
