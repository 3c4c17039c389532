import type { Clock } from './clock.ts';

/** A correction of the clock by less does not count as set back, milliseconds. */
const LEAST = 1_000;

/**
 * Minds the wall clock: where it was set back since it was looked at before, what is dated by it would wait until the old time has come
 * again, so `redate` is called, and called again next time where it fails.
 *
 * @param isDue `redate` is called at the first look too: what is there may be dated by the clock of a process before
 * @returns what looks at the clock, and tells whether anything was dated anew
 */
export function onClockSetBack(
  clock: Pick<Clock, 'now' | 'monotonic'>,
  redate: () => Promise<void>,
  isDue = false,
): () => Promise<boolean> {
  const offsetNow = () => clock.now() - clock.monotonic();
  let offset = offsetNow();
  let isPending = isDue;
  return async () => {
    const before = offset;
    offset = offsetNow();
    isPending ||= offset < before - LEAST;
    if (!isPending) return false;
    await redate();
    isPending = false;
    return true;
  };
}
