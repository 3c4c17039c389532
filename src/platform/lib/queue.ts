/** One at a time, in the order in which they came. What waiting costs does not grow with the number of those who wait. */
export interface Queue {
  /** Resolves when it is the caller's turn, which lasts until it leaves. */
  enter(): Promise<void>;
  leave(): void;
}

export function createQueue(): Queue {
  /** The waiting callers, from `first` on: those before it have had their turn. */
  let waiting: (() => void)[] = [];
  let first = 0;
  let isTaken = false;

  /** The part that is done is dropped when it is the larger one, so that a turn costs the same however long the line is. */
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
    enter() {
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
