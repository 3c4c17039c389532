import { describe, expect, it } from 'vitest';
import type { ItemReference } from '../../../src/model/item.ts';
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

const NOW = 1_000_000;
const reference: ItemReference = { kind: 'work_item', key: 'jira:cloud:issue:1', locator: { id: '1' } };

const ask = (query: Scope, now = NOW) => requestFetch(query, { connection: 'jira', reference, deliveryId: 7, now });
const wanted = async (query: Scope) => (await dueFetches(query, 'jira', NOW, 60_000, 10))[0] as WantedFetch;
const rows = (query: Scope) => query.selectFrom('fetches').select(['asks', 'attempts', 'error', 'since']).execute();

describe('a fetch that has ended', () => {
  it('is removed', async () => {
    const { query } = await openTestStore();
    await ask(query);
    await settleFetch(query, await wanted(query));
    expect(await rows(query)).toEqual([]);
  });

  it('stays without its failures if it was requested meanwhile', async () => {
    const { query } = await openTestStore();
    await ask(query);
    await postponeFetch(query, await wanted(query), 'server_failed: no', NOW);
    const begun = await wanted(query);
    await ask(query, NOW + 5);
    await settleFetch(query, begun);
    expect(await rows(query)).toEqual([{ asks: 2, attempts: 0, error: null, since: NOW }]);
  });
});

describe('the request of a fetch', () => {
  it('adds one row for equal references, with the earliest time', async () => {
    const { query } = await openTestStore();
    const askFor = (locator: Record<string, string>, now: number, isCovered = false) =>
      requestFetch(query, {
        connection: 'jira',
        deliveryId: 7,
        now,
        isCovered,
        reference: { ...reference, locator },
      });
    await askFor({ a: '1', b: '2' }, NOW);
    await askFor({ b: '2', a: '1' }, NOW - 5);
    expect(await rows(query)).toEqual([{ asks: 2, attempts: 0, error: null, since: NOW - 5 }]);
    await askFor({ a: '1', b: '2' }, NOW - 9, true);
    expect(await rows(query)).toEqual([{ asks: 2, attempts: 0, error: null, since: NOW - 5 }]);
    await askFor({ a: '1', b: '3' }, NOW, true);
    expect(await rows(query)).toHaveLength(2);
  });

  it.each<[failures: number, notBefore: number, isDue: boolean]>([
    [1, NOW - 1, true],
    [1, NOW, true],
    [1, NOW + 1, false],
    [1, NOW + 2_000, false],
    // Only a clock that was set back since puts it off for longer than so many failures do.
    [1, NOW + 2_001, true],
    [5, NOW + 32_000, false],
    [5, NOW + 32_001, true],
    [6, NOW + 60_000, false],
    [6, NOW + 60_001, true],
    [40, NOW + 60_000, false],
    [40, NOW + 60_001, true],
  ])('after %j failures, postponed to %j, is due: %j', async (failures, notBefore, isDue) => {
    const { query } = await openTestStore();
    await ask(query);
    const fetch = await wanted(query);
    for (let time = 0; time < failures; time++) await postponeFetch(query, fetch, 'no', notBefore);
    expect((await wanted(query)) !== undefined).toBe(isDue);
    expect(await nextFetchTime(query, NOW)).toBe(notBefore > NOW ? notBefore : undefined);
  });

  it('is due despite a pause if no pause is allowed', async () => {
    const { query } = await openTestStore();
    await ask(query);
    await postponeFetch(query, await wanted(query), 'no', NOW + 1);
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
    expect(await rows(query)).toHaveLength(1);
    expect(await dropOrphanFetches(query, ['jira'])).toEqual([]);
    expect(await rows(query)).toHaveLength(1);
  });
});
