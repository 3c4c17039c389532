import type { Pool } from 'pg';
import { expect, test } from 'vitest';
import { createStatistics } from '../../../../src/platform/database/postgres-statistics.ts';

/** A database of which these tables are outdated; undefined: it does not answer. */
function openOutdated(tables: readonly string[] | undefined) {
  const asked: string[] = [];
  const query = async (text: string) => {
    asked.push(text.split(' ', 1)[0] === 'analyze' ? text : 'look');
    if (!tables) throw new Error('away');
    return { rows: tables.map((name) => ({ name })) };
  };
  const statistics = createStatistics({ query } as unknown as Pool);
  return {
    async insert(rows: number): Promise<readonly string[]> {
      statistics.inserted(rows);
      await new Promise((resolve) => setImmediate(resolve));
      return asked.splice(0);
    },
  };
}

test('outdated tables are counted when many rows have come, and again after twice as many', async () => {
  const { insert } = openOutdated(['items', 'a "b"']);
  const counted = ['look', 'analyze "items"', 'analyze "a ""b"""'];
  expect(await insert(255)).toEqual([]);
  expect(await insert(1)).toEqual(counted);
  expect(await insert(255)).toEqual([]);
  expect(await insert(1)).toEqual(counted);
  expect(await insert(511)).toEqual([]);
});

test('a database that does not answer is asked again later', async () => {
  const { insert } = openOutdated(undefined);
  expect(await insert(1_000)).toEqual(['look']);
  expect(await insert(1_000)).toEqual(['look']);
});
