import { describe, expect, it } from 'vitest';
import { appendDeliveries, type NewDelivery } from '../../../src/store/append-deliveries.ts';
import { COSTLY } from '../../../src/store/inbox.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { inboxOf, openTestStore } from '../../support/harness/intake.ts';

const delivery = (key: string, text = 'body', connection = 'notes'): NewDelivery => ({
  ...{ connection, key, source: 'webhook', event: 'note', body: Buffer.from(text) },
});

async function outcomesOf(query: Scope, deliveries: readonly NewDelivery[], now: number): Promise<string[]> {
  return (await appendDeliveries(query, deliveries, now)).map(({ appended }) => appended);
}

describe('appended deliveries', () => {
  it('keep their order, and repeats are recognised within one call and later', async () => {
    const store = await openTestStore();
    const first = await outcomesOf(store.query, [delivery('a'), delivery('b'), delivery('a')], 1);
    expect(first).toEqual(['new', 'new', 'repeated']);
    expect(await outcomesOf(store.query, [delivery('b'), delivery('c')], 2)).toEqual(['repeated', 'new']);
    expect(await outcomesOf(store.query, [], 3)).toEqual([]);
    expect((await inboxOf(store)).map((row) => [row.delivery_key, row.received_at, row.state])).toEqual([
      ['a', 1, 'pending'],
      ['b', 1, 'pending'],
      ['c', 2, 'pending'],
    ]);
  });

  it.each(['applied', 'superseded', 'ignored'] as const)(
    'in the state %s are not changed by a repeat',
    async (state) => {
      const store = await openTestStore();
      await appendDeliveries(store.query, [delivery('a')], 1);
      await store.query.updateTable('inbox').set({ state, settled_at: 2, body: null }).execute();
      const before = await inboxOf(store);
      expect(await outcomesOf(store.query, [delivery('a', 'again')], 3)).toEqual(['repeated']);
      expect(await inboxOf(store)).toEqual(before);
    },
  );
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
    expect(await inboxOf(store)).toMatchObject([
      { id: 1, state: 'pending', body: 'whole', attempts: 0, reason: null, settled_at: null, received_at: 9 },
    ]);
  });

  it.each([
    ['stays there where it cost too much', 'as it was', 'repeated'],
    ['is pending again where that cost too much and it has other bytes', 'shorter', 'revived'],
  ])('%s', async (_name, text, expected) => {
    const { query } = await openTestStore();
    await appendDeliveries(query, [delivery('a', 'as it was')], 1);
    await quarantine(query, `${COSTLY}too long`);
    expect(await outcomesOf(query, [delivery('a', text)], 9)).toEqual([expected]);
  });

  it.each([
    ['another key', delivery('b')],
    ['the same key of another connection', delivery('a', 'body', 'gitlab')],
  ])('%s is another delivery, and stays there [A3]', async (_name, other) => {
    const store = await openTestStore();
    expect(await outcomesOf(store.query, [delivery('a'), other], 1)).toEqual(['new', 'new']);
    await quarantine(store.query, 'internal: no');
    expect(await outcomesOf(store.query, [delivery('a')], 9)).toEqual(['revived']);
    expect((await inboxOf(store)).map(({ state }) => state)).toEqual(['pending', 'quarantined']);
  });
});
