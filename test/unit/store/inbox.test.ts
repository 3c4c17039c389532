import { describe, expect, it } from 'vitest';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import type { Store } from '../../../src/store/database.ts';
import {
  COSTLY,
  costlyParts,
  countAttempt,
  countQuarantined,
  dismissQuarantined,
  pendingDeliveries,
  quarantineParts,
  retryQuarantined,
  settleDeliveries,
} from '../../../src/store/inbox.ts';
import { inboxOf, openTestStore } from '../../support/harness/intake.ts';

describe('the inbox', () => {
  const append = (store: Awaited<ReturnType<typeof openTestStore>>, bodies: readonly string[]) =>
    appendDeliveries(
      store.query,
      bodies.map((body, index) => ({
        connection: 'c',
        key: `k${index}`,
        source: 'webhook',
        event: 'e',
        body: Buffer.from(body),
      })),
      7,
    );

  it('returns pending deliveries, the oldest first, within count and size, and at least one', async () => {
    const store = await openTestStore();
    await append(store, ['a'.repeat(100), 'b'.repeat(10), 'c'.repeat(10), 'd']);
    const idsOf = async (most: number, bytes: number) =>
      (await pendingDeliveries(store.query, most, bytes)).map(({ id }) => id);
    expect(await idsOf(10, 1_000)).toEqual([1, 2, 3, 4]);
    expect(await idsOf(2, 1_000)).toEqual([1, 2]);
    expect(await idsOf(10, 120)).toEqual([1, 2, 3]);
    expect(await idsOf(10, 50)).toEqual([1]);
    expect(await idsOf(10, 0)).toEqual([1]);
  });

  it('does not return a small delivery before a large older one', async () => {
    const store = await openTestStore();
    await append(store, ['a', 'b'.repeat(100), 'c']);
    expect((await pendingDeliveries(store.query, 10, 50)).map(({ id }) => id)).toEqual([1]);
  });

  it('returns a delivery as it was received, and a purged body as empty', async () => {
    const store = await openTestStore();
    await append(store, ['a']);
    const [delivery] = await pendingDeliveries(store.query, 1, 1);
    expect(delivery).toEqual({
      id: 1,
      isReplayed: false,
      isImport: false,
      key: 'k0',
      connection: 'c',
      source: 'webhook',
      event: 'e',
      body: Buffer.from('a'),
      stored: { body: Buffer.from('a'), unpacked_length: null },
      bytes: 1,
      receivedAt: 7,
      attempts: 0,
    });
    await store.query.updateTable('inbox').set({ body: null }).execute();
    expect((await pendingDeliveries(store.query, 1, 1))[0]?.body.byteLength).toBe(0);
  });

  it('compresses large bodies, returns them unchanged, and counts their unpacked size', async () => {
    const store = await openTestStore();
    const large = JSON.stringify({ text: 'much the same '.repeat(1_000) });
    await append(store, [large, large, 'small']);
    const stored = await store.query.selectFrom('inbox').select(['body', 'unpacked_length']).orderBy('id').execute();
    expect(stored.map(({ unpacked_length }) => unpacked_length)).toEqual([large.length, large.length, null]);
    expect(stored[0]?.body?.length).toBeLessThan(large.length / 10);
    const [first, second] = await pendingDeliveries(store.query, 10, 2 * large.length);
    expect([first, second].map((delivery) => delivery?.body.toString())).toEqual([large, large]);
    expect(await pendingDeliveries(store.query, 10, 2 * large.length)).toHaveLength(2);
    expect(await pendingDeliveries(store.query, 10, 2 * large.length - 1)).toHaveLength(1);
  });

  it('fails only the delivery whose body is damaged', async () => {
    const store = await openTestStore();
    await append(store, ['x'.repeat(10_000), 'sound']);
    await store.query
      .updateTable('inbox')
      .set({ body: Buffer.from('no frame') })
      .where('id', '=', 1)
      .execute();
    const [damaged, sound] = await pendingDeliveries(store.query, 10, 100_000);
    expect(() => damaged?.body).toThrow();
    expect(sound?.body.toString()).toBe('sound');
  });

  it('returns large bodies that were stored uncompressed', async () => {
    const store = await openTestStore();
    const body = Buffer.from('as it came '.repeat(1_000));
    await append(store, ['']);
    await store.query.updateTable('inbox').set({ body }).execute();
    expect((await pendingDeliveries(store.query, 1, 1))[0]?.body).toEqual(body);
  });

  it('stores the outcome of each delivery', async () => {
    const store = await openTestStore();
    await append(store, ['a', 'b', 'c', 'd', 'e']);
    await settleDeliveries(
      store.query,
      [
        { id: 1, state: 'applied' },
        { id: 2, state: 'ignored', reason: 'x' },
        { id: 3, state: 'ignored', reason: 'y' },
        { id: 4, state: 'applied' },
      ],
      9,
    );
    expect((await inboxOf(store)).map(({ state, reason, settled_at }) => [state, reason, settled_at])).toEqual([
      ['applied', null, 9],
      ['ignored', 'x', 9],
      ['ignored', 'y', 9],
      ['applied', null, 9],
      ['pending', null, null],
    ]);
    await settleDeliveries(store.query, [], 10);
  });

  it('counts attempts', async () => {
    const store = await openTestStore();
    await append(store, ['a', 'b']);
    await countAttempt(store.query, [1]);
    await countAttempt(store.query, [1, 2]);
    expect((await pendingDeliveries(store.query, 9, 9)).map(({ attempts }) => attempts)).toEqual([2, 1]);
  });
});

/** An applied delivery, two quarantined ones, and one quarantined for its cost. */
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

describe('a retry of quarantined deliveries', () => {
  it('makes the given ids pending, except applied deliveries', async () => {
    const store = await openTestStore();
    const ids = await fill(store);
    expect(await retryQuarantined(store, ids.slice(0, 2))).toBe(1);
    expect(await pending(store)).toEqual(['broken']);
  });

  it.each([
    ['costly', ['costly']],
    ['all', ['broken', 'costly', 'other']],
  ] as const)('makes %s of them pending', async (which, expected) => {
    const store = await openTestStore();
    await fill(store);
    expect(await retryQuarantined(store, which)).toBe(expected.length);
    expect(await pending(store)).toEqual(expected);
  });
});

it('dismisses the given quarantined deliveries, or all', async () => {
  const store = await openTestStore();
  const ids = await fill(store);
  expect(await dismissQuarantined(store, ids.slice(0, 2), 5_000)).toBe(1);
  const dismissed = await store.query.selectFrom('inbox').selectAll().where('state', '=', 'ignored').execute();
  expect(dismissed).toMatchObject([{ delivery_key: 'broken', reason: 'dismissed', settled_at: 5_000 }]);
  expect(await dismissQuarantined(store, 'all', 6_000)).toBe(2);
  expect(await countQuarantined(store.query)).toBe(0);
  expect(await pending(store)).toEqual([]);
});

it('counts all quarantined deliveries, or those among any number of ids', async () => {
  const store = await openTestStore();
  const ids = await fill(store);
  expect(await countQuarantined(store.query)).toBe(3);
  const far = Array.from({ length: 1_000 }, (_, at) => 100 + at);
  expect(await countQuarantined(store.query, [...ids.slice(0, 2), ...far, ...ids.slice(2)])).toBe(3);
  expect(await countQuarantined(store.query, [])).toBe(0);
});

const PART = { content: 'abc', body: Buffer.from('[1]'), reason: `${COSTLY}much` };

it('quarantines an element of a page once, with the last reason', async () => {
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
