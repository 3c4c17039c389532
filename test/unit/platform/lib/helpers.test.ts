import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { createAdaptiveBatchSize } from '../../../../src/platform/lib/adaptive-batch-size.ts';
import { type Clock, sleep, systemClock } from '../../../../src/platform/lib/clock.ts';
import { onClockSetBack } from '../../../../src/platform/lib/clock-set-back.ts';
import { hmacOf, sha256Of } from '../../../../src/platform/lib/digest.ts';
import { doAll } from '../../../../src/platform/lib/failures.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createQueue } from '../../../../src/platform/lib/queue.ts';
import { backoff, type Random, systemRandom } from '../../../../src/platform/lib/random.ts';
import { createTransitionLogger } from '../../../../src/platform/lib/transition-logger.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Whether the promise is settled once everything that is ready has run. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await settled();
  return done;
}

describe('backoff', () => {
  const fixed = (value: number): Random => ({ ...systemRandom(), float: () => value });
  const ALMOST_ONE = 1 - Number.EPSILON / 2;

  it.each<[attempt: number, ceiling: number, limits?: readonly [base: number, cap: number]]>([
    [0, 1_000],
    [1, 2_000],
    [4, 16_000],
    [8, 256_000],
    [9, 300_000],
    [5_000, 300_000],
    [3, 4_000, [500, 5_000]],
    [4, 5_000, [500, 5_000]],
  ])('waits in attempt %i at most %i ms, with the limits %j', (attempt, ceiling, limits = [1_000, 300_000]) => {
    expect(backoff(fixed(ALMOST_ONE), attempt, ...limits)).toBe(ceiling);
    expect(backoff(fixed(0.5), attempt, ...limits)).toBe(ceiling / 2);
  });

  it('is whole milliseconds between 1 and the ceiling, whatever chance says', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: ALMOST_ONE, noNaN: true }), fc.nat({ max: 60 }), (chance, attempt) => {
        const pause = backoff(fixed(chance), attempt, 1_000, 60_000);
        expect(Number.isInteger(pause) && pause >= 1 && pause <= Math.min(60_000, 1_000 * 2 ** attempt)).toBe(true);
      }),
    );
  });
});

describe('a wake signal', () => {
  it('wakes the process that waits, and does not remember that', async () => {
    const { wait, notify } = createWakeSignal();
    const next = wait();
    expect(await isDone(next)).toBe(false);
    notify();
    expect(await isDone(next)).toBe(true);
    expect(await isDone(wait())).toBe(false);
  });

  it('remembers notifications that nothing waited for as one', async () => {
    const { wait, notify } = createWakeSignal();
    notify();
    notify();
    expect([await isDone(wait()), await isDone(wait())]).toEqual([true, false]);
  });

  it('wakes the last that came to wait, if one gave up waiting', async () => {
    const { wait, notify } = createWakeSignal();
    const [givenUp, waiting] = [wait(), wait()];
    notify();
    expect([await isDone(waiting), await isDone(givenUp), await isDone(wait())]).toEqual([true, false, false]);
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

  it('ends at once when it is aborted, and does not begin if it was aborted before; no timer stays', async () => {
    const clock = createTravellingClock();
    const controller = new AbortController();
    const slept = sleep(clock, 1_000, controller.signal);
    expect(clock.pending).toBe(1);
    controller.abort();
    expect([await isDone(slept), clock.pending]).toEqual([true, 0]);
    expect([await isDone(sleep(clock, 1_000, controller.signal)), clock.pending]).toEqual([true, 0]);
  });
});

test('the system clock has a boot id, does not go back, and does not call at once for a time too long for a timer', async () => {
  const clock = systemClock();
  const first = clock.monotonic();
  expect(clock.monotonic()).toBeGreaterThanOrEqual(first);
  expect(clock.bootId).toMatch(/^\S{8,}$/);
  let calls = 0;
  const cancels = [Number.MAX_SAFE_INTEGER, 0].map((ms) => clock.after(ms, () => void calls++));
  cancels[1]?.();
  await new Promise((resolve) => setTimeout(resolve, 5));
  cancels[0]?.();
  expect(calls).toBe(0);
});

describe('a clock that is set back', () => {
  it('is noticed once; a small correction and a jump ahead are not', async () => {
    const clock = createTravellingClock();
    let calls = 0;
    const check = onClockSetBack(clock, async () => void calls++);
    const noticed = [await check()];
    for (const jump of [-1_000, 7_200_000, -1_001, 0]) {
      clock.jumpWall(jump);
      await clock.advance(500);
      noticed.push(await check());
    }
    expect([noticed, calls]).toEqual([[false, false, false, true, false], 1]);
  });

  it('is handled again at the next check if that failed', async () => {
    const outcomes = [Promise.reject(new Error('no')), Promise.resolve(), Promise.resolve()];
    const check = onClockSetBack(createTravellingClock(), () => outcomes.shift() as Promise<void>, true);
    await expect(check()).rejects.toThrow('no');
    expect([await check(), await check(), outcomes.length]).toEqual([true, false, 1]);
  });
});

describe('a queue', () => {
  it('lets one in at a time, in the order in which they came, and at once if nobody waits', async () => {
    const queue = createQueue();
    const order: number[] = [];
    let inside = 0;
    const work = async (name: number) => {
      await queue.enter();
      expect(++inside).toBe(1);
      await settled();
      order.push(name);
      inside -= 1;
      queue.leave();
    };
    await Promise.all([0, 1, 2, 3, 4].map(work));
    await work(5);
    expect(order).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('lets in one for each that leaves', async () => {
    const queue = createQueue();
    await queue.enter();
    let entered = 0;
    for (let each = 0; each < 5; each++) void queue.enter().then(() => entered++);
    for (const expected of [1, 2]) {
      queue.leave();
      await settled();
      expect(entered).toBe(expected);
    }
  });
});

describe('an adaptive batch', () => {
  /** Works through batches of which each element takes so many milliseconds; returns their sizes. */
  async function sizes(costs: readonly number[], full = 1): Promise<number[]> {
    let time = 0;
    const batch = createAdaptiveBatchSize({ monotonic: () => time } as Clock, { least: 20, most: 100 });
    const taken: number[] = [];
    for (const cost of costs) {
      const size = batch.size();
      taken.push(size);
      await batch.work(Math.ceil(size * full), async () => {
        time += size * cost;
      });
    }
    return taken;
  }

  it('grows step by step up to the most while it is cheap, and only if it was full', async () => {
    expect(await sizes([0, 0, 0, 0, 0, 0])).toEqual([20, 30, 45, 68, 100, 100]);
    expect(await sizes([0, 0], 0.15)).toEqual([20, 20]);
  });

  it('shrinks to 20 ms when it is expensive, and not below the least', async () => {
    expect(await sizes([0, 0, 0, 0, 0.5, 0.5, 2, 2])).toEqual([20, 30, 45, 68, 100, 40, 40, 20]);
  });
});

test('each step is done, in order, whatever failed before it; one failure is thrown as it is', async () => {
  const done: number[] = [];
  const step = (number: number) => () => void done.push(number);
  const failing = (message: string) => () => Promise.reject(new Error(message));
  await expect(doAll([step(1), failing('one'), step(2), failing('two'), step(3)])).rejects.toMatchObject({
    errors: [{ message: 'one' }, { message: 'two' }],
  });
  expect(done).toEqual([1, 2, 3]);
  await expect(doAll([failing('alone')])).rejects.toThrow(/^alone$/);
  await doAll([() => 1]);
});

test('a failure is logged once for each reason, and its end once', () => {
  const lines: string[] = [];
  const line = (level: string) => (_fields: LogFields, message: string) => void lines.push(`${level}: ${message}`);
  const logger = { ...silentLogger, warn: line('warn'), info: line('info') };
  const transitions = createTransitionLogger(logger, 'warn', { failed: 'it fails', again: 'it succeeds again' });
  transitions.succeeded();
  for (const reason of ['away', 'away', 'refused', 'refused']) transitions.failed(new Error(reason));
  transitions.succeeded();
  transitions.succeeded();
  transitions.failed(new Error('refused'));
  expect(lines).toEqual(['warn: it fails', 'warn: it fails', 'info: it succeeds again', 'warn: it fails']);
});

/** Small and large texts are digested in different ways, also as part of a larger buffer. */
test.each([0, 1, 1024 * 1024, 1024 * 1024 + 1, 3_000_000])('digests %i bytes as Node does', async (length) => {
  const body = Buffer.alloc(length + 10, 'some bytes ').subarray(5, 5 + length);
  const key = Buffer.from('a key of the test');
  expect((await hmacOf(body, key)).toString('hex')).toBe(createHmac('sha256', key).update(body).digest('hex'));
  expect(await sha256Of(body)).toBe(createHash('sha256').update(body).digest('hex'));
});
