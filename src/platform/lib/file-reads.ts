// Design: src/decisions/daemon.md

import type { Clock } from './clock.ts';
import { type AsyncFiles, asyncDiskFiles, FileFault, type Files } from './regular-files.ts';

/**
 * Reads files without blocking the process when a file system does not answer. A read that never ends keeps one of libuv's four threads,
 * which DNS and cryptography need too. So at most two reads are under way, and no path is read twice at once.
 */
export interface FileReads {
  /**
   * Returns the result of `work`, or throws its error. `work` reads as if it had all files at once: it runs again after
   * what it asked for was read, until it asks for nothing new.
   */
  over<Result>(work: (files: KnownFiles) => Result): Promise<Result>;
  /**
   * Starts no more reads: what needs one waits for the end of the process. Resolves when each read under way has ended or counts as
   * stuck.
   */
  close(): Promise<unknown>;
  isUnderWay(): boolean;
}

/** Files that were read before. */
export interface KnownFiles extends Files {
  readonly known: ReadonlyMap<string, Answer>;
}

type Question =
  | { readonly what: 'stat' | 'list'; readonly path: string }
  | { readonly what: 'read'; readonly path: string; readonly largest: number };

/** Can be cloned, so that another thread can use it. */
export type Answer = { readonly value: unknown } | { readonly fault: Pick<FileFault, 'code' | 'message'> };

interface Read {
  isStuck: boolean;
  /** Resolves when the read has ended or is stuck. */
  readonly outcome: Promise<unknown>;
}

/** After this time a read counts as stuck, milliseconds. */
const LIMIT = 5_000;
const MOST = 2;
const NEVER = new Promise<never>(() => undefined);

export function createFileReads(clock: Pick<Clock, 'after'>, disk: AsyncFiles = asyncDiskFiles): FileReads {
  const underWay = new Map<string, Read>();
  let isClosed = false;
  const areStuck = () => [...underWay.values()].every(({ isStuck }) => isStuck);

  function start(question: Question): Promise<unknown> {
    const { path } = question;
    const late = Promise.withResolvers<never>();
    const work = readFrom(disk, question).finally(() => {
      cancel();
      underWay.delete(path);
    });
    const result = Promise.race([work, late.promise]);
    const started: Read = { isStuck: false, outcome: settled(result) };
    underWay.set(path, started);
    const cancel = clock.after(LIMIT, () => {
      started.isStuck = true;
      late.reject(notAnswered('has not answered for 5 s'));
    });
    return result;
  }

  /** Starts when there is a free place. Throws if the path, or as many others as may be read at once, do not answer. */
  async function read(question: Question): Promise<unknown> {
    const { path } = question;
    while (underWay.size >= MOST || underWay.has(path)) {
      if (underWay.get(path)?.isStuck) throw notAnswered('has not answered for 5 s');
      if (underWay.size >= MOST && areStuck())
        throw notAnswered(`is not read, because ${[...underWay.keys()].join(' and ')} do not answer`);
      await Promise.race([...underWay.values()].filter((each) => !each.isStuck).map(({ outcome }) => outcome));
    }
    return isClosed ? NEVER : start(question);
  }

  async function answer(question: Question): Promise<Answer> {
    try {
      return { value: await read(question) };
    } catch (error) {
      const { code, message } = error as FileFault;
      return { fault: { code, message } };
    }
  }

  return {
    async over(work) {
      const known = new Map<string, Answer>();
      for (;;) {
        const asked = new Map<string, Question>();
        const run = attempt(() => work(knownFiles(known, (question) => asked.set(keyOf(question), question))));
        if (asked.size === 0) return run();
        await Promise.all([...asked].map(async ([key, question]) => known.set(key, await answer(question))));
      }
    },
    close() {
      isClosed = true;
      return Promise.all([...underWay.values()].map(({ outcome }) => outcome));
    },
    isUnderWay: () => underWay.size > 0,
  };
}

/** The reads of this process. Only real time shows whether a file system answers. */
export const fileReads = createFileReads({
  after(ms, call) {
    const timer = setTimeout(call, ms).unref();
    return () => clearTimeout(timer);
  },
});

/** @param onUnknown called before `FileFault` is thrown for something that was not read */
export function knownFiles(
  known: ReadonlyMap<string, Answer>,
  onUnknown: (question: Question) => void = () => undefined,
): KnownFiles {
  const answerTo = <Value>(question: Question): Value => {
    const answer = known.get(keyOf(question));
    if (answer === undefined) onUnknown(question);
    if (answer === undefined) throw new FileFault('not_read', 'was not read');
    if ('fault' in answer) throw new FileFault(answer.fault.code, answer.fault.message);
    return answer.value as Value;
  };
  return {
    known,
    stat: (path) => answerTo({ what: 'stat', path }),
    list: (path) => answerTo({ what: 'list', path }),
    read(path, largest) {
      const { bytes, stats } = answerTo<ReturnType<Files['read']>>({ what: 'read', path, largest });
      // A buffer that comes from another thread is a plain array.
      return { bytes: Buffer.from(bytes), stats };
    },
  };
}

function keyOf(question: Question): string {
  return Object.values(question).join(' ');
}

async function readFrom(disk: AsyncFiles, question: Question): Promise<unknown> {
  const { what, path } = question;
  return what === 'read' ? disk.read(path, question.largest) : disk[what](path);
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
