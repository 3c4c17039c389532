import { expect, test } from 'vitest';
import type { DeliveryState } from '../../../src/model/delivery.ts';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import type { Store } from '../../../src/store/database.ts';
import {
  deleteDeliveries,
  deleteRows,
  purgeBodies,
  withOldBodies,
  withOldDeliveries,
} from '../../../src/store/deletions.ts';
import { addLedgerRow, endLedgerRow, forgetLedgerRows, readLedger } from '../../../src/store/ledger.ts';
import {
  addRequest,
  deleteRequests,
  MOST_REQUESTS,
  requestsOfItems,
  withOldRequests,
} from '../../../src/store/requests.ts';
import { inboxOf, openTestStore } from '../../support/harness/intake.ts';

const BEFORE = 100;
const SETTLED: readonly DeliveryState[] = ['applied', 'superseded', 'ignored', 'quarantined'];
const ALL = [...SETTLED, 'pending'];

/** Deliveries that were received and settled at this time, one in each state, and a pending one. */
async function withDeliveries(at: number, bytes = 2): Promise<Store> {
  const store = await openTestStore();
  const body = Buffer.alloc(bytes, 'x');
  const packed = { body, unpacked_length: null };
  const deliveries = ALL.map((key) => ({ connection: 'c', key, source: 'webhook', event: 'e', body, packed }) as const);
  await appendDeliveries(store.query, deliveries, at);
  for (const state of SETTLED)
    await store.query.updateTable('inbox').set({ state, settled_at: at }).where('delivery_key', '=', state).execute();
  return store;
}

const BODIES = { find: withOldBodies, remove: purgeBodies, what: 'the bodies', kept: ['quarantined', 'pending'] };
const DELIVERIES = { find: withOldDeliveries, remove: deleteDeliveries, what: 'the deliveries', kept: ['pending'] };

test.each([
  { ...BODIES, at: BEFORE - 1 },
  { ...BODIES, at: BEFORE, kept: ALL },
  { ...DELIVERIES, at: BEFORE - 1 },
  { ...DELIVERIES, at: BEFORE, kept: ALL },
])('keeps $what of $kept of those settled at $at', async ({ find, remove, what, kept, at }) => {
  const store = await withDeliveries(at);
  const { query } = store;
  const old = () => find(query.whole, [query.workspace], BEFORE);
  const removed = ALL.length - kept.length;
  expect(await old()).toEqual(removed > 0 ? [query.workspace] : []);
  expect([await remove(query, BEFORE, 10), await remove(query, BEFORE, 10)]).toEqual([removed, 0]);
  const left = (await inboxOf(store)).filter(({ body }) => what === 'the deliveries' || body !== null);
  expect(left.map((row) => row.delivery_key)).toEqual(kept);
  expect(await old()).toEqual([]);
});

test('purges and deletes at most the given number at a time', async () => {
  const store = await withDeliveries(1);
  expect([await purgeBodies(store.query, BEFORE, 2), await deleteDeliveries(store.query, BEFORE, 3)]).toEqual([2, 3]);
  expect(await inboxOf(store)).toHaveLength(2);
});

test('purges and deletes large bodies in smaller chunks, and one that exceeds a chunk alone', async () => {
  const MEGA = 1024 * 1024;
  const store = await withDeliveries(1, 4 * MEGA);
  expect(await purgeBodies(store.query, BEFORE, 10)).toBe(2);
  const chunks: number[] = [];
  await deleteRows(async (deleteChunk) => {
    const deleted = await deleteChunk(store.query);
    chunks.push(deleted);
    return deleted;
  });
  expect(await inboxOf(store)).toEqual([]);
  expect(Math.max(...chunks)).toBeLessThan(ALL.length);
  const huge = await withDeliveries(1, 8 * MEGA + 1);
  expect(await purgeBodies(huge.query, BEFORE, 10)).toBe(1);
});

const request = (item: string | null, completed = 5): Parameters<typeof addRequest>[1] => ({
  ...{ entity: `link:${item}>t`, kind: 'link', item_key: item, task_id: 't', action: 'add-link', lane: 'link' },
  ...{ since: 1, due: 2, asked_at: 3, slot_at: 3, sent_at: 4, completed_at: completed, status: 201, error: null },
  ...{ outcome: 'answered', attempt: 1, deliveries: '[7]', answer: 'a' },
});

test('numbers requests in the order of their completion, and finds them by item', async () => {
  const { query } = await openTestStore();
  for (const item of ['a', 'b', null, 'a']) await addRequest(query, request(item));
  const found = await requestsOfItems(query, ['a', 'b'], 2);
  expect(found.map(({ id, item_key }) => `${id} ${item_key}`)).toEqual(['4 a', '2 b']);
  expect(await requestsOfItems(query, [], 2)).toEqual([]);
});

test('deletes old requests in chunks', async () => {
  const { query } = await openTestStore();
  for (const completed of [1, 2, 3, 4]) await addRequest(query, request('a', completed));
  const old = () => withOldRequests(query.whole, [query.workspace, 99], 4);
  expect(await old()).toEqual([query.workspace]);
  const deleted: number[] = [];
  for (let chunk = 0; chunk < 3; chunk++) deleted.push(await deleteRequests(query, 4, 2));
  expect([deleted, await old()]).toEqual([[2, 1, 0], []]);
  expect((await requestsOfItems(query, ['a'], 9)).map(({ completed_at }) => completed_at)).toEqual([4]);
});

test('deletes the surplus requests of each workspace, whatever their age', async () => {
  const { query } = await openTestStore();
  const old = () => withOldRequests(query.whole, [query.workspace], 0);
  await addRequest(query, request('a'));
  await query.updateTable('requests').set({ id: MOST_REQUESTS }).execute();
  await addRequest(query, request('a'));
  expect(await old()).toEqual([]);
  await query
    .insertInto('requests')
    .values({ ...request('b'), id: 1 })
    .execute();
  expect(await old()).toEqual([query.workspace]);
  expect(await deleteRequests(query, 0, 10)).toBe(1);
  const kept = (await requestsOfItems(query, ['a', 'b'], 9)).map(({ id }) => id);
  expect(kept).toEqual([MOST_REQUESTS + 1, MOST_REQUESTS]);
});

test('the ledger stores the first end of a request, and forgets old and unsent requests', async () => {
  const { query } = await openTestStore();
  for (const id of [1, 2, 3]) await addLedgerRow(query, { id, boot: 'boot', lane: 'link', caller: '', started: id });
  const rows = async () => (await readLedger(query)).map(({ id, completed, status }) => `${id} ${completed} ${status}`);
  expect(await endLedgerRow(query, 2, 50, 200)).toBe(true);
  expect(await endLedgerRow(query, 2, 90, 500)).toBe(false);
  expect(await endLedgerRow(query, 3, 60, undefined)).toBe(true);
  expect(await endLedgerRow(query, 9, 60, 200)).toBe(false);
  expect(await rows()).toEqual(['1 null null', '2 50 200', '3 60 null']);
  await forgetLedgerRows(query, 60, []);
  expect(await rows()).toEqual(['1 null null', '3 60 null']);
  await forgetLedgerRows(query, 0, [1]);
  expect(await rows()).toEqual(['3 60 null']);
});
