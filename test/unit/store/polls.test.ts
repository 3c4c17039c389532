import { describe, expect, it, test } from 'vitest';
import type { ItemReference } from '../../../src/model/item.ts';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import {
  advanceBackfill,
  isBackfillAhead,
  nextBackfillUnit,
  pauseBackfill,
  postponeBackfill,
  readBackfills,
  requestBackfill,
  resumeBackfill,
  splitBackfill,
} from '../../../src/store/backfills.ts';
import {
  forgetOtherSweeps,
  recordSweep,
  recordSweepFailure,
  storedItemsAfter,
} from '../../../src/store/connection-sweeps.ts';
import { addDifference } from '../../../src/store/outbox-rows.ts';
import {
  ALL_UNITS,
  clearFailures,
  loadPollState,
  outdatedFailures,
  recordPollFailure,
  savePollState,
} from '../../../src/store/poll-states.ts';
import { loadNames, restartUnits, saveName, storedUnits } from '../../../src/store/scope-names.ts';
import {
  dropOrphanFetches,
  dueFetches,
  nextFetchTime,
  postponeFetch,
  requestFetch,
  settleFetch,
  type WantedFetch,
} from '../../../src/store/wanted-fetches.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { itemRow } from '../../support/rows/items.ts';

const NOW = 1_000_000;

const unitsIn = async (query: Scope, table: 'polls' | 'sweeps') =>
  (await query.selectFrom(table).select(['connection', 'unit']).execute())
    .map(({ connection, unit }) => `${connection} ${unit}`)
    .toSorted();

describe('the state of a poll', () => {
  it('keeps its position after a failure, which the next page clears', async () => {
    const { query } = await openTestStore();
    await savePollState(query, 'github', 'unit', { watermark: 'w1', etag: '"e"' }, 5);
    await recordPollFailure(query, 'github', 'unit', 'server_failed: down', 7);
    expect(await loadPollState(query, 'github', 'unit')).toMatchObject({ watermark: 'w1', etag: '"e"' });
    const row = () => query.selectFrom('polls').select(['error', 'failed_at', 'completed_at']).executeTakeFirst();
    expect(await row()).toEqual({ error: 'server_failed: down', failed_at: 7, completed_at: 5 });
    await savePollState(query, 'github', 'unit', { watermark: 'w2' });
    expect(await row()).toEqual({ error: null, failed_at: null, completed_at: 5 });
  });

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

  it('loses the failures of removed units and of the whole connection only', async () => {
    const { query } = await openTestStore();
    for (const connection of ['github', 'gitlab'])
      for (const unit of [ALL_UNITS, 'unit', 'gone']) await recordPollFailure(query, connection, unit, 'down', 7);
    const outdated = await outdatedFailures(query, 'github', ['unit']);
    expect(outdated.toSorted()).toEqual([ALL_UNITS, 'gone']);
    await clearFailures(query, 'github', outdated);
    const rows = await query.selectFrom('polls').select(['connection', 'unit']).where('error', '=', 'down').execute();
    const left = ['github unit', 'gitlab *', 'gitlab gone', 'gitlab unit'];
    expect(rows.map(({ connection, unit }) => `${connection} ${unit}`).toSorted()).toEqual(left);
  });
});

describe('the sweeps of a connection', () => {
  const RESULT = { at: 5, listed: 3, asked: 1 };

  it('keep the last complete result after a failure, which the next complete sweep clears', async () => {
    const { query } = await openTestStore();
    const unit = { connection: 'github', unit: 'one' };
    const row = () =>
      query.selectFrom('sweeps').select(['completed_at', 'listed', 'asked', 'error', 'failed_at']).executeTakeFirst();
    await recordSweep(query, unit, RESULT);
    await recordSweepFailure(query, unit, 'server_failed: down', 7);
    expect(await row()).toEqual({ completed_at: 5, listed: 3, asked: 1, error: 'server_failed: down', failed_at: 7 });
    await recordSweep(query, unit, { at: 9, listed: 4, asked: 0 });
    expect(await row()).toEqual({ completed_at: 9, listed: 4, asked: 0, error: null, failed_at: null });
  });

  it('are forgotten for units that the connection no longer has', async () => {
    const { query } = await openTestStore();
    for (const connection of ['github', 'gitlab'])
      for (const unit of ['one', 'two']) await recordSweep(query, { connection, unit }, RESULT);
    await forgetOtherSweeps(query, 'github', ['two', 'three']);
    expect(await unitsIn(query, 'sweeps')).toEqual(['github two', 'gitlab one', 'gitlab two']);
  });

  it('compare the stored items page by page, without newer ones', async () => {
    const { query } = await openTestStore();
    const rows = Array.from({ length: 1_200 }, (_, at) =>
      itemRow(`key-${String(at).padStart(5, '0')}`, {
        ...{ connection: at % 2 === 0 ? 'jira' : 'other', gone: at === 3 ? 1 : 0, seen_at: at === 4 ? 100 : 1 },
      }),
    );
    for (let from = 0; from < rows.length; from += 300)
      await query
        .insertInto('items')
        .values(rows.slice(from, from + 300) as never[])
        .execute();
    const read = (connection: string, after: string) => storedItemsAfter(query, { connection, seenBefore: 100 }, after);
    const first = await read('other', '');
    expect([first.items.length, first.after]).toEqual([500, 'key-00999']);
    expect(first.items.filter(({ isGone }) => isGone).map(({ key }) => key)).toEqual(['key-00003']);
    const last = await read('other', first.after as string);
    expect([last.items.length, last.after]).toEqual([100, undefined]);
    expect((await read('jira', '')).items).toHaveLength(499);
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

  it('has no next unit, at any time, until it is resumed', async () => {
    const { query, next, status } = await requested();
    expect(await status()).toMatchObject({ isPaused: false });
    expect(await pauseBackfill(query, 'github')).toBe(true);
    expect([await next(), await next(NOW + 3_600_000_000)]).toEqual([undefined, undefined]);
    expect(await status()).toMatchObject({ isPaused: true });
    expect(await resumeBackfill(query, 'github')).toBe(true);
    expect([await next(), await status()]).toMatchObject([{ unit: '*' }, { isPaused: false }]);
  });

  it('stays paused if its units become known meanwhile', async () => {
    const { query, next, status, due } = await requested();
    const unit = await due();
    await pauseBackfill(query, 'github');
    await splitBackfill(query, unit, ['app', 'web']);
    expect([await next(), await status()]).toMatchObject([undefined, { isPaused: true }]);
    await resumeBackfill(query, 'github');
    expect(await next()).toMatchObject({ unit: 'app' });
  });

  it.each([true, false])('stays paused if a page was read meanwhile: %j, or failed', async (isRead) => {
    const { query, next, status, due } = await requested();
    await splitBackfill(query, await due(), ['app', 'web']);
    const unit = await due();
    await pauseBackfill(query, 'github');
    if (isRead) expect(await advanceBackfill(query, unit, { items: 3, total: 9, next: '2' }, NOW)).toBe(true);
    else await postponeBackfill(query, unit, { error: 'unavailable: no answer', notBefore: NOW + 5_000 });
    expect([await next(NOW + 3_600_000), await status()]).toMatchObject([undefined, { isPaused: true }]);
    await resumeBackfill(query, 'github');
    expect(await status()).toMatchObject({ items: isRead ? 3 : 0, isPaused: false });
    // The other one goes first: less of it was read.
    expect(await next()).toMatchObject({ unit: isRead ? 'web' : 'app' });
  });

  it('must run in this connection', async () => {
    const { query } = await requested();
    expect([await pauseBackfill(query, 'gitlab'), await resumeBackfill(query, 'gitlab')]).toEqual([false, false]);
  });
});

describe('a wanted fetch', () => {
  const reference: ItemReference = { kind: 'work_item', key: 'jira:cloud:issue:1', locator: { id: '1' } };
  const ask = (query: Scope, now = NOW) => requestFetch(query, { connection: 'jira', reference, deliveryId: 7, now });
  const wanted = async (query: Scope) => (await dueFetches(query, 'jira', NOW, 60_000, 10))[0] as WantedFetch;
  const rows = (query: Scope) => query.selectFrom('fetches').select(['asks', 'attempts', 'error', 'since']).execute();

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
    [1, NOW - 1, true],
    [1, NOW, true],
    [1, NOW + 1, false],
    [1, NOW + 2_000, false],
    // Only a clock that was set back puts it off for longer than so many failures do.
    [1, NOW + 2_001, true],
    [5, NOW + 32_000, false],
    [5, NOW + 32_001, true],
    [6, NOW + 60_000, false],
    [40, NOW + 60_000, false],
    [40, NOW + 60_001, true],
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

  it('does not wait for a time from before the clock was set back', async () => {
    const { query } = await openTestStore();
    await ask(query, NOW + 50_000);
    expect(await wanted(query)).toMatchObject({ attempts: 0 });
  });

  it('ends with the configuration of its connection', async () => {
    const { query } = await openTestStore();
    await ask(query);
    await requestFetch(query, { connection: 'gone', reference: { ...reference, key: 'x' }, deliveryId: 1, now: NOW });
    expect(await dropOrphanFetches(query, ['jira', 'other'])).toEqual(['gone']);
    expect(await dropOrphanFetches(query, ['jira'])).toEqual([]);
    expect(await rows(query)).toHaveLength(1);
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

  it('stay listed, each once', async () => {
    const query = await withUnits();
    // The row of an ended backfill stays visible.
    await restartUnits(query, 'gitlab', ['two'], REBOUND);
    for (const connection of CONNECTIONS)
      expect((await storedUnits(query, connection)).toSorted()).toEqual(['done', 'one', 'two']);
    expect(await storedUnits(query, 'other')).toEqual([]);
  });
});

test('a stored name is replaced, and forgotten with its entry in the configuration of its connection', async () => {
  const { query } = await openTestStore();
  const name = { id: '1', called: 'acme/app', elsewhere: null, askedAt: 3 };
  for (const connection of CONNECTIONS)
    for (const entry of ['acme/app', 'acme/old']) await saveName(query, connection, { entry, ...name });
  const replaced = { entry: 'acme/app', ...name, elsewhere: '2', askedAt: null };
  await saveName(query, 'github', replaced);
  expect(await loadNames(query, 'github', ['acme/app'])).toEqual([replaced]);
  expect(await loadNames(query, 'gitlab', ['acme/app', 'acme/old'])).toHaveLength(2);
  expect(await loadNames(query, 'gitlab', [])).toEqual([]);
  expect(await loadNames(query, 'github', ['acme/app', 'acme/old'])).toHaveLength(1);
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
