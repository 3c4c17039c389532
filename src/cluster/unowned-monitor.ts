/** Notices workspaces that nobody holds, though somebody should. */
export interface UnownedMonitor {
  /** Whether it is time for another look. */
  isDue(): boolean;
  /** What a look found. Workspaces by their numbers. */
  saw(free: readonly number[]): void;
  /** Those that nobody held at two looks in a row or more, and for how many milliseconds. */
  unheld(): ReadonlyMap<number, number>;
}

/** Between two looks, milliseconds. A lease that moves is without a holder for less. */
const EVERY = 10_000;

/** @param passed milliseconds by a clock that nobody sets */
export function createUnownedMonitor(passed: () => number): UnownedMonitor {
  let since = new Map<number, number>();
  let noteReevaluated = passed();
  return {
    isDue: () => passed() - noteReevaluated >= EVERY,
    saw(free) {
      noteReevaluated = passed();
      since = new Map(free.map((workspace) => [workspace, since.get(workspace) ?? noteReevaluated]));
    },
    unheld() {
      const seenAgain = [...since].filter(([, first]) => first < noteReevaluated);
      return new Map(seenAgain.map(([workspace, first]) => [workspace, passed() - first]));
    },
  };
}
