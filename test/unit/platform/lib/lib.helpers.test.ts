import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sleep, systemClock } from '../../../../src/platform/lib/clock.ts';
import { backoff, type Random, systemRandom } from '../../../../src/platform/lib/random.ts';
import { escapePattern, withoutEnd, withStorableTexts } from '../../../../src/platform/lib/text.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

const fixed = (value: number): Random => ({ ...systemRandom(), float: () => value });
const ALMOST_ONE = 1 - Number.EPSILON / 2;

/** Whether the promise is settled once everything that is ready has run. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  return done;
}

describe('the text without its end', () => {
  it.each([
    ['a/', '/', 'a'],
    ['/a//', '/', '/a'],
    ['a.b.,', '.,', 'a.b'],
    ['//', '/', ''],
    ['', '/', ''],
    ['a', '/', 'a'],
  ])('%s without %s', (text, signs, expected) => expect(withoutEnd(text, signs)).toBe(expected));
});

it('a text as a pattern finds itself and nothing else', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (text, other) => {
      const pattern = new RegExp(`^(?:${escapePattern(text)})$`, 'u');
      return pattern.test(text) && pattern.test(other) === (text === other);
    }),
  );
  expect(new RegExp(escapePattern('^$\\.*+?()[]{}|/-'), 'u').test('^$\\.*+?()[]{}|/-')).toBe(true);
});

describe('back-off', () => {
  it.each([
    [0, 1_000],
    [1, 2_000],
    [4, 16_000],
    [8, 256_000],
    [9, 300_000],
    [5_000, 300_000],
  ])('attempt %i waits at most %i ms', (attempt, ceiling) => {
    expect(backoff(fixed(ALMOST_ONE), attempt)).toBe(ceiling);
  });

  it('takes base and cap', () => {
    expect(backoff(fixed(ALMOST_ONE), 3, 500, 5_000)).toBe(4_000);
    expect(backoff(fixed(ALMOST_ONE), 4, 500, 5_000)).toBe(5_000);
    expect(backoff(fixed(0.5), 0, 500, 5_000)).toBe(250);
  });

  it('is whole milliseconds between 1 and the ceiling, whatever chance says', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: ALMOST_ONE, noNaN: true }), fc.nat({ max: 60 }), (chance, attempt) => {
        const pause = backoff(fixed(chance), attempt, 1_000, 60_000);
        expect(Number.isInteger(pause)).toBe(true);
        expect(pause).toBeGreaterThanOrEqual(1);
        expect(pause).toBeLessThanOrEqual(Math.min(60_000, 1_000 * 2 ** attempt));
      }),
    );
  });
});

describe('a bell', () => {
  it('wakes who waits', async () => {
    const wakeSignal = createWakeSignal();
    const next = wakeSignal.wait();
    expect(await isDone(next)).toBe(false);
    wakeSignal.notify();
    expect(await isDone(next)).toBe(true);
  });

  it('remembers a ring that nobody waited for, once however often it rang', async () => {
    const wakeSignal = createWakeSignal();
    wakeSignal.notify();
    wakeSignal.notify();
    expect(await isDone(wakeSignal.wait())).toBe(true);
    expect(await isDone(wakeSignal.wait())).toBe(false);
  });

  it('does not remember a ring that woke somebody', async () => {
    const wakeSignal = createWakeSignal();
    const next = wakeSignal.wait();
    wakeSignal.notify();
    await next;
    expect(await isDone(wakeSignal.wait())).toBe(false);
  });

  it('wakes the last who came to wait, where one gave up waiting', async () => {
    const wakeSignal = createWakeSignal();
    const givenUp = wakeSignal.wait();
    const waiting = wakeSignal.wait();
    wakeSignal.notify();
    expect(await isDone(waiting)).toBe(true);
    expect(await isDone(givenUp)).toBe(false);
    expect(await isDone(wakeSignal.wait())).toBe(false);
  });
});

describe('sleep', () => {
  it('ends when the time has passed, and not before', async () => {
    const clock = createTravellingClock();
    const slept = sleep(clock, 1_000);
    await clock.advance(999);
    expect(await isDone(slept)).toBe(false);
    await clock.advance(1);
    expect(await isDone(slept)).toBe(true);
  });

  it('ends at once when it is aborted, and leaves no timer and no listener', async () => {
    const clock = createTravellingClock();
    const controller = new AbortController();
    const slept = sleep(clock, 1_000, controller.signal);
    expect(clock.pending).toBe(1);
    controller.abort();
    expect(await isDone(slept)).toBe(true);
    expect(clock.pending).toBe(0);
  });

  it('does not begin when it was aborted before', async () => {
    const clock = createTravellingClock();
    expect(await isDone(sleep(clock, 1_000, AbortSignal.abort()))).toBe(true);
    expect(clock.pending).toBe(0);
  });

  it('lets go of the signal when the time has passed', async () => {
    const clock = createTravellingClock();
    const { signal } = new AbortController();
    let listeners = 0;
    const counted = new Proxy(signal, {
      get(target, name) {
        if (name === 'addEventListener') listeners++;
        if (name === 'removeEventListener') listeners--;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
    const slept = sleep(clock, 10, counted);
    expect(listeners).toBe(1);
    await clock.advance(10);
    await slept;
    expect(listeners).toBe(0);
  });
});

describe('the clock of the system', () => {
  it('has a boot, and a monotonic time that does not go back', () => {
    const clock = systemClock();
    const first = clock.monotonic();
    expect(clock.monotonic()).toBeGreaterThanOrEqual(first);
    expect(clock.bootId).toMatch(/^\S{8,}$/);
    expect(clock.bootId).toBe(systemClock().bootId.startsWith('process-') ? clock.bootId : systemClock().bootId);
  });

  it('takes a negative time as now, and a cancelled timer does not call', async () => {
    const clock = systemClock();
    let calls = 0;
    clock.after(0, () => calls++)();
    await new Promise<void>((resolve) => {
      const keepsAlive = setInterval(() => undefined, 1_000);
      clock.after(-5, () => {
        clearInterval(keepsAlive);
        resolve();
      });
    });
    expect(calls).toBe(0);
  });

  it('does not call at once for a time that no timer can take', async () => {
    let called = false;
    const cancel = systemClock().after(Number.MAX_SAFE_INTEGER, () => {
      called = true;
    });
    await new Promise<void>((resolve) => {
      setTimeout(resolve, 5);
    });
    cancel();
    expect(called).toBe(false);
  });
});

describe('texts that a database keeps', () => {
  it('have no sign of code 0 and no half of a pair, in names of fields too', () => {
    const given = { emails: { 'a\0b': 'x\ud800', plain: 'y' }, list: ['\udc00', { z: 1 }], none: null };
    const kept = { emails: { 'a\ufffdb': 'x\ufffd', plain: 'y' }, list: ['\ufffd', { z: 1 }], none: null };
    expect(withStorableTexts(given)).toEqual(kept);
  });

  it('of something that is kept as it is are the very same', () => {
    const given = { a: ['b', { c: null, d: 1 }], '😀': 'e' };
    expect(withStorableTexts(given)).toBe(given);
  });

  it('name no prototype', () => {
    const named = withStorableTexts(JSON.parse('{"__proto__":"a\\u0000"}') as object);
    expect([Object.entries(named), Object.getPrototypeOf(named)]).toEqual([
      [['__proto__', 'a\ufffd']],
      Object.prototype,
    ]);
  });
});
