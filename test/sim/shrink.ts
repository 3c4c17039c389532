/** More tries than this gain little. */
const MOST_TRIES = 120;

/**
 * Fewer of these places with which it still fails: leaves out halves, then quarters, and so on down to single ones.
 *
 * @param fails plays what is left
 */
export async function shrink(
  places: readonly number[],
  fails: (places: readonly number[]) => Promise<boolean>,
): Promise<readonly number[]> {
  let left = places;
  let tries = 0;
  for (let size = Math.ceil(left.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < left.length && tries < MOST_TRIES; ) {
      const fewer = left.filter((_, index) => index < from || index >= from + size);
      tries++;
      if (await fails(fewer)) left = fewer;
      else from += size;
    }
  }
  return left;
}
