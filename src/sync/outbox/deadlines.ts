/** At most so many requests start within `hold` milliseconds. */
export interface Pace {
  readonly slots: number;
  readonly hold: number;
}

/** A request takes some time, and others come meanwhile: so much earlier than needed, milliseconds. */
const MARGIN = 2_000;

/** What came within this time is expected to go on coming, so many times as much. Milliseconds. */
const LATELY = 30_000;
const GOES_ON = 3;

/**
 * The due times to plan with: the known ones, and those of a burst that goes on. A release adds labels for minutes; waiting
 * until all of them are known would start too late.
 *
 * @param dues when each is due, ascending
 * @param latest when a change would be due that came now
 */
export function forecastDueTimes(dues: readonly number[], latest: number): number[] {
  const lately = dues.filter((due) => due > latest - LATELY && due <= latest).length;
  const gap = LATELY / lately;
  return [...dues, ...Array.from({ length: lately * GOES_ON }, (_, index) => latest + (index + 1) * gap)];
}

/**
 * By how much the first of these must go ahead of its due time, so that all of them can go in time: where more are due
 * within a window than it takes, the slot of the first must be free again when the last is due. Whole milliseconds.
 *
 * @param dues when each is due, ascending
 */
export function leadTime(dues: readonly number[], paces: readonly Pace[]): number {
  const latest = [...dues];
  for (let index = latest.length - 1; index >= 0; index--) {
    for (const { slots, hold } of paces) {
      const reuses = latest[index + slots];
      if (reuses !== undefined) latest[index] = Math.min(latest[index] as number, reuses - hold - MARGIN);
    }
  }
  const [due] = dues;
  // Expected times lie between milliseconds, and those of rows do not.
  return due === undefined ? 0 : Math.ceil(due - (latest[0] as number));
}
