import { expect, test } from 'vitest';
import { createPeers } from '../../../src/cluster/peers.ts';

const FACTS = { version: '1', config: 'c', startedAt: 5, host: 'h' };

test('a process is outdated where its row says something else of it, and not where it has none', () => {
  let address = 'http://a';
  let facts = FACTS;
  const neighbours = createPeers({ id: 'a', address: () => address, facts: () => facts });
  const row = { ...neighbours.own(), incarnation: 'i', expires_at: 1 };
  const other = { ...row, id: 'b', about: '{}' };
  expect(neighbours.isOutdated([other, row])).toBe(false);
  expect(neighbours.isOutdated([other])).toBe(false);
  facts = { ...FACTS, version: '2' };
  expect(neighbours.isOutdated([other, row])).toBe(true);
  facts = FACTS;
  address = 'http://b';
  expect(neighbours.isOutdated([other, row])).toBe(true);
});

test('those that live tell of themselves, this one too, and each look replaces the one before', () => {
  const neighbours = createPeers({ id: 'a', address: () => 'http://a', facts: () => FACTS });
  const own = { ...neighbours.own(), incarnation: 'i', expires_at: 1 };
  const told = { ...FACTS, host: 'elsewhere' };
  const other = { id: 'b', address: 'http://b', about: JSON.stringify(told), incarnation: 'j', expires_at: 1 };
  expect(neighbours.all()).toEqual([]);
  neighbours.saw([own, other]);
  expect(neighbours.all()).toMatchObject([
    { ...FACTS, id: 'a', isOwn: true },
    { ...told, id: 'b', address: 'http://b', isOwn: false },
  ]);
  neighbours.saw([own]);
  expect(neighbours.all().map(({ id }) => id)).toEqual(['a']);
  // One that a row names need not have been seen.
  expect(neighbours.seen(other)).toMatchObject({ ...told, isOwn: false });
});
