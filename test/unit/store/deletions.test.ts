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
import { openTestStore } from '../../support/harness/intake.ts';

const BEFORE = 100;
const SETTLED: readonly DeliveryState[] = ['applied', 'superseded', 'ignored', 'quarantined'];

/** Deliveries that were received and settled at this time, one in each state, and a pending one. */
async function withDeliveries(at: number, bytes = 2): Promise<Store> {
  const store = await openTestStore();
  const { query } = store;
  const body = Buffer.alloc(bytes, 'x');
  const of = (key: string) =>
    ({ connection: 'c', key, source: 'webhook', event: 'e', body, packed: { body, unpacked_length: null } }) as const;
  await appendDeliveries(query, [...SETTLED, 'pending'].map(of), at);
  for (const state of SETTLED)
    await query.updateTable('inbox').set({ state, settled_at: at }).where('delivery_key', '=', state).execute();
  return store;
}

const keysWhere = async ({ query }: Store, isMeant: (body: Buffer | null) => boolean) =>
  (await query.selectFrom('inbox').select(['delivery_key', 'body']).orderBy('id').execute())
    .filter(({ body }) => isMeant(body))
    .map((row) => row.delivery_key);

const all = [...SETTLED, 'pending'];

test.each<[at: number, kept: readonly string[]]>([
  [BEFORE - 1, ['quarantined', 'pending']],
  [BEFORE, all],
])('keeps, of deliveries settled at %j, the bodies of %j', async (at, kept) => {
  const store = await withDeliveries(at);
  const { query } = store;
  const purged = all.length - kept.length;
  expect(await withOldBodies(query.whole, [query.workspace], BEFORE)).toEqual(purged > 0 ? [query.workspace] : []);
  expect(await purgeBodies(query, BEFORE, 10)).toBe(purged);
  expect(await keysWhere(store, (body) => body !== null)).toEqual(kept);
  expect(await purgeBodies(query, BEFORE, 10)).toBe(0);
  expect(await withOldBodies(query.whole, [query.workspace], BEFORE)).toEqual([]);
});

test.each<[at: number, kept: readonly string[]]>([
  [BEFORE - 1, ['pending']],
  [BEFORE, all],
])('of deliveries that came at %j these are kept: %j', async (at, kept) => {
  const store = await withDeliveries(at);
  const { query } = store;
  const deleted = all.length - kept.length;
  expect(await withOldDeliveries(query.whole, [query.workspace], BEFORE)).toEqual(deleted > 0 ? [query.workspace] : []);
  expect(await deleteDeliveries(query, BEFORE, 10)).toBe(deleted);
  expect(await keysWhere(store, () => true)).toEqual(kept);
  expect(await deleteDeliveries(query, BEFORE, 10)).toBe(0);
  expect(await withOldDeliveries(query.whole, [query.workspace], BEFORE)).toEqual([]);
});

test('purges and deletes at most the given number at a time', async () => {
  const store = await withDeliveries(1);
  expect(await purgeBodies(store.query, BEFORE, 2)).toBe(2);
  expect(await deleteDeliveries(store.query, BEFORE, 3)).toBe(3);
  expect(await keysWhere(store, () => true)).toHaveLength(2);
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
  expect(await keysWhere(store, () => true)).toEqual([]);
  expect(Math.max(...chunks)).toBeLessThan(all.length);
  const huge = await withDeliveries(1, 8 * MEGA + 1);
  expect(await purgeBodies(huge.query, BEFORE, 10)).toBe(1);
});
