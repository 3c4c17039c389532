/**
 * Tells which unknown task keys may be worth a read of the task list. Keys are numbered upwards per prefix, so an
 * unknown key whose number lies above the highest one cached may be a new task; one below it never was a task or is
 * gone; and a prefix that no task has (`UTF-8`, `CVE-2026`) is none of ours. Unknown keys thus mostly cost nothing.
 */
export interface KeyHorizon {
  mayBeNew(taskKey: string): boolean;
}

/** Prefixes of the workspace's own kinds (W30): they count before the first task of that kind exists. */
const OWN_PREFIXES = ['BUG', 'IDEA'];

export function keyHorizon(taskKeys: Iterable<string>): KeyHorizon {
  const highest = new Map<string, number>(OWN_PREFIXES.map((prefix) => [prefix, 0]));
  for (const taskKey of taskKeys) {
    const [prefix, number] = split(taskKey);
    highest.set(prefix, Math.max(highest.get(prefix) ?? 0, number));
  }
  return {
    mayBeNew(taskKey) {
      const [prefix, number] = split(taskKey);
      return number > (highest.get(prefix) ?? Number.POSITIVE_INFINITY);
    },
  };
}

function split(taskKey: string): [prefix: string, number: number] {
  const at = taskKey.lastIndexOf('-');
  return [taskKey.slice(0, at), Number(taskKey.slice(at + 1))];
}
