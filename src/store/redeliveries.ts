import { readMeta, writeMeta } from './meta.ts';
import type { Scope } from './workspace-scope.ts';

const PREFIX = 'redelivery.';

/** Where the last round of asking for failed deliveries ended, as the connector wrote it; undefined before the first one. */
export async function redeliveryCursor(query: Scope, connection: string): Promise<string | undefined> {
  return readMeta(query, PREFIX + connection);
}

/** Unchanged means no write. */
export async function saveRedeliveryCursor(query: Scope, connection: string, cursor: string): Promise<void> {
  if ((await redeliveryCursor(query, connection)) !== cursor) await writeMeta(query, PREFIX + connection, cursor);
}

/** Of connections that are no longer configured nothing is kept. */
export async function forgetOtherRedeliveryCursors(query: Scope, connections: readonly string[]): Promise<void> {
  const names = connections.map((connection) => PREFIX + connection);
  await query
    .deleteFrom('meta')
    .where('name', 'like', `${PREFIX}%`)
    .where('name', 'not in', ['', ...names])
    .execute();
}
