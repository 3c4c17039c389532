import type { Kysely, Transaction } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { CheckFile } from '../lib/integrity.ts';
import type { Steps } from '../lib/telemetry.ts';
import type { DatabaseFault } from './database-fault.ts';

/** A database: a file of SQLite, or a schema of PostgreSQL. */
export interface Database<Tables> {
  /** Its place, for messages: the path of the file, or the address of the server without its password. */
  readonly file: string;
  readonly query: Kysely<Tables>;
  /** Runs `work` in one durable transaction; rolls back when it throws. */
  commit<Result>(work: (transaction: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  /**
   * Commits without waiting for the disk, for work that is repeated if a power failure reverts it. Later commits do not outlive
   * it, because the log is synced as a whole. A process that ends reverts nothing.
   */
  commitRelaxed<Result>(work: (transaction: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  /** The size in bytes; for a server, the last known one. */
  size(): number;
  /** Returns the fault that a statement or a check has shown. */
  fault(): DatabaseFault | undefined;
  /** Checks that a file is still the one that was opened, which no statement shows. Cheap: two calls of the file system. */
  checkFileReplaced(): DatabaseFault | undefined;
  /** If there is a fault that may pass: writes, to check whether it has passed. */
  probe(): void;
  /** Records that a check of the whole file found it damaged. */
  condemn(complaint: string): void;
  /** Returns the bytes of a file's log that a permanent reader keeps from being truncated; undefined: there is none. */
  keptLog(): number | undefined;
  /** The operations that only a file has. */
  readonly asFile?: FileAbilities;
  /** The operations that only a server has. */
  readonly asServer?: ServerAbilities;
  close(): Promise<void>;
}

export interface FileAbilities {
  /** Makes a consistent copy in small steps, while others continue to write. */
  backup(destination: string): Promise<void>;
  /** Copies the log into the file if it has grown too large. `keptLog` shows whether another program prevents it. */
  emptyLog(): void;
  /** Whether it is an unused backup. */
  isCopy(): boolean;
}

export interface ServerAbilities {
  /** Number of statements without an answer. */
  pending(): number;
  /** The time of the server, whose clock all processes share; see `cluster/clock-offset.ts`. */
  time(): Promise<ServerTime>;
  /** Notifies all processes, and this one too. A lost signal only costs time. */
  notify(channel: string, payload: string): Promise<void>;
  /** Receives notifications until it is ended; reconnects, and calls `onGap` if it may have missed some. */
  listen(channel: string, hear: (payload: string) => void, onGap: () => void): Promise<() => Promise<void>>;
  /** Facts of the server that `check` judges. */
  facts(): Promise<ServerFacts>;
}

export interface ServerTime {
  /** Epoch milliseconds. */
  readonly now: number;
  /** Differs if the clock may be that of another machine, after a promotion. */
  readonly clock: string;
}

export interface ServerFacts {
  /** Such as 180004. */
  readonly version: number;
  readonly settings: Readonly<Record<string, string>>;
  /** Such as `UTF8`. */
  readonly encoding: string;
  /** Whether the connection is encrypted, and whether it leaves this machine at all. */
  readonly encrypted: boolean;
  readonly isLocal: boolean;
  /** Whether it is a standby, which accepts no writes. */
  readonly isStandby: boolean;
  /** Connections that the role may open; how many of these are free; and how many one process uses at most. */
  readonly most: number;
  readonly free: number;
  readonly wanted: number;
  readonly isSuperuser: boolean;
  /** Whether the role may create tables in the schema. */
  readonly mayCreate: boolean;
  /** Tables of the schema that the role may not alter. */
  readonly foreign: readonly string[];
  /** Number of connected standbys. */
  readonly standbys: number;
  /** Latency of one statement, milliseconds. */
  readonly latency: number;
  /** Milliseconds by which its clock is ahead of this machine's; negative: behind. */
  readonly ahead: number;
}

export interface OpenOptions {
  /** The path of a file, `:memory:`, or an address that begins with `postgres://`. */
  readonly file: string;
  readonly migrations: Readonly<Record<string, Migration>>;
  /** Programs that have this migration can work with the tables as the last one leaves them; absent: only those that have all. */
  readonly readableSince?: string;
  /** Throws `MissingDatabaseError` if nothing exists yet, instead of creating it. */
  readonly existing?: boolean | undefined;
  /** The file whose lock excludes other processes; once it is deleted, another process can lock the database too. */
  readonly lock?: string;
  readonly steps?: Steps;
  /** Called with each new kind of fault, and with undefined when a fault has passed. */
  readonly onFault?: (fault: DatabaseFault | undefined) => void;
  /** Reads the whole file before its tables are changed, so that a damaged file is not rewritten. */
  readonly checkFile?: CheckFile;
  /** Receives the text of every statement that runs; for tests that count independently. */
  readonly onStatement?: (sql: string) => void;
}

/** It was written by a newer version of the program. */
export class NewerDatabaseError extends Error {
  readonly code = 'database_newer';
}

/** Its tables have a layout from before the first migration that this program has. It is left unchanged. */
export class OlderDatabaseError extends Error {
  readonly code = 'database_too_old';
}

/** There are no tables of ours, and none were to be created. */
export class MissingDatabaseError extends Error {
  readonly code = 'not_found';
  readonly hint =
    'Nothing was made there. Look at the name of the database, and at its schema: ?schema=<name> at the end of an address.';

  constructor(place: string) {
    super(`${place} holds no data of worksync`);
  }
}
