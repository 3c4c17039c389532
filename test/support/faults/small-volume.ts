import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system of its own, for tests of full disks. */
export interface SmallVolume {
  readonly path: string;
  /** Takes all its space but `left` bytes. */
  fill(left?: number): void;
  free(): void;
  remove(): void;
}

const PAGE = 4_096;

export function mountSmallVolume(bytes: number): SmallVolume {
  const path = mkdtempSync(join(tmpdir(), 'worksync-volume-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', path], { stdio: 'ignore' });
  } catch (error) {
    rmSync(path, { recursive: true });
    throw error;
  }
  const ballast = join(path, 'ballast');
  return {
    path,
    fill(left = 0) {
      const file = openSync(ballast, 'w');
      try {
        for (;;) if (writeSync(file, Buffer.alloc(PAGE)) < PAGE) break;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      } finally {
        closeSync(file);
      }
      truncateSync(ballast, Math.max(0, statSync(ballast).size - left));
    },
    free: () => rmSync(ballast),
    remove() {
      execFileSync('umount', ['--lazy', path]);
      rmSync(path, { recursive: true, force: true });
    },
  };
}

/** Only root may mount, and not in every container. */
export const CAN_MOUNT = canMount();

function canMount(): boolean {
  if (process.getuid?.() !== 0) return false;
  try {
    mountSmallVolume(65_536).remove();
    return true;
  } catch {
    return false;
  }
}
