import { existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { restore } from '../../../src/admin/data.ts';
import { daemonOptions } from '../../../src/platform/config/daemon-options.ts';
import { memoryFolder } from '../../../src/platform/lib/memory-folder.ts';
import { acquireDataFolder } from '../../../src/store/data-folder.ts';
import { refusal } from '../../support/rows/config-files.ts';

const NAME = `:memory:test-${process.pid}`;
const path = memoryFolder(NAME) as string;

afterEach(() => rmSync(path, { recursive: true, force: true }));

describe('a data folder in memory', () => {
  it('is a folder that commands find by the same option', () => {
    expect(daemonOptions({}, { WORKSYNC_DATA: NAME }).data).toBe(path);
    expect(daemonOptions({ data: NAME }, {}).data).toBe(path);
    expect(memoryFolder(':memory:')).not.toBe(path);
    expect(dirname(path)).toBe(process.platform === 'linux' ? '/dev/shm' : tmpdir());
    expect(refusal(() => daemonOptions({ data: ':memory:../x' }, {})).message).toContain('--data: expected a path');
  });

  it('is emptied at the start, and deleted at the end', () => {
    mkdirSync(join(path, 'worksync.files'), { recursive: true, mode: 0o700 });
    writeFileSync(join(path, 'worksync.db'), 'left');
    const folder = acquireDataFolder(path);
    expect(readdirSync(path)).toEqual(['worksync.lock']);
    expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(refusal(() => acquireDataFolder(path)).code).toBe('locked');
    writeFileSync(join(path, 'worksync.db'), 'mine');
    folder.release();
    expect(existsSync(path)).toBe(false);
  });

  it.each([
    ['a folder that others may read', () => mkdirSync(path, { mode: 0o755 })],
    ['a link', () => symlinkSync(tmpdir(), path)],
  ])('refuses %s in its place', (_what, make) => {
    make();
    expect(refusal(() => acquireDataFolder(path))).toMatchObject({
      code: 'data_folder_unusable',
      message: expect.stringContaining('not a folder of this user alone'),
    });
  });

  it('refuses a restore, which would be lost at the next start', async () => {
    await expect(restore({ data: path }, import.meta.filename)).rejects.toMatchObject({ code: 'usage' });
  });
});
