/**
 * Gathers what several callers ask for into one look: `load` is called once nobody who could still ask has anything else to do.
 * It keeps what it finds itself; where it throws, all who asked for it are told.
 */
export function createGatherer<Wanted>(
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

/** Until all that can go on without the outside has gone on: ticks come after promises. */
function promisesSettled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
