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
 * gone     the file is no longer where it was opened, so that writes would be lost: both stay until the file was repaired and
 *          the database was opened again. Nothing is written meanwhile, because a commit could be lost or damage more.
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
 * @param report called with each new kind of fault, and with undefined when a passing one has passed
 */
export function watchFaults(
  faultIn: (error: unknown) => DatabaseFault | undefined,
  report: (fault: DatabaseFault | undefined) => void = () => undefined,
): FaultWatch {
  let present: DatabaseFault | undefined;
  const set = (next: DatabaseFault | undefined) => {
    const isNews = next?.kind !== present?.kind;
    present = next;
    if (isNews) report(next);
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

/** The first characters of SQLSTATE, the longest first: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const STATES: readonly (readonly [state: string, kind: FaultKind])[] = [
  ['53100', 'full'],
  // Out of memory, a lock or a deadlock, a statement that took too long, an idle transaction.
  ['53200', 'busy'],
  ['55P03', 'busy'],
  ['40001', 'busy'],
  ['40P01', 'busy'],
  ['57014', 'busy'],
  ['25P03', 'busy'],
  // The server shuts down or starts, has no connection left, or is a standby that accepts no writes.
  ['57P', 'away'],
  ['53300', 'away'],
  ['25006', 'away'],
  ['08', 'away'],
  ['28', 'denied'],
  ['42501', 'denied'],
  ['3D000', 'denied'],
  ['58', 'failed'],
  ['XX001', 'corrupt'],
  ['XX002', 'corrupt'],
];

const NETWORK =
  /^(ECONN|EPIPE|EHOST|ENET|ENOTFOUND|EAI_|ETIMEDOUT|ENOENT|CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/;
/** The pool's error if each of its connections is in use, for example by slow reads. The server is still there. */
const POOL_IN_USE = 'timeout exceeded when trying to connect';
/** The error of `pg` for a statement without an answer in time. */
const NO_ANSWER = 'Query read timeout';
/** The errors of `pg` without a code of the server or the system. */
const CLIENT = /timeout|terminated|Client has encountered|not queryable|closed|does not support SSL/i;

const POSTGRES_HINTS: FaultHints = {
  full: 'Free space on the volume of PostgreSQL; work resumes by itself.',
  denied:
    'PostgreSQL refuses it: look at user and password in the address, at the rights of the role in its schema, and at pg_hba.conf.',
  failed: 'PostgreSQL cannot read or write its files: look at its log. worksync resumes by itself when it can.',
  busy: 'A statement took too long, another transaction holds a lock, PostgreSQL is short of memory, or another version of worksync has just changed a table: see the cause, then try again.',
  corrupt: 'PostgreSQL found its own files damaged: look at its log, and restore a backup of it.',
};

/**
 * Whether another version has changed a table that a prepared statement reads. The statement fails on its connection until it is
 * prepared under another name.
 */
export function isStalePlan(error: unknown): boolean {
  const { code = '', message = '' } = error as { code?: string; message?: string };
  return code === '0A000' && message.startsWith('cached plan');
}

/** Whether the server rolled a transaction back because of a deadlock: the other transaction continues. */
export function isDeadlock(error: unknown): boolean {
  return error instanceof DatabaseFault && (error.cause as { code?: string } | undefined)?.code === DEADLOCK;
}

const DEADLOCK = '40P01';

/**
 * Gives a read without an answer in time the code of a statement that the server cancelled. A slow read does not prove that the
 * server is away: the next write or connection shows it.
 */
export function asSlowRead(error: unknown): unknown {
  const { code = '', message = '' } = error as { code?: string; message?: string };
  return code === '' && message === NO_ANSWER ? Object.assign(error as Error, { code: QUERY_CANCELED }) : error;
}

const QUERY_CANCELED = '57014';

/** Returns the fault that an error of the server, or of the network, shows; undefined if it shows none. */
export function postgresFaultOf(error: unknown, place: string): DatabaseFault | undefined {
  if (error instanceof DatabaseFault) return error;
  const { code = '', message = '', errors } = error as { code?: string; message?: string; errors?: readonly unknown[] };
  const kind = isStalePlan(error) ? 'busy' : kindOfState(code, message);
  // With several addresses, each has its own failure, and the error has no message.
  const reason = message || errors?.map((each) => (each as Error).message).join('; ') || 'no answer';
  return kind && new DatabaseFault(kind, place, code ? `${reason} (${code})` : reason, error, POSTGRES_HINTS);
}

function kindOfState(code: string, message: string): FaultKind | undefined {
  const [, kind] = STATES.find(([state]) => code.startsWith(state)) ?? [];
  if (kind) return kind;
  if (message === POOL_IN_USE) return 'busy';
  return NETWORK.test(code) || (code === '' && CLIENT.test(message)) ? 'away' : undefined;
}
