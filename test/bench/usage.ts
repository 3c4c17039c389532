import { readFileSync } from 'node:fs';

/** What a process has used, as the kernel counts it. */
export interface Usage {
  /** Seconds of CPU, of all its threads. */
  readonly cpu: number;
  /** Bytes that it gave to the disk. */
  readonly written: number;
  /** Bytes in memory now. */
  readonly resident: number;
}

/** Of the clock that `/proc` counts in, a second: the same on every Linux. */
const TICKS = 100;

export function usageOf(pid: number): Usage {
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8');
  return {
    cpu: timesOf(pid).own,
    written: Number(/^write_bytes: (\d+)/m.exec(read('io'))?.[1]),
    resident: Number(/VmRSS:\s+(\d+) kB/.exec(read('status'))?.[1]) * 1_024,
  };
}

/** Seconds of CPU of a process, of its children, and of those of them that have ended. */
export function familyCpu(pid: number): number {
  const { own, ended } = timesOf(pid);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return own + ended + children.reduce((sum, child) => sum + livingCpu(Number(child)), 0);
}

/** Of one that may have ended since it was listed. */
function livingCpu(pid: number): number {
  try {
    return timesOf(pid).own;
  } catch {
    return 0;
  }
}

function timesOf(pid: number): { readonly own: number; readonly ended: number } {
  // Behind the name of the program, which may hold spaces: utime is the 12th from there, then stime, and both of ended children.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  const at = (place: number) => Number(fields[place]) / TICKS;
  return { own: at(11) + at(12), ended: at(13) + at(14) };
}
