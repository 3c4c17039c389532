import { statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * The reason why a database cannot be read or written, independent of the statement that found it.
 *
 * full     the volume has no space left,
 * denied   this process may not write the file, and
 * failed   the disk does not read or write it: these may pass, and a successful write proves it. The disk may have
 *          changed data meanwhile, so the whole file is read after a failure.
 * busy     another program has locked it, or memory or file handles are short: no fault of the file, and gone at the next try.
 * locked   another program has kept it locked for seconds: it may pass, and a successful write proves it.
 * away     the server of the database does not answer, or accepts no writes: it may pass, and a successful write proves it.
 * corrupt  its content is damaged, and
 * gone     the file is no longer where it was opened, so that writes would be lost: both stay until somebody has repaired
 *          the file and the database is opened again. Nothing is written meanwhile: a commit could not be kept, or would
 *          damage more.
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

/** Remedies of a kind that replace the one of its code. */
export type FaultHints = { readonly [Kind in FaultKind]?: string };

const HINTS: FaultHints = {
  failed:
    'The disk cannot read or write the file: check the system log and the health of the disk. worksync resumes by itself when it can.',
  locked:
    'End the program that keeps the file locked: "fuser" with the path of the file shows it. Webhooks get 503 meanwhile, and work resumes by itself.',
};

/** Replaces an error of SQLite, which is its cause; the message names the file. */
export class DatabaseFault extends Error {
  readonly kind: FaultKind;
  /** The code in the registry of errors. */
  readonly code: (typeof CODES)[FaultKind];
  /** The remedy, if it differs from that of the code. */
  readonly hint: string | undefined;

  constructor(kind: FaultKind, file: string, reason: string, cause?: unknown, hints = HINTS) {
    super(`${file}: ${reason}`, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.code = CODES[kind];
    this.hint = hints[kind];
  }

  /** Whether it may pass without help. */
  get mayPass(): boolean {
    return this.kind !== 'corrupt' && this.kind !== 'gone';
  }
}

/** Tracks the fault of one database, from the failure of any of its statements on. */
export interface FaultWatch {
  /** Runs a statement. If its failure shows a fault of the file, records it, reports it once, and throws it. */
  during<Result>(run: () => Result): Result;
  /** Runs an asynchronous statement in the same way. */
  meanwhile<Result>(run: () => Promise<Result>): Promise<Result>;
  /** Reports a successful commit. */
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

/** A truncated page is damage, too: its rest is lost. */
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
  // SQLite reports a full disk only for writes to the file itself; writes to its side files just fail.
  return kind !== undefined && isVolumeFull(file) ? 'full' : kind;
}

/** Whether a statement did nothing because another program has locked the file. */
export function isLocked(error: unknown): boolean {
  if (!(error instanceof DatabaseFault) || error.kind !== 'busy') return false;
  return String((error.cause as { code?: string } | undefined)?.code).startsWith('SQLITE_BUSY');
}

/** Bytes below which there is no space for a page and its place in the log. */
const LEAST_SPACE = 16_384;

function isVolumeFull(file: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dirname(file));
    return bavail * bsize < LEAST_SPACE;
  } catch {
    return false;
  }
}

/** Identifies a file while it is the same file. */
export type Place = string;

/** Returns undefined if there is no file, or no access. */
export function placeOf(file: string): Place | undefined {
  const stats = statSync(file, { throwIfNoEntry: false, bigint: true });
  return stats && `${stats.dev}:${stats.ino}`;
}
