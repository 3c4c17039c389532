import type { Selectable } from 'kysely';
import type { InstallationTables } from './schema/installation-tables.ts';
import type { Sql } from './workspace-scope.ts';

export type AuditRow = Selectable<InstallationTables['audit']>;
export type AuditOutcome = AuditRow['outcome'];

/** @returns its number */
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
  /** Names; null: all, and what concerns none of them or all. */
  readonly workspaces: readonly string[] | null;
  /** Epoch milliseconds; null: all that is stored. */
  readonly since: number | null;
  /** Only rows older than the one with this number; null: from the latest. */
  readonly before: number | null;
  readonly limit: number;
}

/** The latest first. */
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

/** Rows that stay at most, whatever their age. */
const MOST = 100_000;

/** Deletes rows from before, and the oldest of too many, at most `most`; returns how many, 0 where none is left. */
export async function deleteAudit(query: Sql, before: number, most: number, kept = MOST): Promise<number> {
  const rows = query.selectFrom('audit').select('id').limit(most);
  const old = await rows.where('at', '<', before).orderBy('at').execute();
  const last = query.selectFrom('audit').select(({ fn, eb }) => eb(fn.max('id'), '-', kept).as('id'));
  const surplus = await rows.where('id', '<=', last).orderBy('id').execute();
  // A row may be both.
  const ids = [...new Set([...old, ...surplus].map(({ id }) => id))].slice(0, most);
  if (ids.length > 0) await query.deleteFrom('audit').where('id', 'in', ids).execute();
  return ids.length;
}
