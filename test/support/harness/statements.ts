import type { Database } from '../../../src/platform/database/database-types.ts';

/** Databases behind a socket: what is on the way to them, or back, no turn of the event loop waits for. */
const open = new Set<() => number>();

/** @returns a function that ends it */
export function watchStatements({ asServer }: Pick<Database<object>, 'asServer'>): () => void {
  if (!asServer) return () => undefined;
  const { pending } = asServer;
  open.add(pending);
  return () => void open.delete(pending);
}

/** Statements that have not been answered. */
export function statementsUnderWay(): number {
  let sum = 0;
  for (const pending of open) sum += pending();
  return sum;
}

/** A turn of the event loop. While a database is asked it waits for what comes: to spin would take the time of the server. */
export function nextTurnOfLoop(): Promise<void> {
  return new Promise((resolve) => void (statementsUnderWay() > 0 ? setTimeout(resolve, 1) : setImmediate(resolve)));
}
