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
