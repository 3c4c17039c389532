import { setTimeout as pause } from 'node:timers/promises';
import {
  CompiledQuery,
  type ConnectionProvider,
  type DatabaseConnection,
  DefaultQueryExecutor,
  type Dialect,
  type Driver,
  Kysely,
  type LimitNode,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  ValueNode,
} from 'kysely';
import { createQueue, type Queue } from '../lib/queue.ts';

/** How statements are written for a database. */
export type Words = Omit<Dialect, 'createDriver'>;

type Provide = ConnectionProvider['provideConnection'];

/**
 * Runs statements as they are on the connection that it is given. Kysely's own executor makes twenty promises for each, for pools and
 * plugins, which take longer than a statement over a file.
 */
export class DirectExecutor extends DefaultQueryExecutor {
  readonly #provide: Provide;
  readonly #within: DirectExecutor;

  /** @param within runs what is asked by whoever has the connection already, as in a transaction; absent: this one does */
  constructor(words: Words, provide: Provide, within?: DirectExecutor) {
    super(words.createQueryCompiler(), words.createAdapter(), { provideConnection: provide });
    this.#provide = provide;
    this.#within = within ?? this;
  }

  override executeQuery<Row>(statement: CompiledQuery): Promise<QueryResult<Row>> {
    return this.#provide((connection) => connection.executeQuery<Row>(statement));
  }

  override withConnectionProvider(): DirectExecutor {
    return this.#within;
  }
}

/** Runs statements synchronously, and closes their connection. */
export interface Statements {
  run<Row>(statement: CompiledQuery): QueryResult<Row>;
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
 * Kysely over the one connection of a file, which its users get in the order of their requests. Kysely's own way would wake all
 * that wait each time, which grows with the square of their number: with thousands of workspaces too much.
 */
export function overOneConnection<Tables>(words: Words, statements: Statements, locks: Locks): Kysely<Tables> {
  const connection = new OneConnection(statements, locks);
  const driver = driverOf(connection, statements);
  const dialect = { ...words, createDriver: () => driver };
  const within = new DirectExecutor(words, (consumer) => consumer(connection));
  const executor = new DirectExecutor(words, (consumer) => connection.inTurn(consumer), within);
  return new Kysely<Tables>({ config: { dialect }, dialect, driver, executor });
}

/**
 * Tries a statement again while another program has locked the file. SQLite would wait within its call, and would block the
 * process meanwhile. When the patience of one is over, all others fail at once, because they have waited already.
 */
class OneConnection implements DatabaseConnection {
  readonly #statements: Statements;
  readonly #locks: Locks;
  readonly #queue: Queue = createQueue();
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

  async executeQuery<Row>(statement: CompiledQuery): Promise<QueryResult<Row>> {
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
function driverOf(connection: OneConnection, statements: Statements): Driver {
  const asked = (text: string) => {
    const statement = CompiledQuery.raw(text);
    return async () => void (await connection.executeQuery(statement));
  };
  return {
    init: async () => undefined,
    async acquireConnection() {
      await connection.enter();
      return connection;
    },
    beginTransaction: asked(BEGIN),
    commitTransaction: asked(COMMIT),
    rollbackTransaction: asked(ROLLBACK),
    releaseConnection: async () => connection.leave(),
    destroy: async () => statements.close(),
  };
}

/**
 * SQLite changes schemas inside transactions, though Kysely does not count on it. With this the migrations and the rows
 * that remember them are one commit: a process killed in between finds either all of it or nothing.
 */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/**
 * SQLite reads the values of some parameters while it plans: of `limit ?`, and of `column = ?` beside an `order by`. It then plans such a
 * statement anew for each run, which takes up to thirty times as long as the run. It does not read `+?`, nor the sum after `limit`.
 */
class Compiler extends SqliteQueryCompiler {
  protected override getCurrentParameterPlaceholder(): string {
    return '+?';
  }

  protected override visitLimit({ limit }: LimitNode): void {
    this.append('limit ');
    if (ValueNode.is(limit) && typeof limit.value === 'number') {
      this.appendImmediateValue(limit.value);
      return;
    }
    this.visitNode(limit);
    this.append(' + 0');
  }
}

/** How statements are written for SQLite. */
export const SQLITE_WORDS: Words = {
  createAdapter: () => new TransactionalAdapter(),
  createIntrospector: (query) => new SqliteIntrospector(query),
  createQueryCompiler: () => new Compiler(),
};
