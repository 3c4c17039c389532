import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, type Stats, statSync } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import type { Clock } from './clock.ts';
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

/**
 * Reads files without blocking the process when a file system does not answer. A read that never ends keeps one of libuv's four threads,
 * which DNS and cryptography need too. So at most two reads are under way, and no path is read twice at once.
 */
export interface FileReads {
  /**
   * Runs synchronous work that reads files, and returns its result or throws its error. The work runs again after the files that it
   * requested were read, until it requests no other. So it must have no effects.
   */
  run<Result>(work: (files: KnownFiles) => Result): Promise<Result>;
  /**
   * Starts no more reads: work that needs one never resolves. Resolves when each read under way has ended or counts as stuck.
   */
  close(): Promise<unknown>;
  isUnderWay(): boolean;
  /** Returns how many reads have ended although they had counted as stuck. */
  answeredLate(): number;
}

/** Files that were read before. */
export interface KnownFiles extends Files {
  readonly known: ReadonlyMap<string, FileResult>;
}

/** A request for a file. */
type FileRequest =
  | { readonly operation: 'stat' | 'list'; readonly path: string }
  | { readonly operation: 'read'; readonly path: string; readonly largest: number };

/** Can be cloned, so that another thread can use it. */
export type FileResult = { readonly value: unknown } | { readonly fault: Pick<FileFault, 'code' | 'message'> };

interface Read {
  isStuck: boolean;
  /** Resolves when the read has ended or is stuck. */
  readonly outcome: Promise<unknown>;
}

/** After this time a read counts as stuck. */
const STUCK_AFTER_MS = 5_000;
const MAX_READS = 2;
const NEVER = new Promise<never>(() => undefined);

export function createFileReads(clock: Pick<Clock, 'after'>, disk: AsyncFiles = asyncDiskFiles): FileReads {
  const underWay = new Map<string, Read>();
  let isClosed = false;
  let answeredLate = 0;
  const areStuck = () => [...underWay.values()].every(({ isStuck }) => isStuck);

  function start(request: FileRequest): Promise<unknown> {
    const { path } = request;
    const late = Promise.withResolvers<never>();
    const work = readFrom(disk, request).finally(() => {
      cancel();
      underWay.delete(path);
      if (started.isStuck) answeredLate++;
    });
    const result = Promise.race([work, late.promise]);
    const started: Read = { isStuck: false, outcome: settled(result) };
    underWay.set(path, started);
    const cancel = clock.after(STUCK_AFTER_MS, () => {
      started.isStuck = true;
      late.reject(notAnswered('has not answered for 5 s'));
    });
    return result;
  }

  /** Waits until fewer than `MAX_READS` reads are under way. Throws if the path does not answer, or if all these are stuck. */
  async function read(request: FileRequest): Promise<unknown> {
    const { path } = request;
    while (underWay.size >= MAX_READS || underWay.has(path)) {
      if (underWay.get(path)?.isStuck) throw notAnswered('has not answered for 5 s');
      if (underWay.size >= MAX_READS && areStuck())
        throw notAnswered(`is not read, because ${[...underWay.keys()].join(' and ')} do not answer`);
      await Promise.race([...underWay.values()].filter((each) => !each.isStuck).map(({ outcome }) => outcome));
    }
    return isClosed ? NEVER : start(request);
  }

  async function resultOf(request: FileRequest): Promise<FileResult> {
    try {
      return { value: await read(request) };
    } catch (error) {
      const { code, message } = error as FileFault;
      return { fault: { code, message } };
    }
  }

  return {
    async run(work) {
      const known = new Map<string, FileResult>();
      for (;;) {
        const requested = new Map<string, FileRequest>();
        const run = outcomeOf(() => work(knownFiles(known, (request) => requested.set(keyOf(request), request))));
        if (requested.size === 0) return run();
        const next = requested.entries();
        const readAll = async () => {
          for (const [key, request] of next) known.set(key, await resultOf(request));
        };
        await Promise.all(Array.from({ length: MAX_READS }, readAll));
      }
    },
    close() {
      isClosed = true;
      return Promise.all([...underWay.values()].map(({ outcome }) => outcome));
    },
    isUnderWay: () => underWay.size > 0,
    answeredLate: () => answeredLate,
  };
}

/** The reads of this process. Only real time shows whether a file system answers. */
export const fileReads = createFileReads({
  after(ms, call) {
    const timer = setTimeout(call, ms).unref();
    return () => clearTimeout(timer);
  },
});

/** Returns files that were read before. @param onUnknown called before `FileFault` is thrown for a file that was not read */
export function knownFiles(
  known: ReadonlyMap<string, FileResult>,
  onUnknown: (request: FileRequest) => void = () => undefined,
): KnownFiles {
  const contentOf = <Value>(request: FileRequest): Value => {
    const result = known.get(keyOf(request));
    if (result === undefined) {
      onUnknown(request);
      throw new FileFault('not_read', 'was not read');
    }
    if ('fault' in result) throw new FileFault(result.fault.code, result.fault.message);
    return result.value as Value;
  };
  return {
    known,
    stat: (path) => contentOf({ operation: 'stat', path }),
    list: (path) => contentOf({ operation: 'list', path }),
    read(path, largest) {
      const { bytes, stats } = contentOf<ReturnType<Files['read']>>({ operation: 'read', path, largest });
      // A buffer from another thread is a plain array.
      return { bytes: Buffer.from(bytes), stats };
    },
  };
}

function keyOf(request: FileRequest): string {
  return Object.values(request).join(' ');
}

async function readFrom(disk: AsyncFiles, request: FileRequest): Promise<unknown> {
  const { operation, path } = request;
  return operation === 'read' ? disk.read(path, request.largest) : disk[operation](path);
}

/** Runs the work, and returns a function that returns its result or throws its error. */
function outcomeOf<Result>(work: () => Result): () => Result {
  try {
    const result = work();
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

function settled(work: Promise<unknown>): Promise<unknown> {
  return work.catch(() => undefined);
}

function notAnswered(message: string): FileFault {
  return new FileFault('not_answered', message);
}
