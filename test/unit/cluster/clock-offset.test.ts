import { describe, expect, it } from 'vitest';
import { createClockOffset, ledgerClock, offsetClock } from '../../../src/cluster/clock-offset.ts';
import { createTravellingClock } from '../../support/travelling-clock.ts';

const HOUR = 3_600_000;

describe('the clock of the store', () => {
  it('is known as exactly as an answer was quick', () => {
    const store = createClockOffset();
    expect(store.ahead()).toBeUndefined();
    store.addSample(1_000_000, { began: 100, ended: 104 });
    expect(store.ahead()).toBe(1_000_000 - 102);
    store.addSample(1_001_000, { began: 1_100, ended: 1_400 });
    expect(store.ahead()).toBe(1_000_000 - 102);
    expect(store.timesSet()).toBe(0);
  });

  it('is followed where it drifts, and is not set then', () => {
    const store = createClockOffset();
    for (let second = 0; second < 10_000; second++)
      store.addSample(second * 1_001, { began: second * 1_000, ended: second * 1_000 + 1 });
    expect(store.ahead()).toBeCloseTo(9_999, -1);
    expect(store.timesSet()).toBe(0);
  });

  it.each([HOUR, -HOUR, 2_500, -2_500])('was set where it jumps by %d ms, once', (jump) => {
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
  ])('may be off by two seconds, and no more: %d ms', (off, times) => {
    const store = createClockOffset();
    store.addSample(1_000, { began: 0, ended: 0 });
    store.addSample(6_000 + off, { began: 5_000, ended: 5_000 });
    expect(store.timesSet()).toBe(times);
  });

  it('was not set where an answer took as long as it seems to have jumped', () => {
    const store = createClockOffset();
    store.addSample(1_000, { began: 0, ended: 0 });
    store.addSample(6_000, { began: 0, ended: 5_000 });
    store.addSample(6_000, { began: 5_000, ended: 10_000 });
    expect(store.timesSet()).toBe(0);
  });
});

describe('a process over a store', () => {
  function open() {
    const clock = createTravellingClock();
    const store = createClockOffset();
    const passed = () => clock.elapsed();
    const hear = (ahead: number) => store.addSample(passed() + ahead, { began: passed(), ended: passed() });
    return { clock, store, passed, hear };
  }

  it('tells the time of the store, whatever its own clock says, and its own before it has asked', () => {
    const { clock, store, passed, hear } = open();
    const own = offsetClock(clock, store, passed);
    expect(own.now()).toBe(clock.now());
    hear(5_000_000);
    expect(own.now()).toBe(Math.round(passed() + 5_000_000));
  });

  it('keeps a ledger that goes on in the next process, and never back', async () => {
    const first = open();
    first.hear(5_000_000);
    const before = ledgerClock(first.clock, '1.0', first);
    await first.clock.advance(10_000);
    const next = open();
    // Its machine has been up for another time.
    await next.clock.advance(777_000);
    next.hear(first.passed() + 5_000_000 - next.passed());
    const after = ledgerClock(next.clock, '1.0', next);
    expect(after.bootId).toBe(before.bootId);
    expect(after.monotonic()).toBeCloseTo(before.monotonic(), 3);
    next.hear(first.passed() + 5_000_000 - next.passed() - 500);
    const latest = after.monotonic();
    expect(latest).toBeCloseTo(before.monotonic(), 3);
    await next.clock.advance(100);
    expect(after.monotonic()).toBe(latest);
  });

  it('does not follow with its ledger when the clock of the store is set', async () => {
    const { clock, store, passed, hear } = open();
    hear(5_000_000);
    const ledger = ledgerClock(clock, '1.0', { store, passed });
    const before = ledger.monotonic();
    hear(5_000_000 + HOUR);
    await clock.advance(1_000);
    expect(ledger.monotonic()).toBeCloseTo(before + 1_000, 3);
  });
});
