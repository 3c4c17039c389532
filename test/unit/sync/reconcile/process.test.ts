import { expect, test } from 'vitest';
import type { Translation } from '../../../../src/connectors/connector.ts';
import { entity } from '../../../../src/model/change.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { Item } from '../../../../src/model/item.ts';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import type { Span } from '../../../../src/platform/lib/tracer.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import type { Store } from '../../../../src/store/database.ts';
import { findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { type PendingDelivery, pendingDeliveries } from '../../../../src/store/inbox.ts';
import { findChange } from '../../../../src/store/outbox-rows.ts';
import { appendAnswer } from '../../../../src/store/workspace-answers.ts';
import { createBatchContexts } from '../../../../src/sync/reconcile/context.ts';
import type { PoisonMessages } from '../../../../src/sync/reconcile/poison-messages.ts';
import { createProcessor } from '../../../../src/sync/reconcile/process.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { turnsBetweenCommits } from '../../../support/cost/turns-of-others.ts';
import { remainsOf, remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { RULES, SOURCES, START, TRACKER } from '../../../support/rows/batches.ts';
import { pull, workItem } from '../../../support/rows/items.ts';
import { openRecords } from '../../../support/rows/records-route.ts';

/** An item that the database rejects. */
const BROKEN = workItem({ key: 'jira:cloud-1:broken', connector: null as never });

interface Parts {
  readonly refuse?: Error;
  readonly isSuspected?: boolean;
}

/** A processor of deliveries whose bodies name their translation. */
async function opened(
  translations: Readonly<Record<string, Translation>>,
  { refuse, isSuspected = false }: Parts = {},
) {
  let commits = 0;
  const plain = await openTestStore({ steps: { reached: (_kind, edge) => void (edge === 'after' && commits++) } });
  const store: Store = refuse ? { ...plain, commitRelaxed: () => Promise.reject(refuse) } : plain;
  const clock = createTravellingClock({ start: START });
  const translate = ({ body }: { readonly body: Uint8Array }) =>
    translations[Buffer.from(body).toString()] as Translation;
  const sources = new Map([...SOURCES].map(([name, source]) => [name, { ...source, translate }]));
  const notified: string[] = [];
  const wakeSignal = (name: string) => ({ notify: () => void notified.push(name), wait: () => Promise.resolve() });
  const spans: Span[] = [];
  const tracer = { record: (span: Span) => void spans.push(span), traceparent: () => undefined, child: () => tracer };
  const parts = { store, clock, logger: silentLogger, sources, rules: RULES };
  const poisonMessages: Pick<PoisonMessages, 'isSuspected'> = { isSuspected: () => isSuspected };
  const processor = createProcessor({
    ...{ ...parts, meter: silentMeter, tracer, poisonMessages: poisonMessages as PoisonMessages },
    ...{ outbox: wakeSignal('outbox'), fetches: wakeSignal('fetches'), writeBack: wakeSignal('write-back') },
    contexts: createBatchContexts({ ...parts, usedShare: () => 0 }),
  });
  const pending = () => pendingDeliveries(plain.query, 100, 1024 * 1024);
  return {
    ...{ store: plain, notified, spans, pending, commits: () => commits },
    append: (...bodies: string[]) => append(plain, bodies),
    process: async () => processor.processDeliveries(await pending()),
    processAlone: async () => {
      for (const delivery of await pending()) await processor.processAlone(delivery);
    },
  };
}

async function append({ query }: Store, bodies: readonly string[]): Promise<void> {
  const deliveries = bodies.map((body) => ({
    ...({ connection: TRACKER.name, key: body, source: 'webhook', event: 'e', body: Buffer.from(body) } as const),
  }));
  await appendDeliveries(query, deliveries, START);
}

const states = async ({ query }: Store) =>
  (await query.selectFrom('inbox').select(['state', 'attempts']).orderBy('id').execute()).map(
    ({ state, attempts }) => `${state} ${attempts}`,
  );

const itemsOf = (...items: Item[]): Translation => ({ outcome: 'items', items });
const ISSUE = workItem({ type: 'Story' });

const NONE: Translation = { outcome: 'ignored', reason: 'no' };

test('only the faulty delivery of a batch waits, and it is quarantined after three attempts', async () => {
  const { store, append: add, process } = await opened({ good: itemsOf(ISSUE), bad: itemsOf(BROKEN), ignored: NONE });
  await add('bad', 'good', 'ignored');
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
  const { store, append: add, process } = await opened({ one: itemsOf(ISSUE), two: itemsOf(pull()) }, { refuse });
  await add('one', 'two');
  await expect(process()).rejects.toBe(refuse);
  expect(await states(store)).toEqual(['pending 0', 'pending 0']);
});

test.each<[attempts: number, ends: string]>([
  [0, 'applied 1'],
  [4, 'applied 5'],
  [5, 'quarantined 5'],
])('a delivery with %j crashes becomes %s', async (attempts, ends) => {
  const { store, append: add, processAlone } = await opened({ one: itemsOf(ISSUE) }, { isSuspected: true });
  await add('one');
  await store.query.updateTable('inbox').set({ attempts }).execute();
  await processAlone();
  expect(await states(store)).toEqual([ends]);
});

test('each failed attempt of a suspected delivery is counted once', async () => {
  const { store, append: add, processAlone } = await opened({ bad: itemsOf(BROKEN) }, { isSuspected: true });
  await add('bad');
  const course: string[] = [];
  for (let round = 0; round < 3; round++) {
    await processAlone();
    course.push((await states(store)).join());
  }
  expect(course).toEqual(['pending 1', 'pending 2', 'quarantined 3']);
});

const REFERENCE: Translation = { outcome: 'references', references: [TRACKER.reference(ISSUE)] };

test.each<[what: string, notified: string[], translation: Translation]>([
  ['an item', ['outbox', 'write-back'], itemsOf(ISSUE)],
  ['a reference', ['fetches'], REFERENCE],
  ['an ignored delivery', [], NONE],
])('%s notifies: %j', async (_what, expected, translation) => {
  const { append: add, process, notified } = await opened({ one: translation });
  await add('one');
  await process();
  expect(notified).toEqual(expected);
});

test('an answer of the workspace notifies the outbox, and has no span of its own', async () => {
  const { store, process, notified, spans } = await opened({});
  const answer = { action: 'attach-document', entity: 'document:a', sentAt: START, body: null } as const;
  await appendAnswer(store.query, answer, '1', START);
  await process();
  expect(notified).toEqual(['outbox', 'write-back']);
  expect(spans).toEqual([]);
});

test('a span names the items that a delivery changed, also for a backfill', async () => {
  const other = workItem({ key: 'jira:cloud-1:10002', identifier: 'ENG-2' });
  const {
    store,
    append: add,
    process,
    spans,
  } = await opened({ two: itemsOf(ISSUE, other), again: itemsOf(ISSUE), old: itemsOf({ ...ISSUE, updatedAt: 2_000 }) });
  await add('two', 'again', 'old');
  await store.query.updateTable('inbox').set({ source: 'backfill' }).where('delivery_key', '=', 'old').execute();
  await process();
  const items = spans.map(({ attributes }) => [attributes['worksync.delivery'], attributes['worksync.items']]);
  expect(items).toEqual([
    [1, `${ISSUE.key} ${other.key}`],
    [2, undefined],
    [3, ISSUE.key],
  ]);
});

test('possible new tasks are decided by the present keys', async () => {
  const {
    store,
    append: add,
    process,
  } = await opened({
    first: itemsOf(pull({ title: 'BUG-3: a change' })),
    second: itemsOf(pull({ title: 'BUG-4: a change', updatedAt: 2_000 })),
    third: itemsOf(pull({ title: 'BUG-10: a change', updatedAt: 3_000 })),
  });
  const isRequested = async () => {
    const requested = (await findChange(store.query, entity.readTasks)) !== undefined;
    await store.query.deleteFrom('outbox').where('kind', '=', 'read').execute();
    return requested;
  };
  await add('first');
  await process();
  expect(await isRequested()).toBe(true);
  const task = { taskId: 't9', key: 'BUG-9', title: 'T', status: 'open', source: 'api' };
  await appendAnswer(
    store.query,
    { action: 'saw-tasks', entity: '', sentAt: START, body: { tasks: [task] } },
    '1',
    START,
  );
  await process();
  await add('second');
  await process();
  expect(await isRequested()).toBe(false);
  await add('third');
  await process();
  expect(await isRequested()).toBe(true);
});

test('deliveries share a transaction up to the batch size, which grows when batches are cheap', async () => {
  const many = Array.from({ length: 25 }, (_, at) => workItem({ key: `jira:cloud-1:${at}`, identifier: `ENG-${at}` }));
  const parts = { a: itemsOf(...many.slice(0, 5)), b: itemsOf(...many.slice(5, 10)), c: itemsOf(...many.slice(10)) };
  const { store, append: add, process, commits } = await opened(parts);
  await add('a', 'b', 'c');
  const before = commits();
  await process();
  expect(await states(store)).toEqual(['applied 0', 'applied 0', 'applied 0']);
  // Ten items, and then fifteen.
  expect(commits() - before).toBe(2);
});

test.each<[what: string, notified: string[], connection: string]>([
  ['causes a fetch of its item', ['outbox', 'write-back', 'fetches'], 'code'],
  ['of a removed connection causes none', ['outbox', 'write-back'], 'gone'],
])('a record that another client edited %s', async (_what, expected, connection) => {
  const { store, append: add, process, notified } = await opened({ one: itemsOf(pull()) });
  await openRecords(store.query);
  await add('one');
  await process();
  await store.query.updateTable('items').set({ connection }).execute();
  const name = entity.pullRequest('jira', '5001', '1');
  const row = await findEntity(store.query, name);
  if (!row) throw new Error('it is not mirrored');
  await saveEntity(store.query, { ...row, known: row.desired });
  const record = { ...JSON.parse(row.desired ?? ''), title: 'Theirs' };
  notified.length = 0;
  const edited = { action: 'saw-record-edit', entity: '', sentAt: START + 1, body: record } as const;
  await appendAnswer(store.query, edited, '1', START);
  await process();
  expect(notified).toEqual(expected);
});

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
