import { expect, test } from 'vitest';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import type { Store } from '../../../../src/store/database.ts';
import { settleDeliveries } from '../../../../src/store/inbox.ts';
import { createPoisonMessages, type PoisonMessages } from '../../../../src/sync/reconcile/poison-messages.ts';
import { remainsOfLost } from '../../../support/all-or-nothing.ts';
import { openTestStore } from '../../../support/intake.ts';
import { withoutTable } from '../../../support/without-table.ts';

/** Deliveries of one batch. */
const BATCH = 2;

const process = (store: Store, version = '1.0.0') => createPoisonMessages({ store, version, batch: BATCH });

/** As many that wait. */
async function waiting(count: number) {
  const store = await openTestStore();
  const deliveries = Array.from({ length: count }, (_, at) => ({
    ...({ connection: 'main', key: String(at), source: 'webhook', event: 'e', body: Buffer.from('{}') } as const),
  }));
  await appendDeliveries(store.query, deliveries, 1);
  const ids = (await store.query.selectFrom('inbox').select('id').orderBy('id').execute()).map(({ id }) => id);
  return { store, suspected: (poisonMessages: PoisonMessages) => ids.map((id) => poisonMessages.has({ id })), ids };
}

/** A process that works on the inbox, and never says that it ended. */
async function die(store: Store): Promise<void> {
  const poisonMessages = process(store);
  await poisonMessages.lookBack();
  await poisonMessages.noteWork();
}

async function startAfter(store: Store, version?: string): Promise<PoisonMessages> {
  const poisonMessages = process(store, version);
  await poisonMessages.lookBack();
  return poisonMessages;
}

test('after an unclean end the oldest that a batch may hold are suspected, and none that come later', async () => {
  const { store, suspected } = await waiting(3);
  await die(store);
  expect(suspected(await startAfter(store))).toEqual([true, true, false]);
});

test('before it was looked up, or where nothing waits, none is suspected', async () => {
  const { store, suspected, ids } = await waiting(1);
  await die(store);
  expect(suspected(process(store))).toEqual([false]);
  await settleDeliveries(store.query, [{ id: ids[0] as number, state: 'applied' }], 1);
  expect(suspected(await startAfter(store))).toEqual([false]);
});

test('a process that worked on nothing, or has ended in order, leaves none to suspect', async () => {
  const { store, suspected } = await waiting(1);
  await startAfter(store);
  expect(suspected(await startAfter(store))).toEqual([false]);
  const orderly = await startAfter(store);
  await orderly.noteWork();
  await orderly.noteEnd();
  expect(suspected(await startAfter(store))).toEqual([false]);
});

test('one that ends in order without work of its own clears the one before it too', async () => {
  const { store, suspected } = await waiting(1);
  await die(store);
  const next = await startAfter(store);
  await next.noteEnd();
  expect(suspected(next)).toEqual([false]);
  expect(suspected(await startAfter(store))).toEqual([false]);
});

test('one that works again after its end is suspected again', async () => {
  const { store, suspected } = await waiting(1);
  const stage = await startAfter(store);
  await stage.noteWork();
  await stage.noteEnd();
  await stage.lookBack();
  await stage.noteWork();
  expect(suspected(await startAfter(store))).toEqual([true]);
});

test('it looks back once: what others note later says nothing of those before it', async () => {
  const { store, suspected } = await waiting(1);
  const stage = await startAfter(store);
  await stage.noteWork();
  await stage.lookBack();
  expect(suspected(stage)).toEqual([false]);
});

test('an end that cannot be written fails nobody, and counts as an unclean one', async () => {
  const { store, suspected } = await waiting(1);
  await die(store);
  const next = await startAfter(store);
  await withoutTable(store.database, 'meta', () => next.noteEnd());
  expect(suspected(await startAfter(store))).toEqual([true]);
});

test('another version tries once again what took too much', async () => {
  const { store, ids } = await waiting(1);
  const quarantine = () =>
    settleDeliveries(store.query, [{ id: ids[0] as number, state: 'quarantined', reason: 'over_budget: much' }], 1);
  const state = async () => (await store.query.selectFrom('inbox').select('state').execute())[0]?.state;
  await startAfter(store, '1.0.0');
  await quarantine();
  await startAfter(store, '1.0.0');
  expect(await state()).toBe('quarantined');
  await startAfter(store, '1.1.0');
  expect(await state()).toBe('pending');
  await quarantine();
  await startAfter(store, '1.1.0');
  expect(await state()).toBe('quarantined');
});

test.each<[what: string, before: readonly Step[], step: Step]>([
  ['begins to work', ['lookBack'], 'noteWork'],
  ['ends', ['lookBack', 'noteWork'], 'noteEnd'],
  ['looks back', [], 'lookBack'],
])('one that has lost the workspace notes nothing when it %s', async (_what, before, step) => {
  const remains = await remainsOfLost(async (store) => {
    const poisonMessages = process(store);
    for (const each of before) await poisonMessages[each]();
    return () => poisonMessages[step]();
  });
  expect(remains).toEqual([]);
});

type Step = 'lookBack' | 'noteWork' | 'noteEnd';
