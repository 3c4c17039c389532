import { existsSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';

/** Of Linux; small in some containers. */
const MEMORY = '/dev/shm';
/** Bytes: many times what the files of a run take at once. */
const AMPLE = 2 * 1024 ** 3;

/**
 * The folder for what tests write: memory, where there is enough of it. They end processes and no machines, nothing here outlives
 * its test, and a disk would take half of the time of whatever commits.
 */
export function folderOfTests(): string {
  if (!existsSync(MEMORY)) return tmpdir();
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize >= AMPLE ? MEMORY : tmpdir();
}
