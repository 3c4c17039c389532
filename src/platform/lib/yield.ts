import type { Clock } from './clock.ts';

/** Resolves when the event loop has handled everything that is ready now. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Turns of the event loop that a request takes: to accept its connection, to read its bytes, and to answer it. */
const TURNS_OF_REQUEST = 10;

/** Lets waiting requests finish, between two pieces of work that take many milliseconds. */
export async function yieldForRequests(): Promise<void> {
  for (let turn = 0; turn < TURNS_OF_REQUEST; turn++) await yieldToEventLoop();
}

/** The number of elements that are processed at once, so that other work does not wait long. */
export type AdaptiveBatchSize = ReturnType<typeof createAdaptiveBatchSize>;

/** Duration of one batch, milliseconds of the wall clock: half of the longest wait of other work. */
const AIM = 20;
/** Largest growth of the size after a batch that took much less. */
const GROWTH = 1.5;

/** Begins with the smallest size, because the cost of an element is not known yet. */
export function createAdaptiveBatchSize(
  clock: Clock,
  { least, most }: { readonly least: number; readonly most: number },
) {
  let size = least;

  function adapt(taken: number, milliseconds: number): void {
    const fitting = (taken * AIM) / Math.max(milliseconds, 0.01);
    // A batch that was not full shows little about the cost of a larger one.
    if (fitting > size && taken < size / 2) return;
    size = Math.round(Math.min(Math.max(fitting, least), size * GROWTH, most));
  }

  return {
    size: () => size,
    /** Runs the work on `taken` elements; its duration decides on the next size. */
    async work<Result>(taken: number, work: () => Promise<Result>): Promise<Result> {
      const begin = clock.monotonic();
      const result = await work();
      adapt(taken, clock.monotonic() - begin);
      return result;
    },
  };
}

/** Bytes that take the main thread some milliseconds: another thread handles anything larger. */
export const LARGE = 1024 * 1024;

/** Cuts a list into pieces of at most `most` elements, in order. */
export function* piecesOf<Each>(all: readonly Each[], most: number): Generator<readonly Each[]> {
  for (let at = 0; at < all.length; at += most) yield all.slice(at, at + most);
}

/**
 * Merges the reads of several callers into one. `load` is called once all callers wait, and stores its result itself. If it throws,
 * all callers reject.
 */
export function createDataLoader<Wanted>(
  load: (wanted: readonly Wanted[]) => Promise<void>,
): (wanted: Iterable<Wanted>) => Promise<void> {
  let next: { readonly wanted: Set<Wanted>; readonly done: Promise<void> } | undefined;

  function begin() {
    const wanted = new Set<Wanted>();
    const done = promisesSettled().then(() => {
      next = undefined;
      return load([...wanted]);
    });
    return { wanted, done };
  }

  return (wanted) => {
    next ??= begin();
    for (const each of wanted) next.wanted.add(each);
    return next.done;
  };
}

/** Waits until all settled promises have run their continuations: ticks come after promises. */
function promisesSettled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
