/**
 * Wakes a stage when another has committed rows for it. It carries no data: what there is to do stands in the rows,
 * so a ring that is missed, or one too many, changes nothing but the moment.
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
