import { statSync } from 'node:fs';

/** The log of a file is no larger than this, unless somebody keeps it from being emptied, bytes. */
export const LOG_LIMIT = 64 * 1024 * 1024;

/** What belongs to the database beside its file: what was committed and is not in the file yet. */
export const LOG = '-wal';

/** What it needs of the connection. */
interface Connection {
  readonly inTransaction: boolean;
  pragma(source: string, options?: { readonly simple: boolean }): unknown;
}

/** The write-ahead log of one file. */
export interface FileLog {
  /** Puts all of it into the file where it is larger than its limit. Waits for nobody. */
  empty(): void;
  /** Bytes of one that could not be emptied. */
  kept(): number | undefined;
}

/**
 * SQLite itself takes the log over into the file with the commits that follow, and then begins it anew. While another connection
 * reads, what was committed since that began has to stay: the log grows with each commit, and nothing but the end of the reader can
 * change that. After it the next commits would empty the log; this does where none comes.
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
