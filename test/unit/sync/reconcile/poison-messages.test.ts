import { expect, test } from 'vitest';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import type { Store } from '../../../../src/store/database.ts';
import { countAttempt, settleDeliveries } from '../../../../src/store/inbox.ts';
import { createPoisonMessages, type PoisonMessages } from '../../../../src/sync/reconcile/poison-messages.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { withoutTable } from '../../../support/faults/without-table.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

/** Deliveries of one batch. */
const BATCH = 2;

const process = (store: Store, version = '1.0.0') =>
  createPoisonMessages({ store, clock: createTravellingClock(), version, batch: BATCH });

function deliveryOf(key: string) {
  return { connection: 'main', key, source: 'webhook', event: 'e', body: Buffer.from('{}') } as const;
}

/** A store with pending deliveries. */
async function waiting(count: number) {
  const store = await openTestStore();
  const deliveries = Array.from({ length: count }, (_, at) => deliveryOf(String(at)));
  await appendDeliveries(store.query, deliveries, 1);
  const ids = (await store.query.selectFrom('inbox').select('id').orderBy('id').execute()).map(({ id }) => id);
  return {
    store,
    suspected: (poisonMessages: PoisonMessages) => ids.map((id) => poisonMessages.isSuspected({ id })),
    ids,
  };
}

/** Works on the inbox without a clean end. */
async function crash(store: Store): Promise<void> {
  const poisonMessages = process(store);
  await poisonMessages.detect();
  await poisonMessages.markBusy();
}

async function startAfter(store: Store, version?: string): Promise<PoisonMessages> {
  const poisonMessages = process(store, version);
  await poisonMessages.detect();
  return poisonMessages;
}

test('after an unclean end the oldest deliveries of one batch are suspected, and no later ones', async () => {
  const { store, suspected } = await waiting(3);
  await crash(store);
  expect(suspected(await startAfter(store))).toEqual([true, true, false]);
});

test('no delivery is suspected before the detection, or if none is pending', async () => {
  const { store, suspected, ids } = await waiting(1);
  await crash(store);
  expect(suspected(process(store))).toEqual([false]);
  await settleDeliveries(store.query, [{ id: ids[0] as number, state: 'applied' }], 1);
  expect(suspected(await startAfter(store))).toEqual([false]);
});

test('a process that did no work, or had a clean end, leaves no suspected delivery', async () => {
  const { store, suspected } = await waiting(1);
  await startAfter(store);
  expect(suspected(await startAfter(store))).toEqual([false]);
  const orderly = await startAfter(store);
  await orderly.markBusy();
  await orderly.markIdle();
  expect(suspected(await startAfter(store))).toEqual([false]);
});

test('a clean end keeps the suspicion and the pause of a delivery that was not tried again', async () => {
  const { store, suspected, ids } = await waiting(2);
  const [poison = 0, other = 0] = ids;
  await crash(store);
  await countAttempt(store.query, [poison]);
  const next = await startAfter(store);
  await settleDeliveries(store.query, [{ id: other, state: 'applied' }], 1);
  await next.markIdle();
  const last = await startAfter(store);
  expect(suspected(last)[0]).toBe(true);
  expect([...last.paused()]).toEqual([[poison, 10_000]]);
  await settleDeliveries(store.query, [{ id: poison, state: 'applied' }], 1);
  await last.markIdle();
  await appendDeliveries(store.query, [deliveryOf('later')], 1);
  const later = await startAfter(store);
  expect(later.isSuspected({ id: other + 1 })).toBe(false);
});

test('a process that works again after a clean end can crash again', async () => {
  const { store, suspected } = await waiting(1);
  const stage = await startAfter(store);
  await stage.markBusy();
  await stage.markIdle();
  await stage.detect();
  await stage.markBusy();
  expect(suspected(await startAfter(store))).toEqual([true]);
});

test('detects once: its own later work causes no suspicion', async () => {
  const { store, suspected } = await waiting(1);
  const stage = await startAfter(store);
  await stage.markBusy();
  await stage.detect();
  expect(suspected(stage)).toEqual([false]);
});

test('an end that cannot be stored does not fail, and counts as an unclean end', async () => {
  const { store, suspected } = await waiting(1);
  await crash(store);
  const next = await startAfter(store);
  await withoutTable(store.database, 'meta', () => next.markIdle());
  expect(suspected(await startAfter(store))).toEqual([true]);
});

test('another version retries the deliveries that exceeded their budget, once', async () => {
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

test.each<[what: string, earlier: readonly Step[], step: Step]>([
  ['marks the process as busy', ['detect'], 'markBusy'],
  ['marks it as idle', ['detect', 'markBusy'], 'markIdle'],
  ['detects', [], 'detect'],
])('a process that lost its lease stores nothing when it %s', async (_what, earlier, step) => {
  const remains = await remainsOfLost(async (store) => {
    const poisonMessages = process(store);
    for (const each of earlier) await poisonMessages[each]();
    return () => poisonMessages[step]();
  });
  expect(remains).toEqual([]);
});

type Step = 'detect' | 'markBusy' | 'markIdle';
