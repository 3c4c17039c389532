import { expect, test } from 'vitest';
import { createPeers, shareOf } from '../../../src/cluster/peers.ts';

const FACTS = { version: '1', config: 'c', startedAt: 5, host: 'h' };

test('a process is outdated if its stored row has other facts or another address, and not if it has no row', () => {
  let address = 'http://a';
  let facts = FACTS;
  const peers = createPeers({ id: 'a', address: () => address, facts: () => facts });
  const row = { ...peers.own(), incarnation: 'i', expires_at: 1 };
  const other = { ...row, id: 'b', about: '{}' };
  expect(peers.isOutdated([other, row])).toBe(false);
  expect(peers.isOutdated([other])).toBe(false);
  facts = { ...FACTS, version: '2' };
  expect(peers.isOutdated([other, row])).toBe(true);
  facts = FACTS;
  address = 'http://b';
  expect(peers.isOutdated([other, row])).toBe(true);
});

test('an update replaces all peers, and lists this process among them', () => {
  const peers = createPeers({ id: 'a', address: () => 'http://a', facts: () => FACTS });
  const own = { ...peers.own(), incarnation: 'i', expires_at: 1 };
  const facts = { ...FACTS, host: 'elsewhere' };
  const other = { id: 'b', address: 'http://b', about: JSON.stringify(facts), incarnation: 'j', expires_at: 1 };
  expect(peers.all()).toEqual([]);
  peers.update([own, other]);
  expect(peers.all()).toMatchObject([
    { ...FACTS, id: 'a', isOwn: true },
    { ...facts, id: 'b', address: 'http://b', isOwn: false },
  ]);
  peers.update([own]);
  expect(peers.all().map(({ id }) => id)).toEqual(['a']);
  // A row is readable although its process is no peer now.
  expect(peers.peerOf(other)).toMatchObject({ ...facts, isOwn: false });
});

test.each<[total: number, processes: number, shares: readonly number[]]>([
  [0, 2, [0, 0]],
  [1, 2, [1, 0]],
  [2, 3, [1, 1, 0]],
  [5, 1, [5]],
  [6, 3, [2, 2, 2]],
  [7, 3, [3, 2, 2]],
  [8, 3, [3, 3, 2]],
  [9, 3, [3, 3, 3]],
])('%d workspaces are shared among %d processes as %j', (total, count, shares) => {
  const living = Array.from({ length: count }, (_, index) => ({ id: `replica-${index}` }));
  expect(living.map(({ id }) => shareOf(total, living, id))).toEqual(shares);
  expect(shareOf(total, living, 'not living')).toBe(0);
});
