/** CPU time that the work takes of this thread, milliseconds. Other processes on the machine hardly change it. */
export function cpuTimeOf(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** CPU time of the quickest of some tries, to the microsecond, so that delays of the machine do not count. */
export function quickestOf(tries: number, work: () => unknown): number {
  const times = Array.from({ length: tries }, () => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...times);
}
