import type { Selectable } from 'kysely';
import type { InstallationTables } from '../schema/installation-tables.ts';
import type { Sql } from '../workspace-scope.ts';

export type AuditRow = Selectable<InstallationTables['audit']>;
export type AuditOutcome = AuditRow['outcome'];

/** Adds a row and returns its number. */
export async function addAudit(query: Sql, row: Omit<AuditRow, 'id'>): Promise<number> {
  const { id } = await query.insertInto('audit').values(row).returning('id').executeTakeFirstOrThrow();
  return id;
}

export async function endAudit(
  query: Sql,
  id: number,
  end: Pick<AuditRow, 'outcome' | 'count' | 'details'>,
): Promise<void> {
  await query.updateTable('audit').set(end).where('id', '=', id).execute();
}

export interface AuditQuery {
  /** Names of workspaces; null: all rows, including those that concern no workspace. */
  readonly workspaces: readonly string[] | null;
  /** Epoch milliseconds; null: rows of any age. */
  readonly since: number | null;
  /** Only rows with a lower number; null: from the latest row on. */
  readonly before: number | null;
  readonly limit: number;
}

/** Lists rows, the latest first. */
export function listAudit(query: Sql, { workspaces, since, before, limit }: AuditQuery): Promise<readonly AuditRow[]> {
  return query
    .selectFrom('audit')
    .selectAll()
    .$if(workspaces !== null, (rows) => rows.where('workspace', 'in', workspaces ?? []))
    .$if(since !== null, (rows) => rows.where('at', '>=', since ?? 0))
    .$if(before !== null, (rows) => rows.where('id', '<', before ?? 0))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** The maximum number of rows, whatever their age. */
const MAX_ROWS = 100_000;

/**
 * Deletes at most `limit` rows: those from before `before`, and the oldest of those above the maximum number.
 *
 * @returns the number of deleted rows; 0 if there is nothing left to delete
 */
export async function deleteAudit(query: Sql, before: number, limit: number, maxRows = MAX_ROWS): Promise<number> {
  const rows = query.selectFrom('audit').select('id').limit(limit);
  const old = await rows.where('at', '<', before).orderBy('at').execute();
  const last = query.selectFrom('audit').select(({ fn, eb }) => eb(fn.max('id'), '-', maxRows).as('id'));
  const surplus = await rows.where('id', '<=', last).orderBy('id').execute();
  // A row may be in both lists.
  const ids = [...new Set([...old, ...surplus].map(({ id }) => id))].slice(0, limit);
  if (ids.length > 0) await query.deleteFrom('audit').where('id', 'in', ids).execute();
  return ids.length;
}
