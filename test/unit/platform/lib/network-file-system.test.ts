import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { judgeFileSystem } from '../../../../src/admin/check-facts.ts';
import { nameOfShared, sharedFileSystemOf } from '../../../../src/platform/lib/network-file-system.ts';

it.each([
  ['NFS', 0x6969],
  ['CIFS', 0xff534d42],
  ['CIFS, as a number with a sign', -11_317_950],
  ['SMB', 0xfe534d42],
  ['9P', 0x01021997],
  ['FUSE', 0x65735546],
])('%s is shared by machines: check warns', (name, type) => {
  const shared = nameOfShared(type);
  expect(shared).toContain(name.split(',')[0]);
  expect(judgeFileSystem('/data', shared)).toMatchObject([
    {
      level: 'warning',
      subject: 'disk',
      message: expect.stringContaining('/data'),
      hint: expect.stringContaining('PostgreSQL'),
    },
  ]);
});

it.each([
  ['ext4', 0xef53],
  ['XFS', 0x58465342],
  ['Btrfs', 0x9123683e],
  ['tmpfs', 0x01021994],
  ['overlayfs', 0x794c7630],
  ['ZFS', 0x2fc12fc1],
])('%s is local', (_name, type) => {
  expect(nameOfShared(type)).toBeUndefined();
  expect(judgeFileSystem('/data', nameOfShared(type))).toEqual([]);
});

it('says nothing of a folder that is not there, or is local', () => {
  expect(sharedFileSystemOf('/there/is/no/such/folder')).toBeUndefined();
  expect(() => sharedFileSystemOf(tmpdir())).not.toThrow();
});
