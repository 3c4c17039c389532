import { expect, test } from 'vitest';
import { createRenewals } from '../../../src/cluster/renewals.ts';
import { type LogFields, silentLogger } from '../../../src/platform/lib/logger.ts';
import { createTravellingClock } from '../../support/travelling-clock.ts';

const PAUSE = 500;
const RETRY = 2 * PAUSE;

/** Each renewal ends when the test says so. */
function bench() {
  const clock = createTravellingClock();
  const running: PromiseWithResolvers<void>[] = [];
  const begun: number[] = [];
  const errors: LogFields[] = [];
  const renewals = createRenewals({
    renew() {
      begun.push(clock.elapsed());
      const one = Promise.withResolvers<void>();
      running.push(one);
      return one.promise;
    },
    ...{ pause: () => PAUSE, retry: RETRY, after: clock.after },
    logger: { ...silentLogger, error: (fields) => void errors.push(fields) },
  });
  return { clock, renewals, begun, errors, end: () => running.shift()?.resolve(), running };
}

test('a renewal begins one pause after the end of the one before, or when it is asked for, and never beside another', async () => {
  const { clock, renewals, begun, end } = bench();
  void renewals.now();
  await clock.advance(10 * PAUSE);
  end();
  await clock.advance(PAUSE);
  expect(begun).toEqual([0, 11 * PAUSE]);
  void renewals.now();
  await clock.advance(100);
  expect(begun).toHaveLength(2);
  end();
  await clock.advance(0);
  expect(begun).toEqual([0, 11 * PAUSE, 11 * PAUSE + 100]);
  // The time of the one that was put first has passed with it.
  end();
  await clock.advance(PAUSE);
  expect(begun.slice(3)).toEqual([12 * PAUSE + 100]);
});

test('a renewal that fails is told, and repeated when something else is due by then or not', async () => {
  const { clock, renewals, begun, errors, running } = bench();
  const asked = renewals.now();
  await clock.advance(0);
  const error = new Error('away');
  running.shift()?.reject(error);
  await asked;
  expect(errors).toEqual([{ error }]);
  await clock.advance(RETRY);
  expect(begun).toEqual([0, RETRY]);
});

test('whoever stops them waits for the one that is under way, and none begins after it', async () => {
  const { clock, renewals, begun, end } = bench();
  void renewals.now();
  await clock.advance(0);
  let isStopped = false;
  const stopped = renewals.stop().then(() => {
    isStopped = true;
  });
  void renewals.now();
  await clock.advance(10 * PAUSE);
  expect(isStopped).toBe(false);
  end();
  await stopped;
  await clock.advance(10 * PAUSE);
  expect(begun).toEqual([0]);
  expect(clock.pending).toBe(0);
});
