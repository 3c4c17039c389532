import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const PRLIMIT = '/usr/bin/prlimit';

export const CAN_LIMIT_FILES = existsSync(PRLIMIT);

/**
 * A disk that does not write, as far as this process can tell: the kernel refuses what lies beyond so many bytes of a file,
 * and SQLite calls that an I/O error.
 */
export function limitFiles(bytes: number | 'unlimited'): void {
  execFileSync(PRLIMIT, ['--pid', String(process.pid), `--fsize=${bytes}:unlimited`]);
}
