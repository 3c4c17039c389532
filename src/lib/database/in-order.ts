import type { DatabaseConnection, Driver } from 'kysely';
import { createQueue } from '../queue.ts';

/**
 * One after the other has the connection, in the order in which they came. Kysely's own way wakes everybody who waits each
 * time: with the stages of thousands of workspaces that would cost by the square of their number.
 */
export function inOrder(driver: Driver): Driver {
  const queue = createQueue();
  return {
    init: (options) => driver.init(options),
    async acquireConnection(options) {
      await queue.enter();
      return driver.acquireConnection(options);
    },
    beginTransaction: (connection, settings) => driver.beginTransaction(connection, settings),
    commitTransaction: (connection) => driver.commitTransaction(connection),
    rollbackTransaction: (connection) => driver.rollbackTransaction(connection),
    async releaseConnection(connection: DatabaseConnection) {
      await driver.releaseConnection(connection);
      queue.leave();
    },
    destroy: (options) => driver.destroy(options),
  };
}
