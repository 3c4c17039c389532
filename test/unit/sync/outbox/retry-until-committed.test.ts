import { expect, test } from 'vitest';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { backoffAfterDbError, retryUntilCommitted } from '../../../../src/sync/outbox/recovery.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

/** Work that the database does not take so often, and when it was tried. */
function bench(failures: number) {
  const clock = createTravellingClock();
  const tries: number[] = [];
  const deps = { clock, logger: silentLogger, random: { ...systemRandom(), float: () => 1 } };
  const work = async () => {
    tries.push(clock.elapsed());
    if (tries.length <= failures) throw new Error('the disk is full');
  };
  return { clock, tries, deps, work };
}

test('what the database does not take is repeated after pauses until it does, and only then is it over', async () => {
  const { clock, tries, deps, work } = bench(2);
  let isOver = false;
  const stored = retryUntilCommitted(deps, work, new AbortController().signal).then(() => {
    isOver = true;
  });
  await clock.until(() => tries.length === 2);
  expect(isOver).toBe(false);
  await clock.advance(4_000);
  await stored;
  expect(tries).toEqual([0, 4_000, 8_000]);
  expect(clock.pending).toBe(0);
});

test('whoever stops ends the pause, and nothing is tried again', async () => {
  const { clock, tries, deps, work } = bench(9);
  const stopping = new AbortController();
  const stored = retryUntilCommitted(deps, work, stopping.signal);
  await clock.advance(1_000);
  stopping.abort();
  await stored;
  expect(tries).toEqual([0]);
});

test('a pause lasts as long as it says', async () => {
  const { clock, deps } = bench(0);
  let isOver = false;
  void backoffAfterDbError(deps, new Error('the disk is full'), new AbortController().signal).then(() => {
    isOver = true;
  });
  await clock.advance(3_999);
  expect(isOver).toBe(false);
  await clock.advance(1);
  expect(isOver).toBe(true);
});
