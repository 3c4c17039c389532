import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, type Stats, statSync } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { MEBIBYTE } from './quantities.ts';

/**
 * Reads files at paths that people choose: configuration, secrets, uploads. Reads only regular files, because a pipe or a device may
 * block or never end. All functions throw `FileFault`.
 */
export interface Files {
  /** Returns undefined if there is nothing at the path. */
  stat(path: string): FileStats | undefined;
  /** Returns the names in a folder. */
  list(folder: string): readonly string[];
  /** @param largest size, bytes */
  read(path: string, largest: number): FileContent;
}

/** Reads files without blocking the thread. */
export interface AsyncFiles {
  stat(path: string): Promise<FileStats | undefined>;
  list(folder: string): Promise<readonly string[]>;
  read(path: string, largest: number): Promise<FileContent>;
}

export interface FileStats {
  readonly kind: 'file' | 'folder' | 'other';
  readonly size: number;
  readonly mode: number;
  readonly uid: number;
  /** Changes with the file. */
  readonly version: string;
}

export interface FileContent {
  readonly bytes: Buffer;
  readonly stats: FileStats;
}

/** A file cannot be read. */
export class FileFault extends Error {
  /** A code of the system, such as `ENOENT`, or one of `OWN_CODES`. The message of an own code continues the name of the file. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }

  /** Returns the message about the file at this path. */
  about(path: string): string {
    return OWN_CODES.has(this.code) ? `${path} ${this.message}` : `cannot read ${path} (${this.code})`;
  }
}

const OWN_CODES: ReadonlySet<string> = new Set(['not_regular', 'too_large', 'not_answered', 'not_read']);

/** `O_NONBLOCK`: opening a pipe would wait for its writer. `O_NOCTTY`: a terminal must not become that of the process. */
const READ_ONLY = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
const CHUNK_BYTES = 65_536;

/** Reads in this thread, for commands, which have no other work meanwhile. */
export const diskFiles: Files = {
  stat: (path) => attempt(() => statsOf(statSync(path, { throwIfNoEntry: false }))),
  list: (folder) => attempt(() => readdirSync(folder)),
  read: (path, largest) => attempt(() => readNow(path, largest)),
};

/** Reads in libuv's threads. */
export const asyncDiskFiles: AsyncFiles = {
  stat: (path) => attemptAsync(async () => statsOf(await statIfPresent(path))),
  list: (folder) => attemptAsync(() => readdir(folder)),
  read: (path, largest) => attemptAsync(() => readAsync(path, largest)),
};

function readNow(path: string, largest: number): FileContent {
  // Opening a device may have an effect on it.
  refuseUnreadable(statSync(path), largest);
  const handle = openSync(path, READ_ONLY);
  try {
    const content = new Content(refuseUnreadable(fstatSync(handle), largest), largest);
    while (content.add(readSync(handle, content.chunk)));
    return content.whole();
  } finally {
    closeSync(handle);
  }
}

async function readAsync(path: string, largest: number): Promise<FileContent> {
  refuseUnreadable(await stat(path), largest);
  const handle = await open(path, READ_ONLY);
  try {
    const content = new Content(refuseUnreadable(await handle.stat(), largest), largest);
    while (content.add((await handle.read(content.chunk)).bytesRead));
    return content.whole();
  } finally {
    await handle.close();
  }
}

/** The bytes read so far. The size of a file cannot be trusted: a file may grow, and those of `/proc` report none. */
class Content {
  readonly #stats: Stats;
  readonly #largest: number;
  readonly #chunks: Buffer[] = [];
  #length = 0;
  chunk = Buffer.allocUnsafe(CHUNK_BYTES);

  constructor(stats: Stats, largest: number) {
    this.#stats = stats;
    this.#largest = largest;
  }

  /** Returns false at the end of the file. */
  add(length: number): boolean {
    if (length === 0) return false;
    this.#length += length;
    if (this.#length > this.#largest) throw tooLarge(this.#largest);
    this.#chunks.push(this.chunk.subarray(0, length));
    this.chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    return true;
  }

  whole(): FileContent {
    return { bytes: Buffer.concat(this.#chunks), stats: statsOf(this.#stats) };
  }
}

function refuseUnreadable(found: Stats, largest: number): Stats {
  if (!found.isFile()) throw new FileFault('not_regular', `is ${kindOf(found)}, not a regular file`);
  if (found.size > largest) throw tooLarge(largest);
  return found;
}

function tooLarge(largest: number): FileFault {
  const size = largest % MEBIBYTE === 0 ? `${largest / MEBIBYTE} MiB` : `${largest / 1_024} KiB`;
  return new FileFault('too_large', `is larger than ${size}`);
}

function kindOf(found: Stats): string {
  if (found.isDirectory()) return 'a folder';
  if (found.isFIFO()) return 'a named pipe';
  return found.isSocket() ? 'a socket' : 'a device';
}

function statsOf(found: Stats): FileStats;
function statsOf(found: Stats | undefined): FileStats | undefined;
function statsOf(found: Stats | undefined): FileStats | undefined {
  if (found === undefined) return undefined;
  const { size, mode, uid, ino, mtimeMs, ctimeMs } = found;
  const kind = found.isFile() ? 'file' : found.isDirectory() ? 'folder' : 'other';
  return { kind, size, mode, uid, version: [ino, size, mtimeMs, ctimeMs].join(' ') };
}

async function statIfPresent(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

function isAbsent(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function attempt<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw asFault(error);
  }
}

async function attemptAsync<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw asFault(error);
  }
}

function asFault(error: unknown): FileFault {
  if (error instanceof FileFault) return error;
  const { code = 'EIO', message } = error as NodeJS.ErrnoException;
  return new FileFault(code, message);
}
