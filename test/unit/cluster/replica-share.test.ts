import { expect, test } from 'vitest';
import { shareOf } from '../../../src/cluster/replica-share.ts';

test.each<[total: number, ids: readonly string[], shares: readonly number[]]>([
  [0, ['a', 'b'], [0, 0]],
  [1, ['a', 'b'], [1, 0]],
  [7, ['a'], [7]],
  [7, ['a', 'b', 'c'], [3, 2, 2]],
  [8, ['a', 'b', 'c'], [3, 3, 2]],
  [9, ['a', 'b', 'c'], [3, 3, 3]],
])('%d workspaces of %j', (total, ids, shares) => {
  expect(ids.map((own) => shareOf(total, ids, own))).toEqual(shares);
});

test('who does not live holds nothing', () => {
  expect(shareOf(7, ['a', 'b'], 'c')).toBe(0);
});
