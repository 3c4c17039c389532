import { statSync } from 'node:fs';

/** Bytes of a file's log, unless another program keeps it from being truncated. */
export const LOG_LIMIT = 64 * 1024 * 1024;

/** Suffix of the file with the commits that are not in the database file yet. */
export const LOG = '-wal';

/** The part of the connection that the log uses. */
interface Connection {
  readonly inTransaction: boolean;
  pragma(source: string, options?: { readonly simple: boolean }): unknown;
}

/** The write-ahead log of one file. */
export interface FileLog {
  /** Copies all of it into the file if it is larger than its limit. Never waits. */
  empty(): void;
  /** Returns the bytes of a log that could not be truncated. */
  kept(): number | undefined;
}

/**
 * SQLite copies the log into the file during later commits, and then begins it again. While another connection reads, the commits
 * since its begin must stay: the log grows with each commit until the reader ends. Later commits would then empty the log; this
 * does it if none follow.
 */
export function createFileLog(raw: Connection, file: string): FileLog {
  let kept: number | undefined;
  const size = () => statSync(file + LOG, { throwIfNoEntry: false })?.size ?? 0;

  function truncate(): void {
    const patience = Number(raw.pragma('busy_timeout', { simple: true }));
    raw.pragma('busy_timeout = 0');
    try {
      raw.pragma('wal_checkpoint(truncate)');
    } finally {
      raw.pragma(`busy_timeout = ${patience}`);
    }
  }

  return {
    kept: () => kept,
    empty() {
      if (raw.inTransaction) return;
      if (size() > LOG_LIMIT) truncate();
      const left = size();
      kept = left > LOG_LIMIT ? left : undefined;
    },
  };
}
