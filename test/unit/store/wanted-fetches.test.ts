import { describe, expect, it } from 'vitest';
import type { ItemReference } from '../../../src/model/item.ts';
import {
  dueFetches,
  postponeFetch,
  requestFetch,
  settleFetch,
  type WantedFetch,
} from '../../../src/store/wanted-fetches.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/intake.ts';

const NOW = 1_000_000;
const reference: ItemReference = { kind: 'work_item', key: 'jira:cloud:issue:1', locator: { id: '1' } };

const ask = (query: Scope, now = NOW) => requestFetch(query, { connection: 'jira', reference, deliveryId: 7, now });
const wanted = async (query: Scope) => (await dueFetches(query, 'jira', NOW, 60_000, 10))[0] as WantedFetch;
const rows = (query: Scope) => query.selectFrom('fetches').select(['asks', 'attempts', 'error', 'since']).execute();

describe('a fetch that has ended', () => {
  it('is wanted no more', async () => {
    const { query } = await openTestStore();
    await ask(query);
    await settleFetch(query, await wanted(query));
    expect(await rows(query)).toEqual([]);
  });

  it('stays wanted, and as if it had never failed, where it was asked for meanwhile', async () => {
    const { query } = await openTestStore();
    await ask(query);
    await postponeFetch(query, (await wanted(query)).key, 'server_failed: no', NOW);
    const begun = await wanted(query);
    await ask(query, NOW + 5);
    await settleFetch(query, begun);
    expect(await rows(query)).toEqual([{ asks: 2, attempts: 0, error: null, since: NOW }]);
  });
});
