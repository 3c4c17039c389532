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
  // Behind the name of the program, which may hold spaces: utime and stime are the 12th and 13th from there.
  const fields = read('stat').split(') ')[1]?.split(' ') ?? [];
  return {
    cpu: (Number(fields[11]) + Number(fields[12])) / TICKS,
    written: Number(/^write_bytes: (\d+)/m.exec(read('io'))?.[1]),
    resident: Number(/VmRSS:\s+(\d+) kB/.exec(read('status'))?.[1]) * 1_024,
  };
}
