/**
 * Merges the reads of several callers into one: `load` is called when no caller that could still ask has anything else to do. It
 * stores its result itself; if it throws, it rejects all callers.
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

/** Waits until all promises that need nothing from outside have run: ticks come after promises. */
function promisesSettled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
