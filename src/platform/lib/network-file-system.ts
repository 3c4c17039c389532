import { statfsSync } from 'node:fs';

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
export function nameOfShared(type: number): string | undefined {
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
