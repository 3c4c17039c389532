export type ConnectionQueue = ReturnType<typeof createConnectionQueue>;

/** Admits callers to a connection one at a time, in the order of their arrival. The cost of a turn does not grow with their number. */
export function createConnectionQueue() {
  /** The waiting callers, from `first` on. Those before `first` are done. */
  let waiting: (() => void)[] = [];
  let first = 0;
  let isTaken = false;

  /** Drops the finished part only when it is the larger one, so that the cost of a turn stays constant. */
  function next(): (() => void) | undefined {
    const call = waiting[first];
    if (call === undefined) return undefined;
    first += 1;
    if (first * 2 < waiting.length) return call;
    waiting = waiting.slice(first);
    first = 0;
    return call;
  }

  return {
    /** Resolves at the caller's turn, which lasts until `leave`. */
    enter(): Promise<void> {
      if (!isTaken) {
        isTaken = true;
        return Promise.resolve();
      }
      return new Promise((resolve) => waiting.push(resolve));
    },
    leave() {
      const call = next();
      isTaken = call !== undefined;
      call?.();
    },
  };
}
