import { expect, test } from 'vitest';
import type { DeliveryState } from '../../../src/model/delivery.ts';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import type { Store } from '../../../src/store/database.ts';
import {
  deleteAnyDeliveries,
  deleteDeliveries,
  purgeBodies,
  withOldBodies,
  withOldDeliveries,
} from '../../../src/store/deletions.ts';
import { openTestStore } from '../../support/intake.ts';

const BEFORE = 100;
const SETTLED: readonly DeliveryState[] = ['applied', 'superseded', 'ignored', 'quarantined'];

/** Deliveries that came and were settled at that time, one in each state, and one that waits. */
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
])('of deliveries that were settled at %j, bodies are kept of %j', async (at, kept) => {
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

test('only so many are purged or deleted at a time', async () => {
  const store = await withDeliveries(1);
  expect(await purgeBodies(store.query, BEFORE, 2)).toBe(2);
  expect(await deleteDeliveries(store.query, BEFORE, 3)).toBe(3);
  expect(await deleteAnyDeliveries(store.query, 1)).toBe(1);
  expect(await keysWhere(store, () => true)).toHaveLength(1);
});

test('large bodies go in smaller pieces, and one that is larger than a piece alone', async () => {
  const MEGA = 1024 * 1024;
  const store = await withDeliveries(1, 4 * MEGA);
  expect(await purgeBodies(store.query, BEFORE, 10)).toBe(2);
  expect(await deleteAnyDeliveries(store.query, 10)).toBeGreaterThan(1);
  const huge = await withDeliveries(1, 8 * MEGA + 1);
  expect(await purgeBodies(huge.query, BEFORE, 10)).toBe(1);
});
