import { describe, expect, test } from 'vitest';
import { createCache, type Reading } from '../../../src/gateway/cache.ts';
import type { Outgoing } from '../../../src/gateway/outgoing.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';

const answer = (body: string, status = 200): Outgoing => ({ status, headers: {}, body });
const reading = (address: string, workspace = 'one', flight = address): Reading => ({ workspace, address, flight });

function deferred() {
  let resolve: (value: Outgoing) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<Outgoing>((...both) => {
    [resolve, reject] = both;
  });
  return { promise, resolve, reject };
}

describe('the cache of the gateway', () => {
  test('holds an answer from the moment it was asked for', async () => {
    const clock = createTravellingClock();
    const cache = createCache(clock);
    const slow = deferred();
    const shared = cache.shared(reading('a'), true, () => slow.promise);
    await clock.advance(4_000);
    slow.resolve(answer('x'));
    expect(await shared).toEqual({ answer: answer('x'), joined: false });
    expect(cache.fresh('one', 'a', 5_000)).toEqual({ answer: answer('x'), age: 4 });
    await clock.advance(999);
    expect(cache.fresh('one', 'a', 5_000)?.age).toBe(4);
    await clock.advance(1);
    expect(cache.fresh('one', 'a', 5_000)).toBeUndefined();
    expect(cache.fresh('two', 'a', 5_000)).toBeUndefined();
    expect(cache.fresh('one', 'a', 0)).toBeUndefined();
  });

  test('reads once for all that ask meanwhile, and a failure is everybody’s and is not kept', async () => {
    const cache = createCache(createTravellingClock());
    let reads = 0;
    const slow = deferred();
    const read = () => {
      reads++;
      return slow.promise;
    };
    const all = [1, 2, 3].map(() => cache.shared(reading('a'), true, read));
    slow.reject(new Error('no answer'));
    for (const each of all) await expect(each).rejects.toThrow('no answer');
    expect(reads).toBe(1);
    expect(await cache.shared(reading('a'), true, async () => answer('y'))).toEqual({
      answer: answer('y'),
      joined: false,
    });
  });

  test('keeps nothing but a 200, and only what may be kept', async () => {
    const cache = createCache(createTravellingClock());
    await cache.shared(reading('a'), true, async () => answer('x', 404));
    await cache.shared(reading('b'), false, async () => answer('x'));
    expect([cache.fresh('one', 'a', 1_000), cache.fresh('one', 'b', 1_000)]).toEqual([undefined, undefined]);
  });

  test('after a write neither keeps nor shares what was asked for before', async () => {
    const cache = createCache(createTravellingClock());
    await cache.shared(reading('kept'), true, async () => answer('before'));
    const slow = deferred();
    const early = cache.shared(reading('a'), true, () => slow.promise);
    cache.forget('one');
    const late = await cache.shared(reading('a'), true, async () => answer('after'));
    slow.resolve(answer('before'));
    await early;
    expect(late).toEqual({ answer: answer('after'), joined: false });
    expect(cache.fresh('one', 'a', 1_000)?.answer).toEqual(answer('after'));
    expect(cache.fresh('one', 'kept', 1_000)).toBeUndefined();
  });

  test('a write to one workspace leaves another’s answers', async () => {
    const cache = createCache(createTravellingClock());
    await cache.shared(reading('a', 'two'), true, async () => answer('x'));
    cache.forget('one');
    expect(cache.fresh('two', 'a', 1_000)?.answer).toEqual(answer('x'));
  });

  test('stays within its size: the oldest go, and what is too large is not kept', async () => {
    const cache = createCache(createTravellingClock(), 5_000);
    const addresses = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const address of addresses) await cache.shared(reading(address), true, async () => answer('x'.repeat(500)));
    const isHeld = (address: string) => cache.fresh('one', address, 1_000) !== undefined;
    expect(addresses.filter(isHeld)).toEqual(['d', 'e', 'f']);
    await cache.shared(reading('g'), true, async () => answer('x'.repeat(5_000)));
    expect([...addresses, 'g'].filter(isHeld)).toEqual(['d', 'e', 'f']);
  });
});
