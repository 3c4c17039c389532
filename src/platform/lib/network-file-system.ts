import { statfsSync } from 'node:fs';

/** By `f_type` of statfs(2), as Linux names them in `linux/magic.h` and in the file systems' own headers. */
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

/** What a file system of this type is called where other machines share it; undefined for a local one. */
export function nameOfShared(type: number): string | undefined {
  // Where the number has 32 bits and a sign.
  return NAMES.get(type >>> 0);
}

/**
 * The shared file system that a folder lies on; undefined for a local one, or where nobody can tell. SQLite needs locks and shared
 * memory that such file systems do not have, or have only at times: two processes may write at once, and damage the database.
 */
export function sharedFileSystemOf(folder: string): string | undefined {
  try {
    return process.platform === 'linux' ? nameOfShared(statfsSync(folder).type) : undefined;
  } catch {
    return undefined;
  }
}
