import { expect, test } from 'vitest';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import {
  type DeliveryPosition,
  type DeliverySearch,
  deliveriesByIds,
  searchDeliveries,
} from '../../../src/store/find-deliveries.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/harness/intake.ts';

async function open(count: number): Promise<Scope> {
  const { query } = await openTestStore();
  const deliveries = Array.from({ length: count }, (_, index) => ({
    ...{ connection: index === 0 ? 'rare' : 'notes', key: `k${index}`, source: 'webhook' as const },
    ...{ event: 'note', body: Buffer.from('body') },
  }));
  await appendDeliveries(query, deliveries, 5);
  return query;
}

const ids = ({ found }: DeliverySearch) => found.map(({ id }) => id);

test('finds deliveries by any number of ids, the newest first and each once', async () => {
  const query = await open(3);
  const many = Array.from({ length: 40_000 }, (_, index) => index);
  expect((await deliveriesByIds(query, [...many, 2])).map(({ id }) => id)).toEqual([3, 2, 1]);
  expect(await deliveriesByIds(query, [])).toEqual([]);
});

test.each(['quarantined', 'applied'] as const)(
  'searches only the given number of deliveries in one step, among %s ones',
  async (state) => {
    const query = await open(9);
    await query.updateTable('inbox').set({ state, settled_at: 6 }).execute();
    const filter = { states: [state], connection: 'rare' };
    const search = (before: DeliveryPosition | undefined) =>
      searchDeliveries(query, filter, { before, most: 4, wanted: 2 });
    const first = await search(undefined);
    expect([ids(first), first.next]).toEqual([[], { id: 6, at: 5 }]);
    const second = await search(first.next);
    expect([ids(second), second.next]).toEqual([[], { id: 2, at: 5 }]);
    const third = await search(second.next);
    expect([ids(third), third.next]).toEqual([[1], undefined]);
  },
);
