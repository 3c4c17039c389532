/**
 * How many of `total` workspaces the process `own` is to hold. Everybody reckons the same from the same list, and together they are
 * to hold each of them once.
 *
 * @param ids of all processes that live, in an order that is the same for everybody
 */
export function shareOf(total: number, ids: readonly string[], own: string): number {
  const rank = ids.indexOf(own);
  if (rank === -1) return 0;
  const even = Math.floor(total / ids.length);
  return rank < total % ids.length ? even + 1 : even;
}
