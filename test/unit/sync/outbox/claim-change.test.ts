import { expect, test } from 'vitest';
import type { Store } from '../../../../src/store/database.ts';
import type { ChangeScheduler } from '../../../../src/sync/outbox/change-scheduler.ts';
import { createChangeScheduler } from '../../../../src/sync/outbox/change-scheduler.ts';
import { acquireSlot, claimChange } from '../../../../src/sync/outbox/claim.ts';
import { remainsOf } from '../../../support/all-or-nothing.ts';
import { openTestStore } from '../../../support/intake.ts';
import { linkOf, outboxBench } from '../../../support/outbox-bench.ts';
import { withoutTable } from '../../../support/without-table.ts';

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

test('a backfill that has its slot waits no longer for what is due later', async () => {
  const { clock, throttle, store } = await outboxBench(await openTestStore(), 0);
  const later = { lane: 'link', due: clock.now() + 60_000, at: clock.now() + 60_000, entity: linkOf(1) } as const;
  const scheduler = { nextLiveChange: async () => later } as unknown as ChangeScheduler;
  // What the throttle itself waits for stays the same from its first slot on.
  (await throttle.acquire({ lane: 'link', due: 1 })).release();
  const before = clock.pending;
  const never = new Promise<void>(() => undefined);
  const { signal } = new AbortController();
  const due = { ...later, lane: 'backfill' } as const;
  const slot = await acquireSlot({ store, throttle, clock, scheduler }, due, never, signal);
  slot?.release();
  expect(clock.pending).toBe(before);
});

test('dates a request after what others stored while its transaction waited', async () => {
  const { clock, throttle, store, slot, breaker } = await outboxBench(await openTestStore(), 1);
  const scheduler = createChangeScheduler({ store, throttle, clock, breaker, recordsPullRequests: true });
  let storedAt = 0;
  const busy: Store = {
    ...store,
    async commit(work) {
      await clock.advance(5);
      storedAt = clock.now();
      return store.commit(work);
    },
  };
  const taken = await claimChange({ store: busy, throttle, clock, scheduler }, await slot(), {
    selected: linkOf(1),
    askedAt: clock.now(),
  });
  expect(taken?.sentAt).toBe(storedAt);
});
