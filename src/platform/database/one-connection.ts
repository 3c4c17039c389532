import { setTimeout as pause } from 'node:timers/promises';
import { CompiledQuery, type DatabaseConnection, type Driver, Kysely, type QueryResult } from 'kysely';
import { createQueue, type Queue } from '../lib/queue.ts';
import { DirectExecutor, type Words } from './direct-executor.ts';

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
