import { compressSync } from 'lz4-napi';
import { describe, expect, it, test } from 'vitest';
import { LARGE } from '../../../src/platform/lib/concurrency.ts';
import { appendDeliveries, type NewDelivery } from '../../../src/store/deliveries/append-deliveries.ts';
import {
  COSTLY,
  costlyParts,
  countQuarantined,
  dismissQuarantined,
  packBody,
  packBodyAsync,
  pendingDeliveries,
  quarantineParts,
  retryQuarantined,
  settleDeliveries,
  unpackBody,
} from '../../../src/store/deliveries/inbox.ts';
import type { Scope, Store } from '../../../src/store/workspace-scope.ts';
import { inboxOf, openTestStore } from '../../support/harness/intake.ts';

const delivery = (key: string, text = 'body', connection = 'notes'): NewDelivery => ({
  ...{ connection, key, source: 'webhook', event: 'note', body: Buffer.from(text) },
});

/** Appends deliveries with these bodies; their keys are `k0`, `k1`, and so on. */
async function withBodies(...bodies: readonly string[]): Promise<Store> {
  const store = await openTestStore();
  await appendDeliveries(
    store.query,
    bodies.map((body, index) => delivery(`k${index}`, body)),
    7,
  );
  return store;
}

async function outcomesOf(query: Scope, deliveries: readonly NewDelivery[], now: number): Promise<string[]> {
  return (await appendDeliveries(query, deliveries, now)).map(({ appended }) => appended);
}

const pendingKeys = async (store: Store) =>
  (await inboxOf(store)).filter(({ state }) => state === 'pending').map((row) => row.delivery_key);

describe('appended deliveries', () => {
  it('keep their order, and repeats are recognised within one call and later', async () => {
    const store = await openTestStore();
    const first = [delivery('a'), delivery('b'), delivery('a')];
    expect(await outcomesOf(store.query, first, 1)).toEqual(['new', 'new', 'repeated']);
    expect(await outcomesOf(store.query, [delivery('b'), delivery('c')], 2)).toEqual(['repeated', 'new']);
    expect(await outcomesOf(store.query, [], 3)).toEqual([]);
    const rows = (await inboxOf(store)).map((row) => `${row.delivery_key} ${row.received_at} ${row.state}`);
    expect(rows).toEqual(['a 1 pending', 'b 1 pending', 'c 2 pending']);
  });

  it('are not changed by a repeat when they were applied', async () => {
    const store = await openTestStore();
    await appendDeliveries(store.query, [delivery('a')], 1);
    await store.query.updateTable('inbox').set({ state: 'applied', settled_at: 2, body: null }).execute();
    const before = await inboxOf(store);
    expect(await outcomesOf(store.query, [delivery('a', 'again')], 3)).toEqual(['repeated']);
    expect(await inboxOf(store)).toEqual(before);
  });

  it('are stored compressed when large, and read back unchanged, with their unpacked size', async () => {
    const large = JSON.stringify({ text: 'much the same '.repeat(1_000) });
    const { query } = await withBodies(large, large, 'small');
    const rows = await query.selectFrom('inbox').select(['body', 'unpacked_length']).orderBy('id').execute();
    expect(rows.map(({ unpacked_length }) => unpacked_length)).toEqual([large.length, large.length, null]);
    const read = async (bytes: number) =>
      (await pendingDeliveries(query, 10, bytes)).map(({ body }) => Buffer.from(body).toString());
    expect(await read(2 * large.length)).toEqual([large, large]);
    expect(await read(2 * large.length - 1)).toEqual([large]);
  });
});

describe('a repeat of a delivery in quarantine', () => {
  const quarantine = (query: Scope, reason: string) =>
    query.updateTable('inbox').set({ state: 'quarantined', reason, attempts: 5, settled_at: 7 }).execute();

  it('makes the delivery pending, with the bytes of the repeat', async () => {
    const store = await openTestStore();
    await appendDeliveries(store.query, [delivery('a', 'cut of')], 1);
    await quarantine(store.query, 'unreadable');
    const repeats = [delivery('a', 'whole'), delivery('a', 'third')];
    expect(await outcomesOf(store.query, repeats, 9)).toEqual(['revived', 'repeated']);
    const revived = { id: 1, state: 'pending', body: 'whole', attempts: 0, reason: null, settled_at: null };
    expect(await inboxOf(store)).toMatchObject([{ ...revived, received_at: 9 }]);
  });

  it.each([
    ['stays there if it cost too much and has the same bytes', 'as it was', 'repeated'],
    ['is pending again if it cost too much and has other bytes', 'shorter', 'revived'],
  ])('%s', async (_name, text, expected) => {
    const { query } = await openTestStore();
    await appendDeliveries(query, [delivery('a', 'as it was')], 1);
    await quarantine(query, `${COSTLY}too long`);
    expect(await outcomesOf(query, [delivery('a', text)], 9)).toEqual([expected]);
  });

  it.each([
    ['another key', delivery('b')],
    ['the same key of another connection', delivery('a', 'body', 'gitlab')],
  ])('does not revive a delivery with %s [A3]', async (_name, other) => {
    const store = await openTestStore();
    expect(await outcomesOf(store.query, [delivery('a'), other], 1)).toEqual(['new', 'new']);
    await quarantine(store.query, 'internal: no');
    expect(await outcomesOf(store.query, [delivery('a')], 9)).toEqual(['revived']);
    expect((await inboxOf(store)).map(({ state }) => state)).toEqual(['pending', 'quarantined']);
  });
});

describe('pending deliveries', () => {
  it.each<[most: number, bytes: number, ids: readonly number[]]>([
    [10, 1_000, [1, 2, 3, 4]],
    [10, 120, [1, 2, 3]],
    [10, 109, [1]],
  ])('are the oldest, at most %j of %j bytes, and at least one: %j', async (most, bytes, ids) => {
    const { query } = await withBodies('a'.repeat(100), 'b'.repeat(10), 'c'.repeat(10), 'd');
    expect((await pendingDeliveries(query, most, bytes)).map(({ id }) => id)).toEqual(ids);
  });

  it('fail one by one: a damaged body does not affect the others', async () => {
    const { query } = await withBodies('x'.repeat(10_000), 'sound');
    const body = Buffer.from('no frame');
    await query.updateTable('inbox').set({ body }).where('id', '=', 1).execute();
    const [damaged, sound] = await pendingDeliveries(query, 10, 100_000);
    expect(() => damaged?.body).toThrow();
    expect(sound?.body.toString()).toBe('sound');
  });
});

test.each<[bytes: number, isCompressed: boolean]>([
  [4_095, false],
  [4_096, true],
  [LARGE + 1, true],
])('compresses a body of %j bytes: %j, and restores it', async (bytes, isCompressed) => {
  const body = Buffer.from('much the same '.repeat(bytes / 14 + 1).slice(0, bytes));
  for (const stored of [packBody(body), await packBodyAsync(body)]) {
    expect(stored.unpacked_length).toBe(isCompressed ? bytes : null);
    expect(stored.body.length < bytes / 2).toBe(isCompressed);
    expect(unpackBody(stored).equals(body)).toBe(true);
  }
});

test.each<[what: string, body: Buffer, length: number]>([
  ['is shorter than its length', Buffer.from([1, 2, 3]), 4],
  ['claims another length', compressSync(Buffer.from('abc')), 4],
])('rejects a compressed body that %s', (_what, body, unpacked_length) => {
  expect(() => unpackBody({ body, unpacked_length })).toThrow('the stored body is damaged');
});

/** An applied delivery, two quarantined ones, and one quarantined for its cost. */
async function withQuarantine() {
  const store = await openTestStore();
  const deliveries = ['applied', 'broken', 'costly', 'other'].map((key) => delivery(key));
  const ids = (await appendDeliveries(store.query, deliveries, 1)).map(({ id }) => id as number);
  const reasons = [undefined, 'internal: no', `${COSTLY}too long`, 'internal: no'];
  const outcomes = ids.map((id, index) => {
    const reason = reasons[index];
    return reason ? ({ id, state: 'quarantined', reason } as const) : ({ id, state: 'applied' } as const);
  });
  await settleDeliveries(store.query, outcomes, 2);
  return { store, ids };
}

describe('quarantined deliveries', () => {
  it.each<[which: 'costly' | 'all' | readonly number[], expected: readonly string[]]>([
    ['costly', ['costly']],
    ['all', ['broken', 'costly', 'other']],
    [[1, 2], ['broken']],
  ])('become pending by a retry of %j: %j', async (which, expected) => {
    const { store } = await withQuarantine();
    expect(await retryQuarantined(store, which)).toBe(expected.length);
    expect(await pendingKeys(store)).toEqual(expected);
  });

  it('are dismissed by id, or all, and counted', async () => {
    const { store, ids } = await withQuarantine();
    const far = Array.from({ length: 1_000 }, (_, at) => 100 + at);
    expect(await countQuarantined(store.query)).toBe(3);
    expect(await countQuarantined(store.query, [...ids.slice(0, 2), ...far, ...ids.slice(2)])).toBe(3);
    expect(await countQuarantined(store.query, [])).toBe(0);
    expect(await dismissQuarantined(store, ids.slice(0, 2), 5_000)).toBe(1);
    const dismissed = (await inboxOf(store)).filter(({ state }) => state === 'ignored');
    expect(dismissed).toMatchObject([{ delivery_key: 'broken', reason: 'dismissed', settled_at: 5_000 }]);
    expect(await dismissQuarantined(store, 'all', 6_000)).toBe(2);
    expect([await countQuarantined(store.query), await pendingKeys(store)]).toEqual([0, []]);
  });

  it('may be elements of a page, each once, with the last reason', async () => {
    const store = await openTestStore();
    const { query } = store;
    const page = { connection: 'github', source: 'poll', event: 'list', receivedAt: 1 } as const;
    const part = (content: string, reason: string) => ({ content, body: Buffer.from('[1]'), reason: COSTLY + reason });
    await quarantineParts(query, [], 2);
    await quarantineParts(query, [{ page, parts: [part('abc', 'much')] }], 2);
    await quarantineParts(query, [{ page, parts: [part('abc', 'more'), part('d', 'much')] }], 3);
    const rows = (await inboxOf(store)).map(
      (row) => `${row.delivery_key} ${row.state} ${row.reason} ${row.settled_at}`,
    );
    expect(rows).toEqual([`part:abc quarantined ${COSTLY}more 3`, `part:d quarantined ${COSTLY}much 3`]);
    expect(await costlyParts(query, 'github', ['abc', 'x'])).toEqual(new Set(['abc']));
    expect(await costlyParts(query, 'gitlab', ['abc'])).toEqual(new Set());
    await query.updateTable('inbox').set({ state: 'pending' }).where('delivery_key', '=', 'part:abc').execute();
    expect(await costlyParts(query, 'github', ['abc', 'd'])).toEqual(new Set(['d']));
  });
});
