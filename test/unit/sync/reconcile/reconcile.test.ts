import { expect, onTestFinished, test } from 'vitest';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import type { Source, WorkerTranslator } from '../../../../src/sync/reconcile/context.ts';
import { PLAIN_RULES } from '../../../../src/sync/reconcile/item-rules.ts';
import { rulesEvaluatedBy } from '../../../../src/sync/reconcile/reevaluation.ts';
import { pull } from '../../../support/items.ts';
import { reconcileOver } from '../../../support/reconcile-over.ts';
import { nextTurnOfLoop } from '../../../support/statements.ts';
import { type OpenedStore, openStore } from '../../../support/store.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';
import { turnsBetweenCommits } from '../../../support/turns-of-others.ts';
import { withoutTable } from '../../../support/without-table.ts';

/** Larger ones are read aside, which takes as long as it takes. */
const LARGE = 1024 * 1024 + 1;

const translation = { outcome: 'items', items: [pull()] } as const;
const translate: Source['translate'] = () => translation;

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

/** Whatever waits for nothing but its turn comes to its end. */
async function rest(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await nextTurnOfLoop();
}

test('it stops when the batch that is being taken over has come to its end, and takes no further one', async () => {
  const store = await withDelivery(LARGE);
  const [reading, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const aside: WorkerTranslator = {
    async translate() {
      reading.resolve();
      await goOn.promise;
      return translation;
    },
    parts: async () => [],
  };
  const stage = reconcileOver(store, { translate, aside });
  stage.start();
  await reading.promise;
  let hasStopped = false;
  const stopping = stage.stop().then(() => {
    hasStopped = true;
  });
  await rest();
  expect(hasStopped).toBe(false);
  await append(store, 'next');
  goOn.resolve();
  await stopping;
  expect(await states(store)).toEqual(['applied', 'pending']);
});

test('while senders crowd it waits for them, and for five seconds at most', async () => {
  const store = await withDelivery();
  const clock = createTravellingClock();
  const stage = reconcileOver(store, { translate, clock, isCrowded: () => true });
  stage.start();
  onTestFinished(() => stage.stop());
  await clock.advance(4_990);
  await rest();
  expect(await states(store)).toEqual(['pending']);
  await clock.advance(10);
  await rest();
  expect(await states(store)).toEqual(['applied']);
});

test('one that was told to stop waits for no crowd', async () => {
  const store = await withDelivery();
  const clock = createTravellingClock();
  const stage = reconcileOver(store, { translate, clock, isCrowded: () => true });
  stage.start();
  await clock.advance(10);
  await stage.stop();
  expect(clock.pending).toBe(0);
});

test('where the database takes no writes it tries again later', async () => {
  const store = await withDelivery();
  const clock = createTravellingClock();
  const stage = reconcileOver(store, { translate, clock });
  onTestFinished(() => stage.stop());
  await withoutTable(store.database, 'inbox', async () => {
    stage.start();
    await rest();
    expect(clock.pending).toBe(1);
  });
  await clock.advance(5_000);
  await rest();
  expect(await states(store)).toEqual(['applied']);
});

test('where open items cannot be looked at by new rules it tries again later', async () => {
  const store = await openStore({ file: ':memory:' });
  onTestFinished(() => store.close());
  const clock = createTravellingClock();
  const rules = { ...PLAIN_RULES, digest: 'new' };
  const stage = reconcileOver(store, { translate, clock, rules });
  onTestFinished(() => stage.stop());
  await withoutTable(store.database, 'items', async () => {
    stage.start();
    await rest();
    expect(clock.pending).toBe(1);
  });
  await clock.advance(5_000);
  await rest();
  expect(await rulesEvaluatedBy(store.query)).toBe('new');
});

test('between two batches everybody else gets many turns', async () => {
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
