import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Memory, where there is a folder of it: nothing here outlives the run, and a disk would take most of its time. */
const MEMORY = '/dev/shm';

export function makeFolder(): string {
  return mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'worksync-sim-'));
}
