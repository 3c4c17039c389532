import { fullest, WINDOWS } from './references/windows.ts';
import type { Server } from './server.ts';

/** A figure reached by exceeding a window is none. Every arrival counts, also those of requests that nobody awaited. */
export function expectWithinWindows({ arrivals, refused }: Server): void {
  if (refused > 0) throw new Error(`${refused} requests were refused`);
  for (const { cap, length } of WINDOWS) {
    const most = fullest(arrivals, length);
    if (most > cap) throw new Error(`${most} requests arrived within ${length} s`);
  }
}
