import type { Insertable } from 'kysely';
import { entity } from '../model/change.ts';
import { chunksOf } from '../platform/lib/concurrency.ts';
import type { Schema } from './schema/tables.ts';
import { rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import type { Scope, Sql } from './workspace-scope.ts';

/** Name of the fact with the id of the workspace, as the workspace reports it for the daemon's API key. */
export const WORKSPACE_ID = 'workspace_id';

/** Name of the fact with the id of the daemon's API key, which the event of a link that worksync added shows. */
export const OWN_KEY_ID = 'own_key_id';

/** Names of the facts with the time of the last complete read of a list. */
export const TASKS_READ = 'tasks_read_at';
export const PULL_REQUESTS_READ = 'pull_requests_read_at';

/** Name of the fact with the highest delivery id at the last restore. */
export const RESTORED_AFTER = 'restored_after';

/**
 * Name of the fact that numbers the requests to the workspace. Each sent request gets the next revision, and a link or the
 * update of a task is stored with the revision at which it was written or read. Thus an answer shows whether a state became known
 * after the request was sent. No clock could show that, because clocks are set back and two events may share a millisecond.
 */
const REVISION = 'revision';

/** Returns the fact of this name, or undefined if it was never written. */
export async function readMeta(query: Scope, name: string): Promise<string | undefined> {
  const [row] = await rowsWhere(query, 'meta', 'name', [name]);
  return row?.value;
}

export async function writeMeta(query: Scope, name: string, value: string): Promise<void> {
  await saveRows(query, 'meta', [{ name, value }]);
}

export async function forgetMeta(query: Scope, name: string): Promise<void> {
  await query.deleteFrom('meta').where('name', '=', name).execute();
}

/**
 * Returns the id of the last delivery before the last restore; 0 without a restore. Earlier deliveries do not verify an item,
 * even if they are processed after the restore.
 */
export async function lastBeforeRestore(query: Scope): Promise<number> {
  return Number((await readMeta(query, RESTORED_AFTER)) ?? 0);
}

/** Returns whether this read of a list is the first complete one since a restore. */
export async function isReadAfterRestore(query: Scope, list: string): Promise<boolean> {
  const fact = list === entity.readTasks ? TASKS_READ : PULL_REQUESTS_READ;
  return (await readMeta(query, RESTORED_AFTER)) !== undefined && (await readMeta(query, fact)) === undefined;
}

export async function currentRevision(query: Scope): Promise<number> {
  return Number((await readMeta(query, REVISION)) ?? 0);
}

/** Increments and returns the revision, for a request that is sent after this transaction. */
export async function nextRevision(query: Scope): Promise<number> {
  const revision = (await currentRevision(query)) + 1;
  await writeMeta(query, REVISION, String(revision));
  return revision;
}

/** Prefix of the facts that store when triage was switched on for a connection. */
const TRIAGE = 'triage.since.';

/** Returns when triage was switched on for a connection, epoch milliseconds. */
export async function triageSince(query: Scope, connection: string): Promise<number | undefined> {
  const since = await readMeta(query, TRIAGE + connection);
  return since === undefined ? undefined : Number(since);
}

/** Switches triage on for these connections, from now on unless it is on already, and off for all others. */
export async function setTriagedConnections(query: Scope, connections: readonly string[], now: number): Promise<void> {
  const { whole, workspace } = query;
  await forgetOthers(query, TRIAGE, connections);
  await addMissing(whole, startsOf({ workspace, connections }, now));
}

type MetaRow = Insertable<Schema['meta']>;

function startsOf({ workspace, connections }: ConnectionsOfWorkspace, now: number): MetaRow[] {
  return connections.map((connection) => ({ workspace, name: TRIAGE + connection, value: String(now) }));
}

async function addMissing(query: Sql, rows: readonly MetaRow[]): Promise<void> {
  if (rows.length === 0) return;
  const added = query.insertInto('meta').values(rows);
  await added.onConflict((conflict) => conflict.columns(['workspace', 'name']).doNothing()).execute();
}

/** Deletes the facts with this prefix, except those of these connections. */
async function forgetOthers(query: Scope, prefix: string, connections: readonly string[]): Promise<void> {
  const names = connections.map((connection) => prefix + connection);
  const all = query.deleteFrom('meta').where('name', 'like', `${prefix}%`);
  await all.where('name', 'not in', ['', ...names]).execute();
}

/** Connections, and the number of their workspace. */
interface ConnectionsOfWorkspace {
  readonly workspace: number;
  readonly connections: readonly string[];
}

/** Switches triage on for connections of several workspaces, from now on unless it is on already. */
export async function recordTriageStarts(
  query: Sql,
  wanted: readonly ConnectionsOfWorkspace[],
  now: number,
): Promise<void> {
  const all = query.selectFrom('meta').select(['workspace', 'name']);
  const known = await all.where('name', 'like', `${TRIAGE}%`).execute();
  const isKnown = new Set(known.map(({ workspace, name }) => `${workspace} ${name}`));
  const rows = wanted
    .flatMap((each) => startsOf(each, now))
    .filter(({ workspace, name }) => !isKnown.has(`${workspace} ${name}`));
  for (const chunk of chunksOf(rows, ROWS_AT_ONCE)) await addMissing(query, chunk);
}

/** A row has three parameters, and a statement may have 32 766. */
const ROWS_AT_ONCE = 1_000;

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
  await forgetOthers(query, PREFIX, connections);
}
