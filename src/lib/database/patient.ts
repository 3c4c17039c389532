import { setTimeout as pause } from 'node:timers/promises';
import type { DatabaseConnection, Driver } from 'kysely';

/** How long a statement is tried, from the moment at which it asked for the connection, and the pause between two tries, milliseconds. */
const PATIENCE = 5_000;
const PAUSE = 25;

export interface Locks {
  /** Whether an error says that another program has locked the file, so that nothing happened. */
  isLocked(error: unknown): boolean;
  /** Whether that has been so for long: then nobody waits any more. */
  isKnown(): boolean;
  /** What is thrown when the patience is over. */
  giveUp(error: unknown): unknown;
}

/**
 * Tries a statement again while another program has locked the file. SQLite would wait within its call, and nothing else in the
 * process would go on meanwhile. When the patience of one is over, all others give up at once: who asked them has waited already.
 */
export function patient(driver: Driver, locks: Locks): Driver {
  /** The connection as it is, by the one that was given. */
  const inner = new WeakMap<DatabaseConnection, DatabaseConnection>();
  return {
    init: (options) => driver.init(options),
    async acquireConnection(options) {
      const end = performance.now() + PATIENCE;
      const connection = await driver.acquireConnection(options);
      const given: DatabaseConnection = {
        executeQuery: (query, settings) => again(() => connection.executeQuery(query, settings), end, locks),
        streamQuery: (query, size, settings) => connection.streamQuery(query, size, settings),
      };
      inner.set(given, connection);
      return given;
    },
    beginTransaction: (connection, settings) => driver.beginTransaction(connection, settings),
    commitTransaction: (connection) => driver.commitTransaction(connection),
    rollbackTransaction: (connection) => driver.rollbackTransaction(connection),
    releaseConnection: (connection) => driver.releaseConnection(inner.get(connection) ?? connection),
    destroy: (options) => driver.destroy(options),
  };
}

async function again<Result>(run: () => Promise<Result>, end: number, locks: Locks): Promise<Result> {
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!locks.isLocked(error)) throw error;
      if (locks.isKnown() || performance.now() >= end) throw locks.giveUp(error);
      await pause(PAUSE);
    }
  }
}
