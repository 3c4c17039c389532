import { statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Why a database cannot be read or written, whatever statement found it.
 *
 * full     the volume has no space left,
 * denied   this process may not write the file, and
 * failed   the disk does not read or write it: these may pass, and a write that succeeds proves it. What the disk did
 *          meanwhile nobody knows, so the whole file is read after a failure.
 * busy     another program has locked it, or memory or file handles are short: nothing of the file, and gone at the next try.
 * locked   another program has kept it locked for seconds: it may pass, and a write that succeeds proves it.
 * away     the server of the database does not answer, or takes no writes: it may pass, and a write that succeeds proves it.
 * corrupt  its content is damaged, and
 * gone     the file is no longer where it was opened, so nobody would find a write: both stay until somebody has repaired
 *          the file and the database is opened again. Nothing is written meanwhile: a commit would promise what cannot be
 *          kept, or damage more.
 */
export type FaultKind = 'full' | 'denied' | 'failed' | 'busy' | 'locked' | 'away' | 'corrupt' | 'gone';

const CODES = {
  full: 'disk_full',
  denied: 'data_folder_unusable',
  failed: 'database_corrupt',
  busy: 'database_failed',
  locked: 'database_failed',
  away: 'database_away',
  corrupt: 'database_corrupt',
  gone: 'database_corrupt',
} as const satisfies Record<FaultKind, string>;

/** Remedies of a kind, where that of its code does not fit. */
export type FaultHints = { readonly [Kind in FaultKind]?: string };

const HINTS: FaultHints = {
  failed:
    'The disk cannot read or write the file: check the system log and the health of the disk. worksync resumes by itself when it can.',
  locked:
    'End the program that keeps the file locked: "fuser" with the path of the file shows it. Webhooks get 503 meanwhile, and work resumes by itself.',
};

/** Thrown in place of what SQLite says. Its own error is the cause; the message names the file. */
export class DatabaseFault extends Error {
  readonly kind: FaultKind;
  /** Of the registry of errors. */
  readonly code: (typeof CODES)[FaultKind];
  /** The remedy, where it is not that of the code. */
  readonly hint: string | undefined;

  constructor(kind: FaultKind, file: string, reason: string, cause?: unknown, hints = HINTS) {
    super(`${file}: ${reason}`, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.code = CODES[kind];
    this.hint = hints[kind];
  }

  /** Whether it may pass by itself. */
  get mayPass(): boolean {
    return this.kind !== 'corrupt' && this.kind !== 'gone';
  }
}

/** Knows the fault of one database, from the failure of any of its statements on. */
export interface FaultWatch {
  /** Runs a statement. If its failure shows a fault of the file, records it, reports it once, and throws it. */
  during<Result>(run: () => Result): Result;
  /** The same of one that takes time. */
  meanwhile<Result>(run: () => Promise<Result>): Promise<Result>;
  /** A commit succeeded. */
  wrote(): void;
  /** Throws the fault that prevents every write. */
  refuse(): void;
  note(fault: DatabaseFault): void;
  present(): DatabaseFault | undefined;
}

/**
 * @param faultIn the fault that an error shows; undefined if it shows none
 * @param tell called with each new kind of fault, and with undefined when a passing one has passed
 */
export function watchFaults(
  faultIn: (error: unknown) => DatabaseFault | undefined,
  tell: (fault: DatabaseFault | undefined) => void,
): FaultWatch {
  let present: DatabaseFault | undefined;
  const set = (next: DatabaseFault | undefined) => {
    const isNews = next?.kind !== present?.kind;
    present = next;
    if (isNews) tell(next);
  };
  const note = (fault: DatabaseFault) => {
    if (fault.kind !== 'busy' && (present === undefined || present.mayPass)) set(fault);
  };
  const noted = (error: unknown) => {
    const fault = faultIn(error);
    if (fault === undefined) return error;
    note(fault);
    return fault;
  };
  return {
    during(run) {
      try {
        return run();
      } catch (error) {
        throw noted(error);
      }
    },
    async meanwhile(run) {
      try {
        return await run();
      } catch (error) {
        throw noted(error);
      }
    },
    wrote() {
      if (present?.mayPass) set(undefined);
    },
    refuse() {
      if (present !== undefined && !present.mayPass) throw present;
    },
    note,
    present: () => present,
  };
}

/** The fault that an error of SQLite, or of the file system below it, shows; undefined if it shows none. */
export function faultOf(error: unknown, file: string): DatabaseFault | undefined {
  if (error instanceof DatabaseFault) return error;
  const { code = '', message = '' } = error as { code?: string; message?: string };
  const kind = kindOf(code, file);
  return kind && new DatabaseFault(kind, file, `${message} (${code})`, error);
}

/** A page that is cut off is damage, too: its rest is lost. */
const CORRUPT = /^SQLITE_(CORRUPT|NOTADB|IOERR_(SHORT_READ|CORRUPTFS|DATA)$)/;
const FULL = /^(SQLITE_FULL|ENOSPC|EDQUOT)$/;
const DENIED = /^(SQLITE_(CANTOPEN|READONLY|PERM|AUTH)|E(ROFS|ACCES|PERM|ISDIR|NOTDIR|NOENT)$)/;
const BUSY = /^(SQLITE_(BUSY|LOCKED|NOMEM|IOERR_NOMEM|PROTOCOL|INTERRUPT)|E(NFILE|MFILE)$)/;
const FAILED = /^(SQLITE_(IOERR|NOLFS)|EIO$)/;

function kindOf(code: string, file: string): FaultKind | undefined {
  if (CORRUPT.test(code)) return 'corrupt';
  if (FULL.test(code)) return 'full';
  if (BUSY.test(code)) return 'busy';
  const kind = DENIED.test(code) ? 'denied' : FAILED.test(code) ? 'failed' : undefined;
  // SQLite names a full disk only where it writes to the file itself; its side files just fail.
  return kind !== undefined && isVolumeFull(file) ? 'full' : kind;
}

/** Whether a statement did nothing because another program has locked the file. */
export function isLocked(error: unknown): boolean {
  if (!(error instanceof DatabaseFault) || error.kind !== 'busy') return false;
  return String((error.cause as { code?: string } | undefined)?.code).startsWith('SQLITE_BUSY');
}

/** Less than this is no space for a page and its place in the log, bytes. */
const LEAST_SPACE = 16_384;

function isVolumeFull(file: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dirname(file));
    return bavail * bsize < LEAST_SPACE;
  } catch {
    return false;
  }
}

/** Where a file is, for as long as it is the same file. */
export type Place = string;

/** Undefined where there is none, or nobody may look. */
export function placeOf(file: string): Place | undefined {
  const stats = statSync(file, { throwIfNoEntry: false, bigint: true });
  return stats && `${stats.dev}:${stats.ino}`;
}
