// Design: src/decisions/daemon.md

import type { Clock } from './clock.ts';
import { type AsyncFiles, asyncDiskFiles, FileFault, type Files } from './regular-files.ts';

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
        const run = attempt(() => work(knownFiles(known, (request) => requested.set(keyOf(request), request))));
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
function attempt<Result>(work: () => Result): () => Result {
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
