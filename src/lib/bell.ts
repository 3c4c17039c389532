/**
 * Wakes a stage when another has committed rows for it. It carries no data: the rows say what there is to do,
 * so a missed ring, or one too many, changes only the moment.
 */
export interface Bell {
  ring(): void;
  /**
   * Resolves at the next ring, or at once when it rang while nobody waited. Never rejects. One stage waits at a bell: a
   * new call takes the place of the one before, which then never resolves.
   */
  next(): Promise<void>;
}

export function createBell(): Bell {
  let rung = false;
  let wake: (() => void) | undefined;
  return {
    ring() {
      if (wake === undefined) {
        rung = true;
        return;
      }
      const call = wake;
      wake = undefined;
      call();
    },
    next() {
      if (rung) {
        rung = false;
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        wake = resolve;
      });
    },
  };
}
