import { closeSync, fsyncSync, openSync, statfsSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** The `f_type` of statfs(2), as Linux names it in `linux/magic.h` and in the file systems' own headers. */
const NAMES: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB'],
  [0x517b, 'SMB'],
  [0x01021997, '9P'],
  [0x5346414f, 'AFS'],
  [0x6b414653, 'AFS'],
  [0x73757245, 'Coda'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
  [0x786f4256, 'a shared folder of VirtualBox'],
  [0x65735546, 'FUSE, as of sshfs, of cloud storage and of shared folders'],
]);

/** Returns the name of a type of file system that other machines share; undefined for a local one. */
function nameOfShared(type: number): string | undefined {
  // The number may be a signed one of 32 bits.
  return NAMES.get(type >>> 0);
}

/**
 * Returns the shared file system of a folder; undefined for a local or an unknown one. SQLite needs locks and shared memory that
 * such file systems lack at least at times: two processes may write at once, and damage the database.
 */
export function sharedFileSystemOf(folder: string): string | undefined {
  try {
    return process.platform === 'linux' ? nameOfShared(statfsSync(folder).type) : undefined;
  } catch {
    return undefined;
  }
}

const FORM = /^:memory:([a-z0-9-]{0,32})$/;
const PREFIX = 'worksync-memory-';

/**
 * Returns the folder of `:memory:`, or of `:memory:name` if several are needed; undefined for any other text. Each user has a folder
 * of their own, which a daemon and the commands beside it share. On Linux it is in memory.
 */
export function memoryFolder(text: string): string | undefined {
  const name = FORM.exec(text)?.[1];
  if (name === undefined) return undefined;
  return join(placeOf(), [`${PREFIX}${process.getuid?.() ?? 'user'}`, name].filter(Boolean).join('-'));
}

/** Whether the content of this folder ends with the process that owns it. */
export function isMemoryFolder(path: string): boolean {
  return dirname(path) === placeOf() && path.includes(`/${PREFIX}`);
}

function placeOf(): string {
  return statSync('/dev/shm', { throwIfNoEntry: false })?.isDirectory() ? '/dev/shm' : tmpdir();
}

/** Makes the names in a folder durable. Until then a power failure may revert that a file was created or renamed. */
export function syncFolder(folder: string): void {
  const opened = openSync(folder, 'r');
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}
