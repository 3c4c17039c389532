import { setTimeout as pause } from 'node:timers/promises';
import { CompiledQuery, type DatabaseConnection, type Driver, Kysely, type QueryResult } from 'kysely';
import { createQueue, type Queue } from '../lib/queue.ts';
import { DirectExecutor, type Words } from './direct-executor.ts';

/** What runs statements at once, and closes what they run on. */
export interface Statements {
  run<Row>(statement: CompiledQuery): QueryResult<Row>;
  close(): void;
}

export interface Locks {
  /** Whether an error says that another program has locked the file, so that nothing happened. */
  isLocked(error: unknown): boolean;
  /** Whether that has been so for long: then nobody waits any more. */
  isKnown(): boolean;
  /** What is thrown when the patience is over. */
  giveUp(error: unknown): unknown;
}

/** How long a statement is tried, from the moment at which it asked for the connection, and the pause between two tries, milliseconds. */
const PATIENCE = 5_000;
const PAUSE = 25;

/**
 * Kysely over the one connection of a file, which one after the other has, in the order in which they came. Kysely's own way would wake
 * everybody who waits each time: with the stages of thousands of workspaces that would cost by the square of their number.
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
 * Tries a statement again while another program has locked the file. SQLite would wait within its call, and nothing else in the
 * process would go on meanwhile. When the patience of one is over, all others give up at once: who asked them has waited already.
 */
class OneConnection implements DatabaseConnection {
  readonly #statements: Statements;
  readonly #locks: Locks;
  readonly #queue: Queue = createQueue();
  /** When the patience of whoever has it now is over. */
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

/** As `Statements` see them. */
export const BEGIN = 'begin immediate';
export const COMMIT = 'commit';
export const ROLLBACK = 'rollback';

/** What Kysely asks of it beside the executors. */
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
