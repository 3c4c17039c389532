import type { Kysely, Transaction } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { CheckFile } from '../lib/integrity.ts';
import type { Steps } from '../lib/steps.ts';
import type { DatabaseFault } from './database-fault.ts';

/** A database, as every room sees it: a file of SQLite, or a schema of PostgreSQL. */
export interface Database<Tables> {
  /** Its place, for messages: the path of the file, or the address of the server without its password. */
  readonly file: string;
  readonly query: Kysely<Tables>;
  /** Runs `work` in one durable transaction; rolls back when it throws. */
  commit<Result>(work: (transaction: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  /**
   * The same without waiting for the disk, for work that is simply repeated after a power failure undid it. Whatever
   * is committed later does not outlive it: the log is synced as a whole. A process that ends takes nothing back.
   */
  commitRelaxed<Result>(work: (transaction: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  /** Bytes of the database as it counts them; over a network: when it was last asked. */
  size(): number;
  /** The fault of the database, as far as a statement or a check has shown. */
  fault(): DatabaseFault | undefined;
  /** Checks that a file is still the one that was opened, which no statement shows. Cheap: two calls of the file system. */
  checkFileReplaced(): DatabaseFault | undefined;
  /** If there is a fault that may pass: writes, to see whether it has passed. */
  probe(): void;
  /** A check of the whole file found it damaged. */
  condemn(complaint: string): void;
  /** Bytes of a file's log that another program keeps from being emptied, by reading on and on; undefined: none does. */
  keptLog(): number | undefined;
  /** What only a file can do. */
  readonly asFile?: FileAbilities;
  /** What only a server can do. */
  readonly asServer?: ServerAbilities;
  close(): Promise<void>;
}

export interface FileAbilities {
  /** A consistent copy, made in small steps while others go on writing. */
  backup(destination: string): Promise<void>;
  /** Puts its log into the file where that has grown too large. `keptLog` says whether somebody prevents it. */
  emptyLog(): void;
  /** Whether it is a backup that nobody has worked with yet. */
  isCopy(): boolean;
}

export interface ServerAbilities {
  /** Statements that have not been answered. */
  pending(): number;
  /** The time of the server, whose clock all processes share; see `cluster/clock-offset.ts`. */
  time(): Promise<ServerTime>;
  /** Other processes hear it, and this one too. A signal that is lost costs time only. */
  notify(channel: string, payload: string): Promise<void>;
  /** Hears until it is ended; connects anew by itself, and calls `onGap` when it may have missed something. */
  listen(channel: string, hear: (payload: string) => void, onGap: () => void): Promise<() => Promise<void>>;
  /** Facts of the server that `check` judges. */
  facts(): Promise<ServerFacts>;
}

export interface ServerTime {
  /** Epoch milliseconds. */
  readonly now: number;
  /** Another one where the clock may be that of another machine: after a promotion. */
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
  /** A standby, which takes no writes. */
  readonly isStandby: boolean;
  /** Connections that the role may open; how many are free of these; and how many one process takes at most. */
  readonly most: number;
  readonly free: number;
  readonly wanted: number;
  readonly isSuperuser: boolean;
  /** Whether the role may make tables in the schema. */
  readonly mayCreate: boolean;
  /** Tables of the schema that the role may not alter. */
  readonly foreign: readonly string[];
  /** How many are connected. */
  readonly standbys: number;
  /** Of one statement, milliseconds. */
  readonly latency: number;
  /** How far its clock is ahead of that of this machine, milliseconds; negative: behind. */
  readonly ahead: number;
}

export interface OpenOptions {
  /** The path of a file, `:memory:`, or an address that begins with `postgres://`. */
  readonly file: string;
  readonly migrations: Readonly<Record<string, Migration>>;
  /** Programs that know this migration can work with the tables as the last one leaves them; absent: only those that know all. */
  readonly readableSince?: string;
  /** Throws `MissingDatabaseError` where nothing is there yet, instead of making it. */
  readonly existing?: boolean | undefined;
  /** The file whose lock keeps other processes away; once it is deleted, another process can take the database too. */
  readonly lock?: string;
  readonly steps?: Steps;
  /** Called with each new kind of fault, and with undefined when a fault has passed. */
  readonly onFault?: (fault: DatabaseFault | undefined) => void;
  /** Reads the whole file before its tables are changed, so that a damaged file is not rewritten. */
  readonly checkFile?: CheckFile;
  /** Sees the text of every statement that runs; for tests that count independently. */
  readonly onStatement?: (sql: string) => void;
}

/** It was written by a newer version of the program. */
export class NewerDatabaseError extends Error {
  readonly code = 'database_newer';
}

/** Its tables have a layout from before the first migration that this program knows. It is left as it is. */
export class OlderDatabaseError extends Error {
  readonly code = 'database_too_old';
}

/** There are none of our tables, and none were to be made. */
export class MissingDatabaseError extends Error {
  readonly code = 'not_found';
  readonly hint =
    'Nothing was made there. Look at the name of the database, and at its schema: ?schema=<name> at the end of an address.';

  constructor(place: string) {
    super(`${place} holds no data of worksync`);
  }
}
