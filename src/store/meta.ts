import { piecesOf } from '../platform/lib/pieces.ts';
import { rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import type { Scope, Sql } from './workspace-scope.ts';

/** Name of a fact: the workspace's id, as it told the daemon's key. */
export const WORKSPACE_ID = 'workspace_id';

/** A single fact by its name, or undefined where it was never written. */
export async function readMeta(query: Scope, name: string): Promise<string | undefined> {
  const [row] = await rowsWhere(query, 'meta', 'name', [name]);
  return row?.value;
}

/** Writes a single fact over the one before. */
export async function writeMeta(query: Scope, name: string, value: string): Promise<void> {
  await saveRows(query, 'meta', [{ name, value }]);
}

export async function forgetMeta(query: Scope, name: string): Promise<void> {
  await query.deleteFrom('meta').where('name', '=', name).execute();
}

/** When triage was switched on for a connection, epoch milliseconds. */
export async function triageSince(query: Scope, connection: string): Promise<number | undefined> {
  const since = await readMeta(query, `triage.since.${connection}`);
  return since === undefined ? undefined : Number(since);
}

/** Triage is on for these connections, and for no others; for those where it was not, from now. */
export async function setTriagedConnections(query: Scope, connections: readonly string[], now: number): Promise<void> {
  const names = connections.map((connection) => `triage.since.${connection}`);
  await query
    .deleteFrom('meta')
    .where('name', 'like', 'triage.since.%')
    .where('name', 'not in', ['', ...names])
    .execute();
  const rows = names.map((name) => ({ name, value: String(now) }));
  if (rows.length === 0) return;
  await query
    .insertInto('meta')
    .values(rows)
    .onConflict((conflict) => conflict.columns(['workspace', 'name']).doNothing())
    .execute();
}

/** The number of a workspace, and connections of it. */
export interface TriagedConnections {
  readonly workspace: number;
  readonly connections: readonly string[];
}

/** Triage is on for these connections of any workspaces too; for those where it was not, from now. */
export async function recordTriageStarts(
  query: Sql,
  wanted: readonly TriagedConnections[],
  now: number,
): Promise<void> {
  const known = await query
    .selectFrom('meta')
    .select(['workspace', 'name'])
    .where('name', 'like', 'triage.since.%')
    .execute();
  const isKnown = new Set(known.map(({ workspace, name }) => `${workspace} ${name}`));
  const rows = wanted
    .flatMap(({ workspace, connections }) =>
      connections.map((connection) => ({ workspace, name: `triage.since.${connection}`, value: String(now) })),
    )
    .filter(({ workspace, name }) => !isKnown.has(`${workspace} ${name}`));
  for (const some of piecesOf(rows, ROWS_AT_ONCE)) {
    await query
      .insertInto('meta')
      .values(some)
      .onConflict((conflict) => conflict.columns(['workspace', 'name']).doNothing())
      .execute();
  }
}

/** Three values each, of the 32 766 that a statement may have. */
const ROWS_AT_ONCE = 1_000;
