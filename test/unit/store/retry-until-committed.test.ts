import { expect, test } from 'vitest';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { backoffAfterDbError, retryUntilCommitted } from '../../../src/store/retry-until-committed.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';

/** Work that fails so often before it commits, and the times of its attempts. */
function failingWork(failures: number) {
  const clock = createTravellingClock();
  const tries: number[] = [];
  const deps = { clock, logger: silentLogger, random: { ...systemRandom(), float: () => 1 } };
  const work = async () => {
    tries.push(clock.elapsed());
    if (tries.length <= failures) throw new Error('the disk is full');
  };
  return { clock, tries, deps, work };
}

test('retryUntilCommitted repeats work after pauses and resolves after its commit', async () => {
  const { clock, tries, deps, work } = failingWork(2);
  let isOver = false;
  const committed = retryUntilCommitted(deps, work, new AbortController().signal).then(() => {
    isOver = true;
  });
  await clock.until(() => tries.length === 2);
  expect(isOver).toBe(false);
  await clock.advance(4_000);
  await committed;
  expect(tries).toEqual([0, 4_000, 8_000]);
  expect(clock.pending).toBe(0);
});

test('retryUntilCommitted ends its pause and stops when the signal aborts', async () => {
  const { clock, tries, deps, work } = failingWork(9);
  const stopping = new AbortController();
  const committed = retryUntilCommitted(deps, work, stopping.signal);
  await clock.advance(1_000);
  stopping.abort();
  await committed;
  expect(tries).toEqual([0]);
});

test('backoffAfterDbError waits for the whole pause', async () => {
  const { clock, deps } = failingWork(0);
  let isOver = false;
  void backoffAfterDbError(deps, new Error('the disk is full'), new AbortController().signal).then(() => {
    isOver = true;
  });
  await clock.advance(3_999);
  expect(isOver).toBe(false);
  await clock.advance(1);
  expect(isOver).toBe(true);
});
