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

/** Cuts a list into chunks of at most `most` elements, in order. */
export function* chunksOf<Each>(all: readonly Each[], most: number): Generator<readonly Each[]> {
  for (let at = 0; at < all.length; at += most) yield all.slice(at, at + most);
}

/** Runs all steps in order, also after one has failed. Throws the failures at the end. */
export async function doAll(steps: readonly (() => unknown)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  throwAll(failures);
}

/** Throws the failures of independent actions: a single one as it is, several as an `AggregateError`. */
export function throwAll(failures: readonly unknown[]): void {
  if (failures.length > 1) throw new AggregateError(failures, `${failures.length} things failed`);
  if (failures.length === 1) throw failures[0];
}
