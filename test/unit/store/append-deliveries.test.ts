import { describe, expect, it } from 'vitest';
import { appendDeliveries, type NewDelivery } from '../../../src/store/append-deliveries.ts';
import { COSTLY } from '../../../src/store/inbox.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/intake.ts';

const NOW = 1_000_000;
const delivery = (text: string): NewDelivery => ({
  ...{ connection: 'github', key: 'one', source: 'webhook', event: 'push', body: Buffer.from(text) },
});

const quarantine = (query: Scope, reason: string) =>
  query.updateTable('inbox').set({ state: 'quarantined', reason, settled_at: NOW }).execute();
const repeat = async (query: Scope, text: string) =>
  (await appendDeliveries(query, [delivery(text)], NOW + 5))[0]?.appended;

describe('a repeat of a delivery in quarantine', () => {
  it.each([
    ['revives it', 'internal: no', 'as it was', 'revived'],
    ['leaves it there where it cost too much', `${COSTLY}too long`, 'as it was', 'repeated'],
    ['revives what cost too much with other bytes', `${COSTLY}too long`, 'shorter', 'revived'],
  ])('%s', async (_name, reason, text, expected) => {
    const { query } = await openTestStore();
    await appendDeliveries(query, [delivery('as it was')], NOW);
    await quarantine(query, reason);
    expect(await repeat(query, text)).toBe(expected);
  });

  it('is none where it is not in quarantine', async () => {
    const { query } = await openTestStore();
    await appendDeliveries(query, [delivery('as it was')], NOW);
    expect(await repeat(query, 'otherwise')).toBe('repeated');
  });

  it.each([
    ['of another name', { key: 'two' }],
    ['of another connection', { connection: 'gitlab' }],
  ])('leaves one %s there', async (_name, other) => {
    const { query } = await openTestStore();
    await appendDeliveries(query, [delivery('as it was'), { ...delivery('as it was'), ...other }], NOW);
    await quarantine(query, 'internal: no');
    expect(await repeat(query, 'as it was')).toBe('revived');
    const rows = await query.selectFrom('inbox').select('state').orderBy('id').execute();
    expect(rows.map(({ state }) => state)).toEqual(['pending', 'quarantined']);
  });
});
