import { expect, test } from 'vitest';
import { retentionJob } from '../../src/intake/retention.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import type { DeliveryState } from '../../src/model/delivery.ts';
import { appendDeliveries } from '../../src/store/append-deliveries.ts';
import type { Store } from '../../src/store/database.ts';
import { deleteDeliveries, purgeBodies } from '../../src/store/retention.ts';
import { inboxOf, openTestStore } from '../support/intake.ts';
import { createTravellingClock } from '../support/travelling-clock.ts';

const DAY = 86_400_000;

async function seed(store: Store, key: string, state: DeliveryState, receivedAt: number): Promise<void> {
  const delivery = { connection: 'notes', key, source: 'webhook' as const, event: 'note', body: Buffer.from('body') };
  await appendDeliveries(store.query, [delivery], receivedAt);
  const settled_at = state === 'pending' ? null : receivedAt + 1;
  await store.query.updateTable('inbox').set({ state, settled_at }).where('delivery_key', '=', key).execute();
}

test('bodies go after their time, deliveries after theirs; what is pending stays, what is in quarantine keeps its body', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const now = clock.now();
  const states = ['pending', 'applied', 'superseded', 'ignored', 'quarantined'] as const;
  for (const state of states)
    for (const age of [1, 20, 100]) await seed(store, `${state} ${age}`, state, now - age * DAY);

  const retention = { bodies: 14 * DAY, deliveries: 90 * DAY };
  await retentionJob({ store, clock, logger: silentLogger, retention }).run(new AbortController().signal);

  const left = (await inboxOf(store)).map((row) => `${row.delivery_key}: ${row.body}`);
  expect(left.sort()).toEqual(
    [
      ...states.map((state) => `${state} 1: body`),
      'applied 20: null',
      'superseded 20: null',
      'ignored 20: null',
      'quarantined 20: body',
      'pending 20: body',
      'pending 100: body',
    ].sort(),
  );
});

test('works in small batches, through the index', async () => {
  const statements: string[] = [];
  const store = await openTestStore({ onStatement: (statement) => statements.push(statement) });
  for (let index = 0; index < 12; index++) await seed(store, `key-${index}`, 'applied', index);
  statements.length = 0;
  expect(await purgeBodies(store.query, 100, 5)).toBe(5);
  expect(await purgeBodies(store.query, 100, 50)).toBe(7);
  expect(await purgeBodies(store.query, 100, 50)).toBe(0);
  expect(await deleteDeliveries(store.query, 100, 5)).toBe(5);
  expect(await inboxOf(store)).toHaveLength(7);
  for (const [index, name] of [
    [0, 'inbox_bodies'],
    [5, 'inbox_received'],
  ] as const) {
    const { sql } = await import('kysely');
    const plan = await sql<{ detail: string }>`explain query plan ${sql.raw(statements[index] as string)}`.execute(
      store.database,
    );
    expect(plan.rows.map((row) => row.detail).join('; ')).toContain(name);
  }
});

test('what frees megabytes goes a few at a time', async () => {
  const store = await openTestStore();
  for (let index = 0; index < 5; index++) await seed(store, `key-${index}`, 'applied', index);
  await store.query
    .updateTable('inbox')
    .set({ body: Buffer.alloc(4_000_000) })
    .execute();
  expect(await purgeBodies(store.query, 100, 1)).toBe(1);
  expect(await purgeBodies(store.query, 100, 50)).toBe(2);
  expect(await deleteDeliveries(store.query, 100, 50)).toBe(5);
  expect(await inboxOf(store)).toEqual([]);
});
