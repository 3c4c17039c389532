import { expect, onTestFinished, test } from 'vitest';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import { itemsAtUrl, itemsByDisplayName } from '../../../../src/store/items.ts';
import {
  PLAIN_RULES,
  type ReconcileConnection,
  type WorkerTranslator,
} from '../../../../src/sync/reconcile/context.ts';
import { rulesEvaluatedBy } from '../../../../src/sync/reconcile/reevaluate.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { turnsBetweenCommits } from '../../../support/cost/turns-of-others.ts';
import { withoutTable } from '../../../support/faults/without-table.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { reconcileOver } from '../../../support/harness/reconcile-over.ts';
import { nextTurnOfLoop } from '../../../support/harness/statements.ts';
import { type OpenedStore, openStore } from '../../../support/harness/store.ts';
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

test('retries later if the database accepts no writes', async () => {
  const store = await withDelivery();
  const clock = createTravellingClock();
  const stage = reconcileOver(store, { translate, clock });
  onTestFinished(() => stage.stop());
  await withoutTable(store.database, 'inbox', async () => {
    stage.start();
    await settle();
    expect(clock.pending).toBe(1);
  });
  await clock.advance(5_000);
  await settle();
  expect(await states(store)).toEqual(['applied']);
});

test('retries later if open items cannot be re-evaluated', async () => {
  const store = await openStore({ file: ':memory:' });
  onTestFinished(() => store.close());
  const clock = createTravellingClock();
  const rules = { ...PLAIN_RULES, digest: 'new' };
  const stage = reconcileOver(store, { translate, clock, rules });
  onTestFinished(() => stage.stop());
  await withoutTable(store.database, 'items', async () => {
    stage.start();
    await settle();
    expect(clock.pending).toBe(1);
  });
  await clock.advance(5_000);
  await settle();
  expect(await rulesEvaluatedBy(store.query)).toBe('new');
});

test('yields the event loop many times between two batches', async () => {
  const turns = await turnsBetweenCommits(async (store) => {
    const deliveries = Array.from({ length: 201 }, (_, at) => ({
      ...({ connection: 'main', key: String(at), source: 'webhook', event: 'e', body: Buffer.from('{}') } as const),
    }));
    await appendDeliveries(store.query, deliveries, 1);
    const ignored = { outcome: 'ignored', reason: 'no' } as const;
    const stage = reconcileOver(store, { translate: () => ignored });
    return () => stage.drain();
  });
  expect(Math.min(...turns.slice(-2))).toBeGreaterThanOrEqual(10);
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
