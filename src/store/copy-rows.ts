import { sql, type Transaction } from 'kysely';
import type { Schema, Tables } from './tables.ts';

/** Kept by triggers: their rows follow from those of others. */
type Derived = 'counts';

/** The tables whose rows belong to workspaces, with the columns that tell a row from others of its workspace. */
export const WORKSPACE_TABLES = {
  meta: ['name'],
  job_runs: ['job'],
  gateway_tokens: ['id'],
  inbox: ['id'],
  fetches: ['reference'],
  polls: ['connection', 'unit'],
  sweeps: ['connection', 'unit'],
  backfills: ['connection', 'unit'],
  scope_names: ['connection', 'entry'],
  items: ['key'],
  mentions: ['item_key', 'name'],
  item_names: ['item_key', 'name'],
  tasks: ['task_id'],
  entities: ['entity'],
  outbox: ['entity'],
  notices: ['item_key', 'kind'],
  requests: ['id'],
  ledger: ['id'],
  quota_use: ['since', 'caller'],
  workspace_sweeps: ['id'],
  workspace_listed: ['entity'],
  workspace_findings: ['sweep', 'entity', 'what'],
} as const satisfies { readonly [Table in Exclude<keyof Tables, Derived>]: readonly (keyof Tables[Table])[] };

export type WorkspaceTable = keyof typeof WORKSPACE_TABLES;

interface Copy {
  /** Of the attached database: all its rows, or those of this workspace. */
  readonly from?: number;
  /** The workspace that they are of in this database. */
  readonly to: number;
}

/** Name of the database that is attached while its rows are copied. */
export const ATTACHED = 'old';

/**
 * Copies the rows of a workspace out of an attached database. The numbers of deliveries are of all workspaces: those that
 * come in go on after those that are there. @returns how many rows there were
 */
export async function copyRows(transaction: Transaction<Schema>, copy: Copy): Promise<number> {
  const offset = await lastDelivery(transaction, 'main');
  let rows = 0;
  for (const table of Object.keys(WORKSPACE_TABLES) as WorkspaceTable[])
    rows += await copyTable(transaction, table, copy, offset);
  const last = offset + (await lastDelivery(transaction, ATTACHED));
  await sql`update main.sqlite_sequence set seq = max(seq, ${last}) where name = 'inbox'`.execute(transaction);
  return rows;
}

async function copyTable(
  transaction: Transaction<Schema>,
  table: WorkspaceTable,
  { from, to }: Copy,
  offset: number,
): Promise<number> {
  const found = sql<{ name: string }>`select name from pragma_table_info(${table}, ${ATTACHED})`;
  const columns = (await found.execute(transaction)).rows
    .map(({ name }) => name)
    .filter((name) => name !== 'workspace');
  // A table that the attached database does not have yet.
  if (columns.length === 0) return 0;
  const values = columns.map((column) => renumbered(table, column, offset));
  const { numAffectedRows = 0n } = await sql`
    insert into main.${sql.table(table)} (workspace, ${sql.join(columns.map((column) => sql.ref(column)))})
    select ${to}, ${sql.join(values)} from ${sql.table(`${ATTACHED}.${table}`)}
    ${from === undefined ? sql`` : sql`where workspace = ${from}`}`.execute(transaction);
  return Number(numAffectedRows);
}

function renumbered(table: WorkspaceTable, column: string, offset: number) {
  if (offset === 0) return sql.ref(column);
  const place = `${table}.${column}`;
  if (place === 'inbox.id' || place === 'fetches.delivery_id') return sql`${sql.ref(column)} + ${offset}`;
  if (place === 'outbox.waiting') {
    const moved = sql`json_set(value, '$.id', json_extract(value, '$.id') + ${offset})`;
    return sql`(select json_group_array(json(${moved})) from json_each(waiting))`;
  }
  if (place === 'requests.deliveries' || place === 'items.deliveries')
    return sql`(select json_group_array(value + ${offset}) from json_each(${sql.ref(column)}))`;
  if (place === 'mentions.reason') {
    const delivery = sql`json_extract(reason, '$.delivery')`;
    return sql`iif(${delivery} is null, reason, json_set(reason, '$.delivery', ${delivery} + ${offset}))`;
  }
  return sql.ref(column);
}

/** The highest number that a delivery ever had. */
async function lastDelivery(transaction: Transaction<Schema>, database: string): Promise<number> {
  const sequences = sql.table(`${database}.sqlite_sequence`);
  const { rows } = await sql<{ seq: number }>`select seq from ${sequences} where name = 'inbox'`.execute(transaction);
  return rows[0]?.seq ?? 0;
}
