import { expect, test } from 'vitest';
import type { Translation } from '../../../../src/connectors/connector.ts';
import { entity } from '../../../../src/model/change.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { Item } from '../../../../src/model/item.ts';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import type { Span } from '../../../../src/platform/lib/tracer.ts';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import type { Store } from '../../../../src/store/database.ts';
import { findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { pendingDeliveries } from '../../../../src/store/inbox.ts';
import { findChange } from '../../../../src/store/outbox-rows.ts';
import { appendAnswer } from '../../../../src/store/workspace-answers.ts';
import { createBatchInputs } from '../../../../src/sync/reconcile/batch-inputs.ts';
import type { PoisonMessages } from '../../../../src/sync/reconcile/poison-messages.ts';
import { createDeliveryProcessor } from '../../../../src/sync/reconcile/process-deliveries.ts';
import { RULES, SOURCES, START, TRACKER } from '../../../support/batches.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull, workItem } from '../../../support/items.ts';
import { openRecords } from '../../../support/records-route.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

/** One that no database takes. */
const BROKEN = workItem({ key: 'jira:cloud-1:broken', connector: null as never });

interface Parts {
  readonly refuse?: Error;
  readonly isSuspect?: boolean;
}

/** What takes deliveries over whose bodies name what they tell. */
async function opened(told: Readonly<Record<string, Translation>>, { refuse, isSuspect = false }: Parts = {}) {
  let commits = 0;
  const plain = await openTestStore({ steps: { reached: (_kind, edge) => void (edge === 'after' && commits++) } });
  const store: Store = refuse ? { ...plain, commitRelaxed: () => Promise.reject(refuse) } : plain;
  const clock = createTravellingClock({ start: START });
  const translate = ({ body }: { readonly body: Uint8Array }) => told[Buffer.from(body).toString()] as Translation;
  const sources = new Map([...SOURCES].map(([name, source]) => [name, { ...source, translate }]));
  const rung: string[] = [];
  const wakeSignal = (name: string) => ({ notify: () => void rung.push(name), wait: () => Promise.resolve() });
  const spans: Span[] = [];
  const tracer = { record: (span: Span) => void spans.push(span), traceparent: () => undefined, child: () => tracer };
  const parts = { store, clock, logger: silentLogger, sources, rules: RULES };
  const poisonMessages: Pick<PoisonMessages, 'has'> = { has: () => isSuspect };
  const takeOver = createDeliveryProcessor({
    ...{ ...parts, meter: silentMeter, tracer, poisonMessages: poisonMessages as PoisonMessages },
    ...{ outbox: wakeSignal('outbox'), fetches: wakeSignal('fetches'), writeBack: wakeSignal('write-back') },
    inputs: createBatchInputs({ ...parts, usedShare: () => 0 }),
  });
  const pending = () => pendingDeliveries(plain.query, 100, 1024 * 1024);
  return {
    ...{ store: plain, rung, spans, pending, commits: () => commits },
    append: (...bodies: string[]) => append(plain, bodies),
    take: async () => takeOver.all(await pending()),
    suspect: async () => {
      for (const delivery of await pending()) await takeOver.suspect(delivery);
    },
  };
}

async function append({ query }: Store, bodies: readonly string[]): Promise<void> {
  const deliveries = bodies.map((body) => ({
    ...({ connection: TRACKER.connection, key: body, source: 'webhook', event: 'e', body: Buffer.from(body) } as const),
  }));
  await appendDeliveries(query, deliveries, START);
}

const states = async ({ query }: Store) =>
  (await query.selectFrom('inbox').select(['state', 'attempts']).orderBy('id').execute()).map(
    ({ state, attempts }) => `${state} ${attempts}`,
  );

const told = (...items: Item[]): Translation => ({ outcome: 'items', items });
const ISSUE = workItem({ type: 'Story' });

const NONE: Translation = { outcome: 'ignored', reason: 'no' };

test('of a batch that fails only the delivery at fault waits, and after three attempts it is put into quarantine', async () => {
  const { store, append: add, take } = await opened({ good: told(ISSUE), bad: told(BROKEN), ignored: NONE });
  await add('bad', 'good', 'ignored');
  const course: string[] = [];
  for (let round = 0; round < 3; round++) {
    await take();
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
  ['a database that takes no writes', new DatabaseFault('full', 'a file', 'no space is left')],
  ['a workspace that others have taken over', new SyncError('lease_lost', 'it was taken over')],
])('%s is the fault of no delivery', async (_what, refuse) => {
  const { store, append: add, take } = await opened({ one: told(ISSUE), two: told(pull()) }, { refuse });
  await add('one', 'two');
  await expect(take()).rejects.toBe(refuse);
  expect(await states(store)).toEqual(['pending 0', 'pending 0']);
});

test.each<[attempts: number, ends: string]>([
  [0, 'applied 1'],
  [4, 'applied 5'],
  [5, 'quarantined 5'],
])('a delivery over which the process ended %j times: %s', async (attempts, ends) => {
  const { store, append: add, suspect } = await opened({ one: told(ISSUE) }, { isSuspect: true });
  await add('one');
  await store.query.updateTable('inbox').set({ attempts }).execute();
  await suspect();
  expect(await states(store)).toEqual([ends]);
});

test('the attempt of a suspect that fails is counted once, and another one anew', async () => {
  const { store, append: add, suspect } = await opened({ bad: told(BROKEN) }, { isSuspect: true });
  await add('bad');
  const course: string[] = [];
  for (let round = 0; round < 3; round++) {
    await suspect();
    course.push((await states(store)).join());
  }
  expect(course).toEqual(['pending 1', 'pending 2', 'quarantined 3']);
});

const READ: Translation = { outcome: 'references', references: [TRACKER.reference(ISSUE)] };

test.each<[what: string, rung: string[], translation: Translation]>([
  ['an item', ['outbox', 'write-back'], told(ISSUE)],
  ['what is to be fetched', ['fetches'], READ],
  ['nothing of interest', [], NONE],
])('of %s is told by the bells: %j', async (_what, expected, translation) => {
  const { append: add, take, rung } = await opened({ one: translation });
  await add('one');
  await take();
  expect(rung).toEqual(expected);
});

test('an answer of the workspace is told to those who send, and has no span of its own', async () => {
  const { store, take, rung, spans } = await opened({});
  const answer = { action: 'attach-document', entity: 'document:a', sentAt: START, body: null } as const;
  await appendAnswer(store.query, answer, '1', START);
  await take();
  expect(rung).toEqual(['outbox', 'write-back']);
  expect(spans).toEqual([]);
});

test('a span tells which items a delivery has changed, of a backfill too', async () => {
  const other = workItem({ key: 'jira:cloud-1:10002', identifier: 'ENG-2' });
  const {
    store,
    append: add,
    take,
    spans,
  } = await opened({ two: told(ISSUE, other), again: told(ISSUE), old: told({ ...ISSUE, updatedAt: 2_000 }) });
  await add('two', 'again', 'old');
  await store.query.updateTable('inbox').set({ source: 'backfill' }).where('delivery_key', '=', 'old').execute();
  await take();
  const items = spans.map(({ attributes }) => [attributes['worksync.delivery'], attributes['worksync.items']]);
  expect(items).toEqual([
    [1, `${ISSUE.key} ${other.key}`],
    [2, undefined],
    [3, ISSUE.key],
  ]);
});

test('what may be a new task is told by the keys that there are now', async () => {
  const {
    store,
    append: add,
    take,
  } = await opened({
    first: told(pull({ title: 'BUG-3: a change' })),
    second: told(pull({ title: 'BUG-4: a change', updatedAt: 2_000 })),
    third: told(pull({ title: 'BUG-10: a change', updatedAt: 3_000 })),
  });
  const isAsked = async () => {
    const asked = (await findChange(store.query, entity.readTasks)) !== undefined;
    await store.query.deleteFrom('outbox').where('kind', '=', 'read').execute();
    return asked;
  };
  await add('first');
  await take();
  expect(await isAsked()).toBe(true);
  const task = { taskId: 't9', key: 'BUG-9', title: 'T', status: 'open', source: 'api' };
  await appendAnswer(
    store.query,
    { action: 'saw-tasks', entity: '', sentAt: START, body: { tasks: [task] } },
    '1',
    START,
  );
  await take();
  await add('second');
  await take();
  expect(await isAsked()).toBe(false);
  await add('third');
  await take();
  expect(await isAsked()).toBe(true);
});

test('deliveries share a transaction up to the size of a portion, which grows where it costs little', async () => {
  const many = Array.from({ length: 25 }, (_, at) => workItem({ key: `jira:cloud-1:${at}`, identifier: `ENG-${at}` }));
  const parts = { a: told(...many.slice(0, 5)), b: told(...many.slice(5, 10)), c: told(...many.slice(10)) };
  const { store, append: add, take, commits } = await opened(parts);
  await add('a', 'b', 'c');
  const before = commits();
  await take();
  expect(await states(store)).toEqual(['applied 0', 'applied 0', 'applied 0']);
  // Ten items, and then fifteen.
  expect(commits() - before).toBe(2);
});

test.each<[what: string, rung: string[], connection: string]>([
  ['has its item fetched', ['outbox', 'write-back', 'fetches'], 'code'],
  ['of a connection that is gone cannot', ['outbox', 'write-back'], 'gone'],
])('a record that somebody edited %s', async (_what, expected, connection) => {
  const { store, append: add, take, rung } = await opened({ one: told(pull()) });
  await openRecords(store.query);
  await add('one');
  await take();
  await store.query.updateTable('items').set({ connection }).execute();
  const name = entity.pullRequest('jira', '5001', '1');
  const row = await findEntity(store.query, name);
  if (!row) throw new Error('it is not mirrored');
  await saveEntity(store.query, { ...row, known: row.desired });
  const record = { ...JSON.parse(row.desired ?? ''), title: 'Theirs' };
  rung.length = 0;
  const edited = { action: 'saw-record-edit', entity: '', sentAt: START + 1, body: record } as const;
  await appendAnswer(store.query, edited, '1', START);
  await take();
  expect(rung).toEqual(expected);
});
