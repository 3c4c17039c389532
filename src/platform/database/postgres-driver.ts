import { setTimeout as sleep } from 'node:timers/promises';
import { callbackify } from 'node:util';
import type { CompiledQuery, DatabaseConnection, Driver, QueryResult, SelectQueryNode } from 'kysely';
import pg, { type QueryResult as PgResult, type Pool, type PoolClient } from 'pg';
import { type FileFault, type Files, fileReads } from '../lib/regular-files.ts';
import type { Steps } from '../lib/telemetry.ts';
import { storable } from '../lib/text.ts';
import { type ConnectionQueue, createConnectionQueue } from './connection-queue.ts';
import { asSlowRead, DatabaseFault, type FaultWatch, isStalePlan } from './database-fault.ts';
import { type FileOption, type PostgresAddress, TLS_FILES } from './postgres-address.ts';

/**
 * The use of connections by a process: all its writes go through one of them, one transaction or statement after another, as with
 * a file of SQLite, so that none of its transactions sees half of another. Single statements that only read have connections of
 * their own.
 */
export interface PostgresDriverOptions {
  readonly writer: Pool;
  readonly readers: Pool;
  readonly watch: FaultWatch;
  readonly steps?: Steps | undefined;
  readonly onStatement?: ((sql: string) => void) | undefined;
  /** Called with the number of inserted rows. */
  readonly onInserted?: (rows: number) => void;
}

/** The state that the drivers of one database share. */
export interface Connections {
  /** @param begin the statement that begins a transaction */
  driver(begin: string): Driver;
  /** Number of statements without an answer. */
  pending(): number;
  close(): Promise<void>;
}

/** Milliseconds between two requests to a server that does not answer, so that not every caller waits for a timeout. */
const ASKED_AGAIN_AFTER = 500;

/** Statements that a connection keeps prepared: enough for the frequent ones of all stages. */
const MOST_PREPARED = 512;

export function createConnections(options: PostgresDriverOptions): Connections {
  const { writer, readers, watch } = options;
  const turn = createConnectionQueue();
  const names = createNames();
  let failedAt = Number.NEGATIVE_INFINITY;
  let pending = 0;
  let closing: Promise<unknown> | undefined;

  async function connect(pool: Pool): Promise<PoolClient> {
    const fault = watch.present();
    if (fault?.kind === 'away' && performance.now() - failedAt < ASKED_AGAIN_AFTER) throw fault;
    return guarded(() => pool.connect());
  }

  function guarded<Result>(work: () => Promise<Result>): Promise<Result> {
    pending += 1;
    return watch
      .meanwhile(work)
      .catch((error: unknown) => {
        failedAt = performance.now();
        throw error;
      })
      .finally(() => {
        pending -= 1;
      });
  }

  async function run(client: PoolClient, statement: CompiledQuery, isAlone = false): Promise<QueryResult<never>> {
    options.onStatement?.(statement.sql);
    const { command, rowCount, rows } = await guarded(() => query(client, statement, isAlone));
    if (command === 'INSERT') options.onInserted?.(rowCount ?? 0);
    const wrote = command === 'INSERT' || command === 'UPDATE' || command === 'DELETE';
    return { rows: (rows ?? []) as never[], ...(wrote && { numAffectedRows: BigInt(rowCount ?? 0) }) };
  }

  /** @param isAlone whether it is in no transaction, which its failure would have ended */
  async function query(client: PoolClient, statement: CompiledQuery, isAlone: boolean): Promise<PgResult> {
    const { sql, parameters } = statement;
    const name = names.of(sql);
    try {
      return await client.query({ ...(name && { name }), text: sql, values: parameters.map(asKept) });
    } catch (error) {
      if (!isStalePlan(error)) throw reads(statement) ? asSlowRead(error) : error;
      // Several may fail at once: later statements have new names already.
      if (names.of(sql) === name) names.renew();
      if (isAlone) return query(client, statement, false);
      throw error;
    }
  }

  return {
    pending: () => pending,
    driver: (begin) => driverOver({ ...options, begin, turn, connect, run, guarded }),
    async close() {
      closing ??= Promise.all([writer.end(), readers.end()]);
      await closing;
    },
  };
}

interface Over extends PostgresDriverOptions {
  readonly begin: string;
  readonly turn: ConnectionQueue;
  connect(pool: Pool): Promise<PoolClient>;
  run(client: PoolClient, statement: CompiledQuery, isAlone?: boolean): Promise<QueryResult<never>>;
  guarded<Result>(work: () => Promise<Result>): Promise<Result>;
}

function driverOver(over: Over): Driver {
  return {
    init: async () => undefined,
    acquireConnection: async () => new Connection(over),
    beginTransaction: (connection) => (connection as Connection).begin(),
    commitTransaction: (connection) => (connection as Connection).commit(),
    rollbackTransaction: (connection) => (connection as Connection).rollBack(),
    async releaseConnection() {
      // Each statement outside of a transaction releases its connection, and each transaction at its end.
    },
    destroy: async () => undefined,
  };
}

/** A lazy connection for Kysely: its first statement decides which one is used. */
class Connection implements DatabaseConnection {
  readonly #over: Over;
  /** The connection of the running transaction. */
  #client: PoolClient | undefined;
  /** The `begin` of it, until it is answered. */
  #begun: Promise<unknown> | undefined;

  constructor(over: Over) {
    this.#over = over;
  }

  async begin(): Promise<void> {
    const { turn, connect, guarded, writer, watch, begin, onStatement } = this.#over;
    await turn.enter();
    try {
      watch.refuse();
      this.#client = await connect(writer);
      onStatement?.('begin');
      this.#begun = guarded(() => (this.#client as PoolClient).query(begin));
      // The next statement of the transaction throws the error.
      this.#begun.catch(() => undefined);
    } catch (error) {
      this.#end(true);
      throw error;
    }
  }

  async commit(): Promise<void> {
    const { steps, watch, guarded, onStatement } = this.#over;
    await this.#begun;
    steps?.reached('commit', 'before');
    onStatement?.('commit');
    // The server rolls a failed transaction back, and its answer shows it.
    const { command } = await guarded(() => this.#open().query('commit'));
    if (command === 'ROLLBACK') throw new Error('the transaction was rolled back by the server');
    this.#end(false);
    watch.wrote();
    steps?.reached('commit', 'after');
  }

  /** Closes a connection that cannot even roll back; the server then does it. */
  async rollBack(): Promise<void> {
    const client = this.#client;
    if (!client) return;
    this.#over.onStatement?.('rollback');
    const begun = this.#begun;
    const isBroken = await this.#over
      .guarded(() => client.query('rollback'))
      .then(() => begun)
      .then(
        () => false,
        () => true,
      );
    this.#end(isBroken);
  }

  async executeQuery<Row>(statement: CompiledQuery): Promise<QueryResult<Row>> {
    if (this.#client) return this.#within(this.#client, statement);
    return reads(statement) ? this.#once(this.#over.readers, statement) : this.#write(statement);
  }

  /**
   * Sends a read together with the `begin`, which saves a round trip. A write waits, because it would commit alone if the `begin`
   * failed.
   */
  async #within<Row>(client: PoolClient, statement: CompiledQuery): Promise<QueryResult<Row>> {
    const begun = this.#begun;
    if (!begun) return this.#over.run(client, statement);
    if (!reads(statement)) await begun;
    const [result] = await Promise.all([this.#over.run(client, statement), begun]);
    this.#begun = undefined;
    return result;
  }

  streamQuery(): never {
    throw new Error('nothing is streamed');
  }

  async #write<Row>(statement: CompiledQuery): Promise<QueryResult<Row>> {
    const { turn, steps, watch, writer } = this.#over;
    await turn.enter();
    try {
      watch.refuse();
      steps?.reached('commit', 'before');
      const result = await this.#once<Row>(writer, statement);
      watch.wrote();
      steps?.reached('commit', 'after');
      return result;
    } finally {
      turn.leave();
    }
  }

  async #once<Row>(pool: Pool, statement: CompiledQuery): Promise<QueryResult<Row>> {
    const client = await this.#over.connect(pool);
    let failed = true;
    try {
      const result = await this.#over.run(client, statement, true);
      failed = false;
      return result;
    } catch (error) {
      failed = !isOfStatement(error);
      throw error;
    } finally {
      client.release(failed);
    }
  }

  #open(): PoolClient {
    if (!this.#client) throw new Error('there is no transaction');
    return this.#client;
  }

  #end(isBroken: boolean): void {
    this.#client?.release(isBroken);
    this.#client = undefined;
    this.#begun = undefined;
    this.#over.turn.leave();
  }
}

function reads({ query, sql }: CompiledQuery): boolean {
  if (query.kind !== 'SelectQueryNode') return /^\s*(select|with recursive)\b/.test(sql);
  const parts = (query as SelectQueryNode).with?.expressions ?? [];
  return parts.every(({ expression }) => expression.kind === 'SelectQueryNode');
}

/** Foreign texts, such as messages, may contain a character that PostgreSQL refuses. */
function asKept(value: unknown): unknown {
  return typeof value === 'string' && value.includes('\0') ? storable(value) : value;
}

/** Whether the server refused the statement: its connection is then still usable. */
function isOfStatement(error: unknown): boolean {
  const { code = '' } = error as { code?: string };
  return /^(22|23|42)/.test(code);
}

/** Names of prepared statements, the same on every connection. */
function createNames() {
  const names = new Map<string, string>();
  let era = 0;
  return {
    of(sql: string): string | undefined {
      const known = names.get(sql);
      if (known || names.size >= MOST_PREPARED || !/^(select|insert|update|delete|with)\b/.test(sql)) return known;
      const name = `worksync_${era}_${names.size}`;
      names.set(sql, name);
      return name;
    },
    /** Prepares all statements again, on every connection, because the old names would fail there each time. */
    renew(): void {
      era += 1;
      names.clear();
    },
  };
}

const MAX_FILE_BYTES = 1_048_576;
const UNREADABLE = 'In the address, name a regular file of at most 1 MiB that the user of worksync may read.';
/** Milliseconds for which a connection waits to read the files again. */
const REFRESH_TIMEOUT_MS = 500;

/** Reads the files into the options. Throws `DatabaseFault` if one cannot be read, and changes nothing then. */
export async function readTlsFiles({ tls, place }: Pick<PostgresAddress, 'tls' | 'place'>): Promise<void> {
  if (!tls) return;
  const { paths, options } = tls;
  const contents = await fileReads.run((files) =>
    [...paths].map(([option, path]) => [option, readFile(files, option, path, place)]),
  );
  Object.assign(options, Object.fromEntries(contents));
}

function readFile(files: Files, option: FileOption, path: string, place: string): string {
  try {
    return files.read(path, MAX_FILE_BYTES).bytes.toString();
  } catch (error) {
    const reason = `${TLS_FILES[option]}: ${(error as FileFault).about(path)}`;
    throw new DatabaseFault('denied', place, reason, error, { denied: UNREADABLE });
  }
}

/** Returns a client that reads the files again before it connects. Otherwise it uses the contents that were read last. */
export function clientWithTls(address: PostgresAddress): typeof pg.Client {
  if (!address.tls) return pg.Client;
  return class extends pg.Client {
    override connect(): Promise<pg.Client>;
    override connect(callback: (error: Error | null) => void): void;
    override connect(callback?: (error: Error | null) => void): Promise<pg.Client> | undefined {
      const refreshed = Promise.race([
        readTlsFiles(address).catch(() => undefined),
        sleep(REFRESH_TIMEOUT_MS, undefined, { ref: false }),
      ]);
      const connect = () => refreshed.then(() => super.connect());
      if (!callback) return connect();
      callbackify(connect)(callback);
      return undefined;
    }
  };
}
