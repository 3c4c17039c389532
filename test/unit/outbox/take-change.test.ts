import { expect, test } from 'vitest';
import { remainsOf } from '../../support/all-or-nothing.ts';
import { openTestStore } from '../../support/intake.ts';
import { linkOf, outboxBench } from '../../support/outbox-bench.ts';
import { withoutTable } from '../../support/without-table.ts';

test('the request and its row of the ledger are stored together, or neither is', async () => {
  expect(
    await remainsOf(async (store) => {
      const { slot, take } = await outboxBench(store, 1);
      const own = await slot();
      return () => take(own, linkOf(1));
    }),
  ).toEqual([]);
});

test('a slot for which there is nothing to send, or whose request could not be stored, is free again', async () => {
  const store = await openTestStore();
  const { slot, take, throttle } = await outboxBench(store, 0);
  expect(await take(await slot())).toBeUndefined();
  expect(throttle.used().used).toBe(0);
  await withoutTable(store.database, 'outbox', () => expect(slot().then(take)).rejects.toThrow());
  expect(throttle.used().used).toBe(0);
});
