import { describe, expect, it, test } from 'vitest';
import type { ItemReference } from '../../../src/model/item.ts';
import { addDifference } from '../../../src/store/changes/outbox-rows.ts';
import {
  isBackfillAhead,
  nextBackfillUnit,
  pauseBackfill,
  readBackfills,
  requestBackfill,
  resumeBackfill,
  splitBackfill,
} from '../../../src/store/connections/backfills.ts';
import { restartUnits } from '../../../src/store/connections/scope-names.ts';
import { loadPollState, savePollState } from '../../../src/store/connections/unit-states.ts';
import { appendDeliveries } from '../../../src/store/deliveries/append-deliveries.ts';
import {
  dueFetches,
  nextFetchTime,
  postponeFetch,
  requestFetch,
  settleFetch,
  type WantedFetch,
} from '../../../src/store/deliveries/wanted-fetches.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const NOW = 1_000_000;

const unitsIn = async (query: Scope, table: 'polls' | 'sweeps') =>
  (await query.selectFrom(table).select(['connection', 'unit']).execute())
    .map(({ connection, unit }) => `${connection} ${unit}`)
    .toSorted();

describe('the state of a poll', () => {
  it('belongs to one unit of one connection, and has a walk until it ends', async () => {
    const { query } = await openTestStore();
    const walk = { page: 'p2', startedAt: '2026-01-01T00:00:00Z', readAt: '2026-01-01T00:00:01Z' };
    const state = { watermark: 'w1', walk, etag: '"e"', digest: 'd' };
    await savePollState(query, 'github', 'unit', state);
    expect(await loadPollState(query, 'github', 'unit')).toEqual(state);
    await savePollState(query, 'github', 'unit', { watermark: 'w2' });
    expect(await loadPollState(query, 'github', 'unit')).toEqual({ watermark: 'w2' });
    expect([await loadPollState(query, 'github', 'other'), await loadPollState(query, 'gitlab', 'unit')]).toEqual([
      {},
      {},
    ]);
  });
});

describe('a paused backfill', () => {
  async function requested() {
    const { query } = await openTestStore();
    await requestBackfill(query, { connection: 'github', since: null, now: NOW });
    const next = (now = NOW) => nextBackfillUnit(query, 'github', now);
    const status = async () => (await readBackfills(query, 'github'))[0];
    return { query, next, status, due: async () => (await next())! };
  }

  it('stays paused if its units become known meanwhile', async () => {
    const { query, next, status, due } = await requested();
    const unit = await due();
    await pauseBackfill(query, 'github');
    await splitBackfill(query, unit, ['app', 'web']);
    expect([await next(), await status()]).toMatchObject([undefined, { isPaused: true }]);
    await resumeBackfill(query, 'github');
    expect(await next()).toMatchObject({ unit: 'app' });
  });
});

describe('a wanted fetch', () => {
  const reference: ItemReference = { kind: 'work_item', key: 'jira:cloud:issue:1', locator: { id: '1' } };
  const ask = (query: Scope, now = NOW) => requestFetch(query, { connection: 'jira', reference, deliveryId: 7, now });
  const wanted = async (query: Scope) => (await dueFetches(query, 'jira', NOW, 60_000, 10))[0] as WantedFetch;
  const rows = (query: Scope) => query.selectFrom('fetches').select(['asks', 'attempts', 'error', 'since']).execute();

  it('is one row for equal references, with the earliest time', async () => {
    const { query } = await openTestStore();
    const askFor = (locator: Record<string, string>, now: number, isCovered = false) =>
      requestFetch(query, { connection: 'jira', deliveryId: 7, now, isCovered, reference: { ...reference, locator } });
    await askFor({ a: '1', b: '2' }, NOW);
    await askFor({ b: '2', a: '1' }, NOW - 5);
    const both = { asks: 2, attempts: 0, error: null, since: NOW - 5 };
    expect(await rows(query)).toEqual([both]);
    await askFor({ a: '1', b: '2' }, NOW - 9, true);
    expect(await rows(query)).toEqual([both]);
    await askFor({ a: '1', b: '3' }, NOW, true);
    expect(await rows(query)).toHaveLength(2);
  });

  it.each<[failures: number, notBefore: number, isDue: boolean]>([
    [1, NOW, true],
    [1, NOW + 1, false],
    // Only a clock that was set back puts it off for longer than so many failures do.
    [1, NOW + 2_001, true],
    [5, NOW + 32_001, true],
    [40, NOW + 60_000, false],
  ])('after %j failures, postponed to %j, is due: %j', async (failures, notBefore, isDue) => {
    const { query } = await openTestStore();
    await ask(query);
    const fetch = await wanted(query);
    for (let time = 0; time < failures; time++) await postponeFetch(query, fetch, 'no', notBefore);
    expect((await wanted(query)) !== undefined).toBe(isDue);
    expect(await nextFetchTime(query, NOW)).toBe(notBefore > NOW ? notBefore : undefined);
    // No pause is allowed.
    expect(await dueFetches(query, 'jira', NOW, 0, 10)).toHaveLength(1);
  });

  it('is removed when it ends, unless it was requested meanwhile; then its failures are', async () => {
    const { query } = await openTestStore();
    await ask(query);
    await postponeFetch(query, await wanted(query), 'server_failed: no', NOW);
    const begun = await wanted(query);
    await ask(query, NOW + 5);
    await settleFetch(query, begun);
    expect(await rows(query)).toEqual([{ asks: 2, attempts: 0, error: null, since: NOW }]);
    await settleFetch(query, await wanted(query));
    expect(await rows(query)).toEqual([]);
  });
});

const CONNECTIONS = ['github', 'gitlab'] as const;

describe('units that are bound again', () => {
  const REBOUND = { now: 900, reason: 'scope_rebound: the name was bound again' };

  /** Two connections, each with the same three units; the backfill of the unit `done` is complete. */
  async function withUnits(): Promise<Scope> {
    const { query } = await openTestStore();
    for (const connection of CONNECTIONS)
      for (const unit of ['one', 'two', 'done']) {
        await query.insertInto('polls').values({ connection, unit, watermark: 'w' }).execute();
        await query.insertInto('sweeps').values({ connection, unit, completed_at: 5, listed: 1, asked: 1 }).execute();
        const finished_at = unit === 'done' ? 7 : null;
        const backfill = { connection, unit, since: null, page: null, total: null, started_at: 1, finished_at };
        await query
          .insertInto('backfills')
          .values({ ...backfill, error: null })
          .execute();
      }
    return query;
  }

  it('restart their polls and sweeps, and end their unfinished backfills with the reason', async () => {
    const query = await withUnits();
    await restartUnits(query, 'github', [], REBOUND);
    expect(await unitsIn(query, 'polls')).toHaveLength(6);
    await restartUnits(query, 'github', ['one', 'done'], REBOUND);
    const others = ['github two', 'gitlab done', 'gitlab one', 'gitlab two'];
    expect([await unitsIn(query, 'polls'), await unitsIn(query, 'sweeps')]).toEqual([others, others]);
    const ended = await query.selectFrom('backfills').select(['connection', 'unit', 'finished_at', 'error']).execute();
    const rows = ended.filter(({ finished_at }) => finished_at !== null).map((row) => Object.values(row).join());
    expect(rows.toSorted()).toEqual(['github,done,7,', `github,one,900,${REBOUND.reason}`, 'gitlab,done,7,']);
  });
});

test.each<[filled: string, isAhead: boolean, deliveries: number, fetches: number, changes: number]>([
  ['less than the bounds', false, 1, 1, 1],
  ['deliveries at the bound', true, 2, 0, 0],
  ['fetches at the bound', true, 0, 2, 0],
  ['changes at the bound', true, 0, 0, 2],
])('a backfill is ahead by %s: %s', async (_filled, isAhead, deliveries, fetches, changes) => {
  const { query } = await openTestStore();
  const numbers = (count: number) => Array.from({ length: count }, (_, index) => String(index));
  const body = Buffer.from('{}');
  const ofKey = (key: string) => ({ connection: 'main', key, source: 'webhook', event: 'e', body }) as const;
  await appendDeliveries(query, numbers(deliveries).map(ofKey), 1);
  for (const reference of numbers(fetches))
    await query
      .insertInto('fetches')
      .values({ reference, connection: 'main', since: 1, not_before: 1, delivery_id: 1 })
      .execute();
  const change = { kind: 'link', lane: 'backfill', since: 1, due: 1, weight: 1, waiting: [] } as const;
  for (const entity of numbers(changes)) await addDifference(query, { entity, ...change });
  expect(await isBackfillAhead(query, 'main', { deliveries: 2, fetches: 2, changes: 2 })).toBe(isAhead);
});
