import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import { itemsAtUrl, itemsByDisplayName } from '../../../../src/store/items.ts';
import { changesInState } from '../../../../src/store/outbox-rows.ts';
import {
  type GuardLimits,
  PLAIN_RULES,
  type ReconcileConnection,
  type Rules,
  type WorkerTranslator,
} from '../../../../src/sync/reconcile/context.ts';
import { rulesEvaluatedBy } from '../../../../src/sync/reconcile/reevaluate.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { withoutTable } from '../../../support/faults/without-table.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { reconcileOver } from '../../../support/harness/reconcile-over.ts';
import { nextTurnOfLoop } from '../../../support/harness/statements.ts';
import { type OpenedStore, openStore } from '../../../support/harness/store.ts';
import { ON_POSTGRES } from '../../../support/postgres/store-place.ts';
import { pull } from '../../../support/rows/items.ts';

/** Bytes of a body that the worker thread reads, for as long as a test needs. */
const LARGE = 1024 * 1024 + 1;

const translation = { outcome: 'items', items: [pull()] } as const;
const translate: ReconcileConnection['translate'] = () => translation;

async function withDelivery(size = 2): Promise<OpenedStore> {
  const store = await openStore({ file: ':memory:' });
  onTestFinished(() => store.close());
  await append(store, 'first', size);
  return store;
}

async function append({ query }: OpenedStore, key: string, size = 2): Promise<void> {
  const body = Buffer.from('{}'.padEnd(size));
  await appendDeliveries(query, [{ connection: 'main', key, source: 'webhook', event: 'e', body }], 1);
}

const states = async ({ query }: OpenedStore) =>
  (await query.selectFrom('inbox').select('state').orderBy('id').execute()).map(({ state }) => state);

/** Runs everything that waits only for the event loop. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await nextTurnOfLoop();
}

test('finishes the current batch when it stops, and starts no other', async () => {
  const store = await withDelivery(LARGE);
  const [reading, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const worker: WorkerTranslator = {
    async translate() {
      reading.resolve();
      await goOn.promise;
      return translation;
    },
    elements: async () => [],
  };
  const stage = reconcileOver(store, { translate, worker });
  stage.start();
  await reading.promise;
  let hasStopped = false;
  const stopping = stage.stop().then(() => {
    hasStopped = true;
  });
  await settle();
  expect(hasStopped).toBe(false);
  await append(store, 'next');
  goOn.resolve();
  await stopping;
  expect(await states(store)).toEqual(['applied', 'pending']);
});

test('waits while intake is crowded, for at most five seconds', async () => {
  const store = await withDelivery();
  const clock = createTravellingClock();
  const stage = reconcileOver(store, { translate, clock, isCrowded: () => true });
  stage.start();
  onTestFinished(() => stage.stop());
  await clock.advance(4_990);
  await settle();
  expect(await states(store)).toEqual(['pending']);
  await clock.advance(10);
  await settle();
  expect(await states(store)).toEqual(['applied']);
});

test('stops waiting for a crowded intake when it is stopped', async () => {
  const store = await withDelivery();
  const clock = createTravellingClock();
  const stage = reconcileOver(store, { translate, clock, isCrowded: () => true });
  stage.start();
  await clock.advance(10);
  await stage.stop();
  expect(clock.pending).toBe(0);
});

test.each<[why: string, table: 'inbox' | 'items', rules?: Rules]>([
  ['the database accepts no writes', 'inbox'],
  ['open items cannot be re-evaluated', 'items', { ...PLAIN_RULES, digest: 'new' }],
])('retries later if %s', async (_why, table, rules) => {
  const store = await withDelivery();
  const clock = createTravellingClock();
  const stage = reconcileOver(store, { translate, clock, rules });
  onTestFinished(() => stage.stop());
  await withoutTable(store.database, table, async () => {
    stage.start();
    await settle();
    expect(clock.pending).toBe(1);
  });
  await clock.advance(5_000);
  await settle();
  expect([await states(store), await rulesEvaluatedBy(store.query)]).toEqual([['applied'], rules?.digest]);
});

const RECEIVED = Date.UTC(2026, 0, 2);

/** Texts that a vendor may return and that not every database accepts. */
const HOSTILE = {
  key: 'github:github.com:r1:pr:\u00007',
  identifier: '7\u0000',
  title: 'a\u0000b\ud800c \udfff \\u0000',
  url: 'https://github.com/acme/app/pull/7\ud83d',
  branch: '\u0000',
  labels: ['\u0000', 'fine', '\udc00'],
};

test('stores, finds and recognizes an item whose texts contain U+0000 and lone surrogates', async () => {
  const store = await openTestStore();
  const item = pull({ ...HOSTILE, repoName: 'acme/app\u0000' });
  const reconcile = reconcileOver(store, { translate: () => ({ outcome: 'items', items: [item] }), start: RECEIVED });
  for (const key of ['first', 'again']) {
    const delivery = { connection: 'main', key, source: 'poll', event: 'pull', body: Buffer.from('{}') } as const;
    await appendDeliveries(store.query, [delivery], RECEIVED);
    await reconcile.drain();
  }
  const deliveries = await store.query.selectFrom('inbox').select(['state', 'reason']).orderBy('id').execute();
  expect(deliveries).toEqual([
    { state: 'applied', reason: null },
    { state: 'applied', reason: null },
  ]);
  const key = 'github:github.com:r1:pr:\ufffd7';
  expect(await itemsAtUrl(store.query, 'https://github.com/acme/app/pull/7\ufffd')).toEqual([key]);
  expect(await itemsByDisplayName(store.query, 'acme/app\ufffd#7\ufffd')).toEqual([key]);
  const { fields } = await store.query.selectFrom('items').select('fields').executeTakeFirstOrThrow();
  const title = 'a\ufffdb\ufffdc \ufffd \\u0000';
  expect(JSON.parse(fields)).toMatchObject({ item: { title, labels: ['\ufffd', 'fine', '\ufffd'] } });
});

/** A delivery with many items is processed in parts, and the last part settles it. */

const FIRST = Date.UTC(2026, 0, 1);
const SECOND = Date.UTC(2026, 0, 2);

/** Numbers of pull requests, and when each was changed. */
type Page = readonly (readonly [number: number, updatedAt: number])[];

const pageOf = (from: number, to: number, updatedAt: number): Page =>
  Array.from({ length: to - from + 1 }, (_, index) => [from + index, updatedAt]);

const translatePage: ReconcileConnection['translate'] = ({ body }) => ({
  outcome: 'items',
  items: (JSON.parse(body.toString()) as Page).map(([number, updatedAt]) =>
    pull({ identifier: String(number), key: `github:github.com:r1:pr:${number}`, updatedAt }),
  ),
});

async function openPages(guard?: GuardLimits) {
  const statements: string[] = [];
  const store = await openTestStore({ onStatement: (statement) => statements.push(statement) });
  const reconcile = reconcileOver(store, { translate: translatePage, start: SECOND, guard });
  return { store, statements, drain: () => reconcile.drain() };
}

async function appendPage(store: OpenedStore, key: string, page: Page, at = SECOND): Promise<void> {
  const body = Buffer.from(JSON.stringify(page));
  const delivery = { connection: 'main', key, source: 'poll', event: 'list', body } as const;
  await appendDeliveries(store.query, [delivery], at);
}

const items = async ({ query }: OpenedStore) => (await query.selectFrom('items').select('key').execute()).length;

/** Counts the items that a transaction writes: rows of its statements, with values, or with parameters. */
function rowsWrittenIn(transaction: string): number {
  const [, ...texts] = transaction.split('insert into "items"');
  const inserts = ON_POSTGRES ? texts.map((text) => text.split('\n', 1)) : texts;
  return inserts.join('').match(/\(\+?'github:github\.com:r1:pr:\d+', \+?'pull_request'|\(\$\d+, /g)?.length ?? 0;
}

/** Makes the database reject items whose keys end with `end`. Returns the function that ends this. */
async function refuseItem({ database }: OpenedStore, end: string): Promise<() => Promise<void>> {
  const run = (text: string) => sql.raw(text).execute(database);
  if (!ON_POSTGRES) {
    await run(`create trigger refuse before insert on items when new.key like '%${end}'
      begin select raise(abort, 'not this one'); end`);
    return async () => void (await run('drop trigger refuse'));
  }
  await run(
    `create function refuse() returns trigger as $$ begin raise exception 'not this one'; end $$ language plpgsql`,
  );
  await run(
    `create trigger refuse before insert on items for each row when (new.key like '%${end}') execute function refuse()`,
  );
  return async () => void (await run('drop function refuse cascade'));
}

test('a page of many items takes several transactions of at most 40 items', async () => {
  const { store, statements, drain } = await openPages();
  await appendPage(store, 'page', pageOf(1, 90, FIRST));
  statements.length = 0;
  await drain();
  const transactions = statements
    .join('\n')
    .split(/^begin.*$/m)
    .slice(1);
  const written = transactions.map(rowsWrittenIn).filter((count) => count > 0);
  expect(written.length).toBeGreaterThan(1);
  expect(Math.max(...written)).toBeLessThanOrEqual(40);
  expect([await items(store), await states(store)]).toEqual([90, ['applied']]);
});

test('a delivery is superseded only if all its parts are', async () => {
  const { store, drain } = await openPages();
  await appendPage(store, 'new', pageOf(1, 90, SECOND));
  await appendPage(store, 'old', pageOf(1, 90, FIRST));
  await appendPage(store, 'first is new', [...pageOf(100, 100, FIRST), ...pageOf(1, 90, FIRST)]);
  await appendPage(store, 'last is new', [...pageOf(1, 90, FIRST), ...pageOf(101, 101, FIRST)]);
  await drain();
  expect(await states(store)).toEqual(['applied', 'superseded', 'applied', 'applied']);
});

test('a delivery with a failed part is not settled by a later part', async () => {
  const { store, drain } = await openPages();
  // The items are processed from the last number to the first.
  onTestFinished(await refuseItem(store, ':61'));
  await appendPage(store, 'page', pageOf(1, 90, FIRST));
  await appendPage(store, 'next', pageOf(91, 95, FIRST));
  await drain();
  expect(await states(store)).toEqual(['quarantined', 'applied']);
  expect(await items(store)).toBe(20 + 5);
});

test('a retried delivery does not repeat the changes of its applied parts', async () => {
  const { store, drain } = await openPages();
  await appendPage(store, 'page', pageOf(1, 90, FIRST));
  const acceptItem = await refuseItem(store, ':50');
  await drain();
  await acceptItem();
  await store.query.updateTable('inbox').set({ state: 'pending', attempts: 0 }).execute();
  await drain();
  expect([await items(store), await states(store)]).toEqual([90, ['applied']]);
  const entities = await store.query.selectFrom('outbox').select('entity').execute();
  expect(new Set(entities.map(({ entity }) => entity)).size).toBe(90);
});

test('the changes of pages are due from the highest number to the lowest, and the guard holds the lowest', async () => {
  const unlimited = Number.POSITIVE_INFINITY;
  const { store, drain } = await openPages({ creations: 200, removals: unlimited, repairs: unlimited, statuses: 50 });
  // A first poll reads the pages from the last to the first; each lists the oldest item first.
  for (const [index, from] of [201, 101, 1].entries())
    await appendPage(store, `page ${index}`, pageOf(from, from + 99, FIRST), SECOND - 3_000 + index * 1_000);
  await drain();
  const numbersOf = async (state: 'pending' | 'held') =>
    (await changesInState(store.query, state, 300)).map(({ entity }) => Number(entity.split('/').at(-1)));
  const down = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, index) => from - index);
  expect(await numbersOf('pending')).toEqual(down(300, 101));
  expect(await numbersOf('held')).toEqual(down(100, 1));
});
