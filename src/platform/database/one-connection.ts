import { setTimeout as pause } from 'node:timers/promises';
import * as kysely from 'kysely';
import { type ConnectionQueue, createConnectionQueue } from './connection-queue.ts';

/** The dialect of a database without its driver. */
export type DialectParts = Omit<kysely.Dialect, 'createDriver'>;

type Provide = kysely.ConnectionProvider['provideConnection'];

/**
 * Runs statements directly on the given connection. Kysely's own executor creates twenty promises for each statement, for pools and
 * plugins, which takes longer than a statement on a file.
 */
export class DirectExecutor extends kysely.DefaultQueryExecutor {
  readonly #provide: Provide;
  readonly #within: DirectExecutor;

  /** @param within runs the statements of a caller that already has the connection, as in a transaction; absent: this executor */
  constructor(parts: DialectParts, provide: Provide, within?: DirectExecutor) {
    super(parts.createQueryCompiler(), parts.createAdapter(), { provideConnection: provide });
    this.#provide = provide;
    this.#within = within ?? this;
  }

  override executeQuery<Row>(statement: kysely.CompiledQuery): Promise<kysely.QueryResult<Row>> {
    return this.#provide((connection) => connection.executeQuery<Row>(statement));
  }

  override withConnectionProvider(): DirectExecutor {
    return this.#within;
  }
}

/** Runs statements synchronously, and closes their connection. */
export interface Statements {
  run<Row>(statement: kysely.CompiledQuery): kysely.QueryResult<Row>;
  close(): void;
}

export interface Locks {
  /** Whether an error shows that another program has locked the file, so that nothing happened. */
  isLocked(error: unknown): boolean;
  /** Whether it has been locked for long, so that nothing waits any more. */
  isKnown(): boolean;
  /** Returns the error to throw when the patience is over. */
  giveUp(error: unknown): unknown;
}

/** Milliseconds for which a statement is tried, from its request for the connection on, and the pause between two tries. */
const PATIENCE = 5_000;
const PAUSE = 25;

/**
 * Returns Kysely over the one connection of a file. Callers get the connection in the order of their requests. Kysely's own driver
 * would wake all waiting callers each time, which costs too much with thousands of workspaces.
 */
export function overOneConnection<Tables>(
  parts: DialectParts,
  statements: Statements,
  locks: Locks,
): kysely.Kysely<Tables> {
  const connection = new OneConnection(statements, locks);
  const driver = driverOf(connection, statements);
  const dialect = { ...parts, createDriver: () => driver };
  const within = new DirectExecutor(parts, (consumer) => consumer(connection));
  const executor = new DirectExecutor(parts, (consumer) => connection.inTurn(consumer), within);
  return new kysely.Kysely<Tables>({ config: { dialect }, dialect, driver, executor });
}

/**
 * Tries a statement again while another program has locked the file. SQLite would wait within its call, and would block the
 * process meanwhile. When the patience of one is over, all others fail at once, because they have waited already.
 */
class OneConnection implements kysely.DatabaseConnection {
  readonly #statements: Statements;
  readonly #locks: Locks;
  readonly #queue: ConnectionQueue = createConnectionQueue();
  /** The end of the patience of the present user. */
  #end = 0;

  constructor(statements: Statements, locks: Locks) {
    this.#statements = statements;
    this.#locks = locks;
  }

  async enter(): Promise<void> {
    const end = performance.now() + PATIENCE;
    await this.#queue.enter();
    this.#end = end;
  }

  leave(): void {
    this.#queue.leave();
  }

  async inTurn<Result>(work: (connection: this) => Promise<Result>): Promise<Result> {
    await this.enter();
    try {
      return await work(this);
    } finally {
      this.leave();
    }
  }

  async executeQuery<Row>(statement: kysely.CompiledQuery): Promise<kysely.QueryResult<Row>> {
    for (;;) {
      try {
        return this.#statements.run(statement);
      } catch (error) {
        if (!this.#locks.isLocked(error)) throw error;
        if (this.#locks.isKnown() || performance.now() >= this.#end) throw this.#locks.giveUp(error);
        await pause(PAUSE);
      }
    }
  }

  streamQuery(): never {
    throw new Error('nothing is streamed');
  }
}

/** The texts that `Statements` receive. */
export const BEGIN = 'begin immediate';
export const COMMIT = 'commit';
export const ROLLBACK = 'rollback';

/** The driver that Kysely needs in addition to the executors. */
function driverOf(connection: OneConnection, statements: Statements): kysely.Driver {
  const runner = (text: string) => {
    const statement = kysely.CompiledQuery.raw(text);
    return async () => void (await connection.executeQuery(statement));
  };
  return {
    init: async () => undefined,
    async acquireConnection() {
      await connection.enter();
      return connection;
    },
    beginTransaction: runner(BEGIN),
    commitTransaction: runner(COMMIT),
    rollbackTransaction: runner(ROLLBACK),
    releaseConnection: async () => connection.leave(),
    destroy: async () => statements.close(),
  };
}

/**
 * SQLite can change schemas inside transactions, although Kysely does not expect it. With this adapter, the migrations and the rows
 * that record them are one commit, which a killed process leaves complete or undone.
 */
class TransactionalAdapter extends kysely.SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/**
 * SQLite reads the values of some parameters while it plans: of `limit ?`, and of `column = ?` beside an `order by`. It then plans such a
 * statement anew for each run, which takes up to thirty times as long as the run. It does not read `+?`, nor the sum after `limit`.
 */
class Compiler extends kysely.SqliteQueryCompiler {
  protected override getCurrentParameterPlaceholder(): string {
    return '+?';
  }

  protected override visitLimit({ limit }: kysely.LimitNode): void {
    this.append('limit ');
    if (kysely.ValueNode.is(limit) && typeof limit.value === 'number') {
      this.appendImmediateValue(limit.value);
      return;
    }
    this.visitNode(limit);
    this.append(' + 0');
  }
}

/** The dialect of SQLite without its driver. */
export const SQLITE_DIALECT: DialectParts = {
  createAdapter: () => new TransactionalAdapter(),
  createIntrospector: (query) => new kysely.SqliteIntrospector(query),
  createQueryCompiler: () => new Compiler(),
};
