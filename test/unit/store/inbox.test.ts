import { describe, expect, it } from 'vitest';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import type { Store } from '../../../src/store/database.ts';
import { COSTLY, costlyParts, countQuarantined, quarantineParts, retryQuarantined } from '../../../src/store/inbox.ts';
import { openTestStore } from '../../support/intake.ts';

/** Deliveries that are applied, in quarantine, and in quarantine for their cost. */
async function fill({ query }: Store): Promise<readonly number[]> {
  const body = Buffer.from('{}');
  const deliveries = ['applied', 'broken', 'costly', 'other'].map(
    (key) => ({ connection: 'github', key, source: 'webhook', event: 'push', body }) as const,
  );
  const ids = (await appendDeliveries(query, deliveries, 1)).map(({ id }) => id as number);
  const settle = (id: number | undefined, state: 'applied' | 'quarantined', reason: string | null) =>
    query
      .updateTable('inbox')
      .set({ state, reason, settled_at: 2 })
      .where('id', '=', id as number)
      .execute();
  await settle(ids[0], 'applied', null);
  await settle(ids[1], 'quarantined', 'internal: no');
  await settle(ids[2], 'quarantined', `${COSTLY}too long`);
  await settle(ids[3], 'quarantined', 'internal: no');
  return ids;
}

const pending = async ({ query }: Store) =>
  (await query.selectFrom('inbox').select('delivery_key').where('state', '=', 'pending').orderBy('id').execute()).map(
    (row) => row.delivery_key,
  );

describe('deliveries in quarantine that are tried again', () => {
  it('are those that are named, and no delivery that was applied', async () => {
    const store = await openTestStore();
    const ids = await fill(store);
    expect(await retryQuarantined(store, ids.slice(0, 2))).toBe(1);
    expect(await pending(store)).toEqual(['broken']);
  });

  it.each([
    ['costly', ['costly']],
    ['all', ['broken', 'costly', 'other']],
  ] as const)('are %s of them', async (which, expected) => {
    const store = await openTestStore();
    await fill(store);
    expect(await retryQuarantined(store, which)).toBe(expected.length);
    expect(await pending(store)).toEqual(expected);
  });
});

it('deliveries in quarantine are counted: all, or of any number that are named', async () => {
  const store = await openTestStore();
  const ids = await fill(store);
  expect(await countQuarantined(store.query)).toBe(3);
  const far = Array.from({ length: 1_000 }, (_, at) => 100 + at);
  expect(await countQuarantined(store.query, [...ids.slice(0, 2), ...far, ...ids.slice(2)])).toBe(3);
  expect(await countQuarantined(store.query, [])).toBe(0);
});

const PART = { content: 'abc', body: Buffer.from('[1]'), reason: `${COSTLY}much` };

it('an element of a page that took too much is in quarantine once, and for the last reason', async () => {
  const { query } = await openTestStore();
  const page = { connection: 'github', source: 'poll', event: 'list', receivedAt: 1 } as const;
  await quarantineParts(query, [], 2);
  await quarantineParts(query, [{ page, parts: [PART] }], 2);
  await quarantineParts(
    query,
    [
      {
        page,
        parts: [
          { ...PART, reason: `${COSTLY}more` },
          { ...PART, content: 'd' },
        ],
      },
    ],
    3,
  );
  const rows = await query
    .selectFrom('inbox')
    .select(['delivery_key', 'state', 'reason', 'settled_at'])
    .orderBy('id')
    .execute();
  expect(rows).toEqual([
    { delivery_key: 'part:abc', state: 'quarantined', reason: `${COSTLY}more`, settled_at: 3 },
    { delivery_key: 'part:d', state: 'quarantined', reason: `${COSTLY}much`, settled_at: 3 },
  ]);
  expect(await costlyParts(query, 'github', ['abc', 'x'])).toEqual(new Set(['abc']));
  expect(await costlyParts(query, 'gitlab', ['abc'])).toEqual(new Set());
  await query.updateTable('inbox').set({ state: 'pending' }).where('delivery_key', '=', 'part:abc').execute();
  expect(await costlyParts(query, 'github', ['abc', 'd'])).toEqual(new Set(['d']));
});
