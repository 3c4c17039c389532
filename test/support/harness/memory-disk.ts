import { readFileSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';

/** Folder in memory of Linux; small in some containers. */
const MEMORY = '/dev/shm';
/** Bytes: many times what the files of a run take at once. */
const AMPLE = 2 * 1024 ** 3;

/**
 * The folder for what tests write: memory, where there is enough of it. They end processes and no machines, nothing here outlives
 * its test, and a disk would take half of the time of whatever commits.
 */
export function folderOfTests(): string {
  if (!runsPrograms(MEMORY)) return tmpdir();
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize >= AMPLE ? MEMORY : tmpdir();
}

/** Some tests build a library and load it. */
function runsPrograms(folder: string): boolean {
  if (process.platform !== 'linux') return false;
  const mount = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .find(([, at]) => at === folder);
  return mount !== undefined && !mount[3]?.split(',').includes('noexec');
}
