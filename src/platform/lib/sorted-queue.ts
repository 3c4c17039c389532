/** Entries that wait for their time, the earliest first; those of one time in the order of their arrival. */
export interface SortedQueue<Entry extends { readonly due: number }> {
  first(): Entry | undefined;
  /** `due` must not change while the entry stands here. */
  add(entry: Entry): void;
  /** Harmless where it does not stand here. */
  remove(entry: Entry): void;
  all(): readonly Entry[];
}

export function createSortedQueue<Entry extends { readonly due: number }>(): SortedQueue<Entry> {
  const entries: Entry[] = [];

  /** Where the first entry stands that is due later, or at the same time too where `from` says so. */
  function place(due: number, from: boolean): number {
    let low = 0;
    for (let high = entries.length; low < high; ) {
      const middle = (low + high) >> 1;
      const at = (entries[middle] as Entry).due;
      if (at < due || (at === due && !from)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  return {
    first: () => entries[0],
    add(entry) {
      entries.splice(place(entry.due, false), 0, entry);
    },
    remove(entry) {
      const at = entries.indexOf(entry, place(entry.due, true));
      if (at !== -1) entries.splice(at, 1);
    },
    all: () => [...entries],
  };
}
