import { describe, expect, it } from 'vitest';
import { createClockOffset, ledgerClock, offsetClock } from '../../../src/cluster/clock-offset.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';

const HOUR = 3_600_000;

describe('the estimate of the store clock', () => {
  it('is as exact as the fastest answer', () => {
    const store = createClockOffset();
    expect(store.ahead()).toBeUndefined();
    store.addSample(1_000_000, { began: 100, ended: 104 });
    expect(store.ahead()).toBe(1_000_000 - 102);
    store.addSample(1_001_000, { began: 1_100, ended: 1_400 });
    expect(store.ahead()).toBe(1_000_000 - 102);
    expect(store.timesSet()).toBe(0);
  });

  it('follows a clock that drifts, and does not count it as set', () => {
    const store = createClockOffset();
    for (let second = 0; second < 10_000; second++)
      store.addSample(second * 1_001, { began: second * 1_000, ended: second * 1_000 + 1 });
    expect(store.ahead()).toBeCloseTo(9_999, -1);
    expect(store.timesSet()).toBe(0);
  });

  it.each([HOUR, -HOUR, 2_500, -2_500])('counts one jump of %d ms as one setting', (jump) => {
    const store = createClockOffset();
    store.addSample(1_000, { began: 0, ended: 2 });
    for (let second = 1; second < 5; second++)
      store.addSample(1_000 + second * 1_000 + jump, { began: second * 1_000, ended: second * 1_000 + 2 });
    expect(store.timesSet()).toBe(1);
    expect(store.ahead()).toBeCloseTo(1_000 + jump, -1);
  });

  it.each([
    [2_000, 0],
    [-2_000, 0],
    [2_001, 1],
    [-2_001, 1],
  ])('counts a difference as a setting only above 2 s: %d ms', (off, times) => {
    const store = createClockOffset();
    store.addSample(1_000, { began: 0, ended: 0 });
    store.addSample(6_000 + off, { began: 5_000, ended: 5_000 });
    expect(store.timesSet()).toBe(times);
  });

  it('does not count a jump that the latency of an answer explains', () => {
    const store = createClockOffset();
    store.addSample(1_000, { began: 0, ended: 0 });
    store.addSample(6_000, { began: 0, ended: 5_000 });
    store.addSample(6_000, { began: 5_000, ended: 10_000 });
    expect(store.timesSet()).toBe(0);
  });
});

describe('the clocks of a process over a store', () => {
  function open() {
    const clock = createTravellingClock();
    const store = createClockOffset();
    const elapsed = () => clock.elapsed();
    const sample = (ahead: number) => store.addSample(elapsed() + ahead, { began: elapsed(), ended: elapsed() });
    return { clock, store, elapsed, sample };
  }

  it('return the time of the store, and the local time before the first sample', () => {
    const { clock, store, elapsed, sample } = open();
    const own = offsetClock(clock, store, elapsed);
    expect(own.now()).toBe(clock.now());
    sample(5_000_000);
    expect(own.now()).toBe(Math.round(elapsed() + 5_000_000));
  });

  it('continue the ledger of the previous process, and never go back', async () => {
    const first = open();
    first.sample(5_000_000);
    const before = ledgerClock(first.clock, '1.0', first);
    await first.clock.advance(10_000);
    const next = open();
    // Its machine has another uptime.
    await next.clock.advance(777_000);
    next.sample(first.elapsed() + 5_000_000 - next.elapsed());
    const after = ledgerClock(next.clock, '1.0', next);
    expect(after.bootId).toBe(before.bootId);
    expect(after.monotonic()).toBeCloseTo(before.monotonic(), 3);
    next.sample(first.elapsed() + 5_000_000 - next.elapsed() - 500);
    const latest = after.monotonic();
    expect(latest).toBeCloseTo(before.monotonic(), 3);
    await next.clock.advance(100);
    expect(after.monotonic()).toBe(latest);
  });

  it('keep the ledger unchanged when the store clock is set', async () => {
    const { clock, store, elapsed, sample } = open();
    sample(5_000_000);
    const ledger = ledgerClock(clock, '1.0', { store, elapsed });
    const before = ledger.monotonic();
    sample(5_000_000 + HOUR);
    await clock.advance(1_000);
    expect(ledger.monotonic()).toBeCloseTo(before + 1_000, 3);
  });
});
