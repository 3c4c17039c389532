/** What the work takes of this thread, milliseconds: a figure that other processes on the machine do not change much. */
export function cpuTimeOf(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** The same of the quickest of some tries, to the microsecond: what only the machine made slow does not count. */
export function quickestOf(tries: number, work: () => unknown): number {
  const times = Array.from({ length: tries }, () => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...times);
}
