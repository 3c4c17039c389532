import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What a process did to the files of a folder, in order, as `recorder.c` writes it down. */
export type Change =
  | {
      readonly what: 'create' | 'unlink' | 'make-folder' | 'remove-folder';
      readonly path: string;
      readonly inode: number;
    }
  | { readonly what: 'rename' | 'link'; readonly path: string; readonly to: string }
  | { readonly what: 'write'; readonly inode: number; readonly offset: number; readonly bytes: Buffer }
  | { readonly what: 'truncate'; readonly inode: number; readonly size: number }
  | { readonly what: 'sync'; readonly inode: number }
  | { readonly what: 'sync-folder'; readonly path: string };

const HEAD = 32;
const NAMES = {
  1: 'create',
  2: 'write',
  3: 'truncate',
  4: 'sync',
  5: 'sync-folder',
  6: 'unlink',
  7: 'rename',
  8: 'make-folder',
  9: 'remove-folder',
  10: 'link',
} as const;

export function readRecord(file: string): readonly Change[] {
  const record = readFileSync(file);
  const changes: Change[] = [];
  for (let at = 0; at < record.length; ) {
    const first = record.readUInt32LE(at + 4);
    const second = record.readUInt32LE(at + 8);
    changes.push(changeOf(record.subarray(at, at + HEAD + first + second), first));
    at += HEAD + first + second;
  }
  return changes;
}

function changeOf(entry: Buffer, first: number): Change {
  const what = NAMES[entry.readUInt32LE(0) as keyof typeof NAMES];
  const inode = Number(entry.readBigUInt64LE(16));
  const place = Number(entry.readBigInt64LE(24));
  const bytes = entry.subarray(HEAD, HEAD + first);
  const path = bytes.toString();
  if (what === 'write') return { what, inode, offset: place, bytes };
  if (what === 'truncate') return { what, inode, size: place };
  if (what === 'sync') return { what, inode };
  if (what === 'sync-folder') return { what, path };
  if (what === 'rename' || what === 'link') return { what, path, to: entry.subarray(HEAD + first).toString() };
  return { what, path, inode };
}

/** The recorder, made by the compiler of this system. */
export interface Recorder {
  /** What a process is started with. @param cut the change before which it kills itself; 0: none */
  environment(recorded: { readonly folder: string; readonly record: string; readonly cut: number }): {
    readonly [name: string]: string;
  };
  remove(): void;
}

/** Undefined where there is no compiler, or the system does not load programs as Linux does. */
export function makeRecorder(): Recorder | undefined {
  if (process.platform !== 'linux') return undefined;
  const scratch = mkdtempSync(join(tmpdir(), 'worksync-recorder-'));
  const library = join(scratch, 'recorder.so');
  try {
    const source = join(import.meta.dirname, 'recorder.c');
    execFileSync('cc', ['-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', library, source, '-ldl', '-lpthread']);
  } catch (error) {
    rmSync(scratch, { recursive: true });
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  return {
    environment: ({ folder, record, cut }) => ({
      LD_PRELOAD: library,
      POWER_FOLDER: folder,
      POWER_LOG: record,
      POWER_CUT: String(cut),
    }),
    remove: () => rmSync(scratch, { recursive: true }),
  };
}
