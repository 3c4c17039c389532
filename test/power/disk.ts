import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/**
 * A disk as a power failure may leave it.
 *
 * Synchronised changes are there. Any part of all others may be: of each file the blocks that were written since its last
 * sync, each as it was at some moment since, and a length that it had; of each folder the names that changed since its last sync.
 * A write does not harm the bytes beside it, and a rename happens or does not: SQLite and every journaling file system count on
 * that. What is mapped into memory (`-shm`) comes back as anything.
 */
export interface Disk {
  /** Path → content. */
  readonly files: ReadonlyMap<string, Buffer>;
  readonly folders: ReadonlySet<string>;
}

/** How much of what was not synchronised is there. */
export const MANNERS = ['nothing', 'everything', 'sectors', 'pages', 'writes'] as const;
export type Manner = (typeof MANNERS)[number];

/** 0 or more, and less than 1. */
export type Chance = () => number;

type Content = Extract<Change, { what: 'write' | 'truncate' }>;
type Naming = Exclude<Change, Content | { what: 'sync' | 'sync-folder' }>;

interface File {
  /** The content at its last sync; with room behind it that this file alone uses. */
  durable: Buffer;
  pending: Content[];
}

/** A name of a file, or of a folder. */
type Entry = File | 'folder';

/** The disk before the recorded process began: all of it is durable. */
export interface Before {
  readonly files: readonly { readonly path: string; readonly inode: number; readonly content: Buffer }[];
  readonly folders: readonly string[];
}

export function readBefore(folder: string): Before {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path, inode: statSync(path).ino, content: readFileSync(path) }));
  const folders = entries.filter((entry) => entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name));
  return { files, folders };
}

/** Plays what was recorded, and draws what of it the disk has. */
export function diskAfter(before: Before, changes: readonly Change[], manner: Manner, chance: Chance): Disk {
  const inodes = new Map<number, File>();
  const names = new Map<string, Entry>();
  for (const { path, inode, content } of before.files) {
    const file: File = {
      durable: replayed(emptyFile(), [{ what: 'write', inode, offset: 0, bytes: content }]),
      pending: [],
    };
    inodes.set(inode, file);
    names.set(path, file);
  }
  for (const path of before.folders) names.set(path, 'folder');
  const namings: { readonly naming: Naming; readonly file: File | undefined }[] = [];
  for (const change of changes) {
    if (change.what === 'sync') sync(inodes.get(change.inode));
    else if (change.what === 'write' || change.what === 'truncate') inodes.get(change.inode)?.pending.push(change);
    else if (change.what === 'sync-folder') {
      const isIn = ({ naming }: (typeof namings)[number]) =>
        pathsOf(naming).some((path) => dirname(path) === change.path);
      for (const each of namings.filter(isIn)) rename(names, each.naming, each.file);
      namings.splice(0, namings.length, ...namings.filter((each) => !isIn(each)));
    } else {
      const file: File | undefined = change.what === 'create' ? { durable: emptyFile(), pending: [] } : undefined;
      if (change.what === 'create' && file) inodes.set(change.inode, file);
      namings.push({ naming: change, file });
    }
  }
  for (const { naming, file } of drawnNames(namings, manner, chance)) rename(names, naming, file);
  return contentOf(names, manner, chance);
}

function sync(file: File | undefined): void {
  if (!file) return;
  file.durable = replayed(file.durable, file.pending);
  file.pending = [];
}

/** With a memory of its own: small buffers share one. */
function emptyFile(): Buffer {
  return Buffer.from(new ArrayBuffer(0));
}

/** In place where there is room: a file is synchronised hundreds of times. */
function replayed(durable: Buffer, changes: readonly Content[]): Buffer {
  let content = durable;
  for (const change of changes) {
    const size = sizeAfter(content.length, change);
    const grown = within(content, size);
    if (size > content.length) grown.fill(0, content.length);
    if (change.what === 'write') change.bytes.copy(grown, change.offset);
    content = grown;
  }
  return content;
}

/** Returns the bytes with another length, copied if the buffer is too small. */
function within(content: Buffer, size: number): Buffer {
  const room = content.buffer.byteLength - content.byteOffset;
  if (size <= room) return Buffer.from(content.buffer, content.byteOffset, size);
  const moved = Buffer.from(new ArrayBuffer(2 * size), 0, size);
  content.copy(moved);
  return moved;
}

function applied(content: Buffer, change: Content): Buffer {
  if (change.what === 'truncate') return resized(content, change.size);
  const result = resized(content, Math.max(content.length, change.offset + change.bytes.length));
  change.bytes.copy(result, change.offset);
  return result;
}

/** A copy. */
function resized(content: Buffer, size: number): Buffer {
  const result = Buffer.alloc(size);
  content.copy(result, 0, 0, Math.min(size, content.length));
  return result;
}

function pathsOf(naming: Naming): readonly string[] {
  return naming.what === 'rename' || naming.what === 'link' ? [naming.path, naming.to] : [naming.path];
}

function rename(names: Map<string, Entry>, naming: Naming, file: File | undefined): void {
  const { what, path } = naming;
  if (what === 'create') names.set(path, file as File);
  else if (what === 'make-folder') names.set(path, 'folder');
  else if (what === 'rename' || what === 'link') {
    const moved = names.get(path);
    if (what === 'rename') names.delete(path);
    if (moved) names.set(naming.to, moved);
  } else names.delete(path);
}

/** Names that a rename or a link joins change together, in order and up to some point; others in any order. */
function drawnNames<Each extends { readonly naming: Naming }>(
  namings: readonly Each[],
  manner: Manner,
  chance: Chance,
): readonly Each[] {
  if (manner === 'nothing') return [];
  if (manner === 'everything') return namings;
  // A journal brings them in order, up to some moment.
  if (chance() < 0.5) return namings.slice(0, Math.floor(chance() * (namings.length + 1)));
  const groups: { readonly paths: Set<string>; readonly members: Each[] }[] = [];
  for (const each of namings) {
    const joined = groups.filter(({ paths }) => pathsOf(each.naming).some((path) => paths.has(path)));
    const rest = groups.filter((group) => !joined.includes(group));
    const paths = new Set([...joined.flatMap((group) => [...group.paths]), ...pathsOf(each.naming)]);
    groups.splice(0, groups.length, ...rest, { paths, members: [...joined.flatMap(({ members }) => members), each] });
  }
  const kept = new Set(groups.flatMap(({ members }) => members.slice(0, Math.floor(chance() * (members.length + 1)))));
  return namings.filter((each) => kept.has(each));
}

/** Nothing is reached whose folder is not there. */
function contentOf(names: ReadonlyMap<string, Entry>, manner: Manner, chance: Chance): Disk {
  const files = new Map<string, Buffer>();
  const folders = new Set([...names].filter(([, entry]) => entry === 'folder').map(([path]) => path));
  for (const [path, file] of names) {
    if (file === 'folder') continue;
    if (!path.endsWith('-shm')) files.set(path, remains(file, manner, chance));
    else if (chance() < 0.5) files.set(path, Buffer.alloc(32_768, Math.floor(chance() * 256)));
  }
  return { files, folders };
}

function remains({ durable, pending }: File, manner: Manner, chance: Chance): Buffer {
  if (manner === 'nothing' || pending.length === 0) return durable;
  if (manner === 'everything') return pending.reduce(applied, durable);
  if (manner === 'writes')
    return shuffled(
      pending.filter(() => chance() < 0.5),
      chance,
    ).reduce(applied, durable);
  return torn({ durable, pending }, manner === 'sectors' ? 512 : 4_096, chance);
}

/** Each block as it was after some of the changes, and the length likewise: where nothing was written yet, there are zeros. */
function torn({ durable, pending }: File, block: number, chance: Chance): Buffer {
  const moment = () => {
    const drawn = chance();
    // The ends are likelier than chance has them: blocks that are old beside others that are new.
    if (drawn < 0.4) return 0;
    return drawn < 0.7 ? pending.length : Math.floor(chance() * (pending.length + 1));
  };
  let size = durable.length;
  for (const change of pending.slice(0, moment())) size = sizeAfter(size, change);
  const touched = new Set(pending.flatMap((change) => blocksOf(change, Math.max(size, durable.length), block)));
  const result = resized(durable, size);
  for (const index of touched) {
    const [from, to] = [index * block, Math.min((index + 1) * block, size)];
    if (from >= size) continue;
    const piece = resized(durable.subarray(Math.min(from, durable.length), to), to - from);
    for (const change of pending.slice(0, moment())) overwrite(piece, from, change);
    piece.copy(result, from);
  }
  return result;
}

function sizeAfter(size: number, change: Content): number {
  return change.what === 'truncate' ? change.size : Math.max(size, change.offset + change.bytes.length);
}

function blocksOf(change: Content, size: number, block: number): number[] {
  const from = change.what === 'truncate' ? change.size : change.offset;
  const to = change.what === 'truncate' ? size : change.offset + change.bytes.length;
  const first = Math.floor(from / block);
  return Array.from({ length: Math.max(0, Math.ceil(to / block) - first) }, (_, index) => first + index);
}

function overwrite(piece: Buffer, from: number, change: Content): void {
  if (change.what === 'truncate') {
    piece.fill(0, Math.min(piece.length, Math.max(0, change.size - from)));
    return;
  }
  const start = Math.max(change.offset, from);
  const end = Math.min(change.offset + change.bytes.length, from + piece.length);
  if (start < end) change.bytes.copy(piece, start - from, start - change.offset, end - change.offset);
}

function shuffled<Each>(all: readonly Each[], chance: Chance): readonly Each[] {
  return all
    .map((each) => ({ each, key: chance() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ each }) => each);
}

/** Puts the disk in the place of the folder, or somewhere else. */
export function lay(disk: Disk, folder: string, place = folder): void {
  rmSync(place, { recursive: true, force: true });
  if (!disk.folders.has(folder)) return;
  const isReached = (path: string): boolean => path === folder || (disk.folders.has(path) && isReached(dirname(path)));
  const all = [...disk.folders].filter(isReached).toSorted((a, b) => a.length - b.length);
  const placed = (path: string) => place + path.slice(folder.length);
  for (const path of all) mkdirSync(placed(path), { mode: 0o700 });
  for (const [path, content] of disk.files) {
    if (all.includes(dirname(path))) writeFileSync(placed(path), content, { mode: 0o600 });
  }
}

/** The changes of a process to the files of a folder, in order, as `recorder.c` records them. */
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

export interface Recorder {
  /** The environment of the recorded process. @param cut the change before which it kills itself; 0 for none */
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
