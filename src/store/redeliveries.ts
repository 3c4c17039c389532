import { readMeta, writeMeta } from './meta.ts';
import type { Scope } from './workspace-scope.ts';

const PREFIX = 'redelivery.';

/** Returns the end of the last round that requested failed deliveries, in the connector's format; undefined before the first. */
export async function redeliveryCursor(query: Scope, connection: string): Promise<string | undefined> {
  return readMeta(query, PREFIX + connection);
}

/** Saves the end of a round, unless it is unchanged. */
export async function saveRedeliveryCursor(query: Scope, connection: string, cursor: string): Promise<void> {
  if ((await redeliveryCursor(query, connection)) !== cursor) await writeMeta(query, PREFIX + connection, cursor);
}

/** Deletes the cursors of all connections except these. */
export async function forgetOtherRedeliveryCursors(query: Scope, connections: readonly string[]): Promise<void> {
  const names = connections.map((connection) => PREFIX + connection);
  await query
    .deleteFrom('meta')
    .where('name', 'like', `${PREFIX}%`)
    .where('name', 'not in', ['', ...names])
    .execute();
}
