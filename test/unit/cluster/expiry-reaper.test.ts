import { expect, test } from 'vitest';
import { createExpiryReaper } from '../../../src/cluster/expiry-reaper.ts';

const TTL = 3_000;
const replica = (incarnation: string, expires_at: number) => ({
  ...{ id: incarnation, incarnation, address: '', about: '', expires_at },
});

/** A look at these, with what was read of each. */
const look = (began: number, ...replicas: ReturnType<typeof replica>[]) => ({ began, ended: began + 10, replicas });

test('a process lapses one TTL after the end of the look that saw its last renewal, and no moment sooner', () => {
  const watch = createExpiryReaper(TTL);
  const lapsed = (...read: Parameters<typeof look>) => watch.lapsed(look(...read)).map(({ id }) => id);
  expect(watch.next()).toBe(Number.POSITIVE_INFINITY);
  expect(lapsed(1_000, replica('a', 1), replica('b', 1))).toEqual([]);
  expect(watch.next()).toBe(1_010 + TTL);
  // Another value of the row is another renewal, be it later or earlier.
  expect(lapsed(2_000, replica('a', 1), replica('b', 0))).toEqual([]);
  expect(lapsed(1_009 + TTL, replica('a', 1), replica('b', 0))).toEqual([]);
  expect(lapsed(1_010 + TTL, replica('a', 1), replica('b', 0))).toEqual(['a']);
  expect(lapsed(2_010 + TTL, replica('a', 1), replica('b', 0))).toEqual(['a', 'b']);
});

test('one that is gone is forgotten, and comes back as one that was just seen', () => {
  const watch = createExpiryReaper(TTL);
  watch.lapsed(look(0, replica('a', 1)));
  watch.lapsed(look(TTL - 500));
  expect(watch.next()).toBe(Number.POSITIVE_INFINITY);
  expect(watch.lapsed(look(TTL + 500, replica('a', 1)))).toEqual([]);
  expect(watch.next()).toBe(TTL + 510 + TTL);
});

test('the next one to lapse is the one that was seen renewing longest ago', () => {
  const watch = createExpiryReaper(TTL);
  watch.lapsed(look(0, replica('a', 1), replica('b', 1)));
  watch.lapsed(look(500, replica('a', 2), replica('b', 1)));
  expect(watch.next()).toBe(10 + TTL);
});
