import { type ColumnDefinitionBuilder, type Kysely, type RawBuilder, sql } from 'kysely';
import { type Dialect, dialectOf, textIn } from '../../platform/database/dialect.ts';
import { createCounts } from '../counts.ts';
import { createInstallationTables, createReplicaTables } from './installation-tables.ts';
import { createStatistics } from './statistics.ts';
import { WORKSPACE_TABLES, type WorkspaceTable } from './tables.ts';

/** Computes the queue of a change; see `store/next-change.ts`. */
const QUEUE = sql`case when lane = 'backfill' then 'backfill' when kind = 'read' then 'read' when weight > 1 then 'finished' else 'live' end`;

/**
 * Creates all tables of `worksync.db`. `tables.ts` and `installation-tables.ts` describe their columns.
 *
 * In the tables of workspaces, `workspace` is the first column of each key and each index, so that the rows of one workspace are
 * one range of each.
 */
export async function createTables(db: Kysely<unknown>): Promise<void> {
  await createInstallationTables(db);
  await createReplicaTables(db);
  await createIntakeTables(db);
  await createItemTables(db);
  await createTaskTables(db);
  await createOutboxTables(db);
  await createSweepTables(db);
  await createRequestTables(db);
  await createFactTables(db);
  await createCounts(db);
  await createStatistics(db);
}

/** Creates the inbox, and the states of fetches, polls, sweeps and backfills. */
async function createIntakeTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('inbox')
    .addColumn('id', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('workspace', 'integer', notNull)
    .addColumn('connection', 'text', notNull)
    .addColumn('delivery_key', 'text', notNull)
    .addColumn('source', 'text', notNull)
    .addColumn('event', 'text', notNull)
    .addColumn('received_at', 'bigint', notNull)
    .addColumn('state', 'text', notNull)
    .addColumn('reason', 'text')
    .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('settled_at', 'bigint')
    .addColumn('unpacked_length', 'integer')
    // The last column, so that reading the small ones does not walk the overflow pages of a large body.
    .addColumn('body', 'blob')
    .addUniqueConstraint('inbox_key', ['workspace', 'connection', 'delivery_key'])
    .execute();
  await index(db, 'inbox', 'pending', ['id']).where(sql.ref('state'), '=', 'pending').execute();
  await index(db, 'inbox', 'quarantined', ['id']).where(sql.ref('state'), '=', 'quarantined').execute();
  await index(db, 'inbox', 'received', ['received_at', 'source']).execute();
  // Rows whose body is still to be purged. A row enters this index when it is settled, so that appending stays cheap.
  await index(db, 'inbox', 'bodies', ['settled_at'])
    .where(sql.ref('settled_at'), 'is not', null)
    .where(sql.ref('body'), 'is not', null)
    .execute();

  await workspaceTable(db, 'fetches')
    .addColumn('reference', 'text', notNull)
    .addColumn('connection', 'text', notNull)
    .addColumn('since', 'bigint', notNull)
    .addColumn('not_before', 'bigint', notNull)
    .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('error', 'text')
    .addColumn('delivery_id', 'integer', notNull)
    .addColumn('asks', 'integer', (column) => column.notNull().defaultTo(1))
    .execute();
  // A lost sweep or a new rule may request tens of thousands of fetches: these indexes find the next one without reading all.
  await index(db, 'fetches', 'due', ['connection', 'since']).execute();
  await index(db, 'fetches', 'later', ['not_before']).execute();

  await workspaceTable(db, 'polls')
    .addColumn('connection', 'text', notNull)
    .addColumn('unit', 'text', notNull)
    .addColumn('watermark', 'text')
    .addColumn('walk', 'text')
    .addColumn('etag', 'text')
    .addColumn('digest', 'text')
    .addColumn('completed_at', 'bigint')
    .addColumn('error', 'text')
    .addColumn('failed_at', 'bigint')
    .execute();
  await workspaceTable(db, 'sweeps')
    .addColumn('connection', 'text', notNull)
    .addColumn('unit', 'text', notNull)
    .addColumn('completed_at', 'bigint')
    .addColumn('listed', 'integer')
    .addColumn('asked', 'integer')
    .addColumn('error', 'text')
    .addColumn('failed_at', 'bigint')
    .execute();
  await workspaceTable(db, 'backfills')
    .addColumn('connection', 'text', notNull)
    .addColumn('unit', 'text', notNull)
    .addColumn('since', 'text')
    .addColumn('page', 'text')
    .addColumn('pages', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('items', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('total', 'integer')
    .addColumn('started_at', 'bigint', notNull)
    .addColumn('finished_at', 'bigint')
    .addColumn('error', 'text')
    .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('not_before', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute();
  await workspaceTable(db, 'scope_names')
    .addColumn('connection', 'text', notNull)
    .addColumn('entry', 'text', notNull)
    .addColumn('id', 'text', notNull)
    .addColumn('called', 'text', notNull)
    .addColumn('elsewhere', 'text')
    .addColumn('asked_at', 'bigint')
    .execute();
}

/** Creates the items of vendors, their names, and the names that their texts mention. */
async function createItemTables(db: Kysely<unknown>): Promise<void> {
  const dialect = dialectOf(db);
  await workspaceTable(db, 'items')
    .addColumn('key', 'text', notNull)
    .addColumn('kind', 'text', notNull)
    .addColumn('connector', 'text', notNull)
    .addColumn('connection', 'text', notNull)
    .addColumn('provider_time', 'bigint', notNull)
    .addColumn('hash', 'text', notNull)
    .addColumn('finished', 'integer', notNull)
    .addColumn('gone', 'integer', notNull)
    .addColumn('seen_at', 'bigint', notNull)
    .addColumn('unverified', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('deliveries', 'text')
    .addColumn('standing', 'text')
    .addColumn('fields', 'text', notNull)
    .addColumn('url', 'text', (column) => column.generatedAlwaysAs(inItem(dialect, 'url')))
    .addColumn('called', 'text', (column) => column.generatedAlwaysAs(nameOfItem(dialect)))
    .execute();
  await index(db, 'items', 'gone', ['seen_at']).where(sql.ref('gone'), '=', 1).execute();
  // A new rule re-evaluates open items only: few of the items that accumulate over the years.
  await index(db, 'items', 'open', ['key']).where(sql.ref('finished'), '=', 0).where(sql.ref('gone'), '=', 0).execute();
  // Empty except after a restore. Open items come first.
  await index(db, 'items', 'unverified', ['connection', 'finished', 'key'])
    .where(sql.ref('unverified'), '=', 1)
    .execute();
  await index(db, 'items', 'url', ['url', 'seen_at']).execute();
  await index(db, 'items', 'called', ['called', 'seen_at']).execute();
  await workspaceTable(db, 'mentions')
    .addColumn('item_key', 'text', notNull)
    .addColumn('name', 'text', notNull)
    .addColumn('reason', 'text', notNull)
    .execute();
  await index(db, 'mentions', 'name', ['name']).execute();
  await workspaceTable(db, 'item_names')
    .addColumn('item_key', 'text', notNull)
    .addColumn('name', 'text', notNull)
    .addColumn('place', 'text')
    .addColumn('container', 'text')
    .addColumn('former_at', 'bigint')
    .execute();
  await index(db, 'item_names', 'name', ['name']).execute();
  await index(db, 'item_names', 'place', ['place']).execute();
}

/** Creates the cached tasks, and the desired and known states of links, records, tasks and attachments. */
async function createTaskTables(db: Kysely<unknown>): Promise<void> {
  const dialect = dialectOf(db);
  await workspaceTable(db, 'tasks')
    .addColumn('task_id', 'text', notNull)
    .addColumn('key', 'text', notNull)
    .addColumn('source', 'text', notNull)
    .addColumn('status', 'text', notNull)
    .addColumn('fields', 'text', notNull)
    .addColumn('seen_at', 'bigint', notNull)
    .addColumn('prefix', 'text', (column) => column.generatedAlwaysAs(PREFIX))
    .addColumn('number', 'integer', (column) => column.generatedAlwaysAs(numberOfKey(dialect)))
    .execute();
  await index(db, 'tasks', 'by_key', ['key']).execute();
  await index(db, 'tasks', 'by_source', ['source']).execute();
  // Finds the highest number of each prefix: an unknown key with a higher number may be that of a new task.
  await index(db, 'tasks', 'by_number', ['prefix', 'number']).execute();
  await workspaceTable(db, 'entities')
    .addColumn('entity', 'text', notNull)
    .addColumn('kind', 'text', notNull)
    .addColumn('item_key', 'text')
    .addColumn('task_id', 'text')
    .addColumn('desired', 'text')
    .addColumn('known', 'text')
    .addColumn('known_at', 'bigint')
    .addColumn('remote_id', 'text')
    .addColumn('hand', 'text')
    .addColumn('written', 'text')
    .addColumn('revision', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute();
  await index(db, 'entities', 'item', ['item_key']).execute();
  await index(db, 'entities', 'task', ['task_id']).execute();
  await index(db, 'entities', 'removed', ['entity']).where(sql.ref('hand'), '=', 'removed').execute();
  // Links that worksync removed are purged a day later.
  await index(db, 'entities', 'gone', ['known_at']).where(sql.ref('hand'), '=', 'gone').execute();
}

/** Creates the changes to send, and the notices to write back. */
async function createOutboxTables(db: Kysely<unknown>): Promise<void> {
  await workspaceTable(db, 'outbox')
    .addColumn('entity', 'text', notNull)
    .addColumn('kind', 'text', notNull)
    .addColumn('lane', 'text', notNull)
    .addColumn('since', 'bigint', notNull)
    .addColumn('due', 'bigint', notNull)
    .addColumn('weight', 'integer', notNull)
    .addColumn('not_before', 'bigint', notNull)
    .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('state', 'text', notNull)
    .addColumn('sent', 'text')
    .addColumn('sent_at', 'bigint')
    .addColumn('next_since', 'bigint')
    .addColumn('error', 'text')
    .addColumn('effect', 'text')
    .addColumn('guard', 'text')
    .addColumn('waiting', 'text', notNull)
    .addColumn('queue', 'text', (column) => column.generatedAlwaysAs(QUEUE).stored())
    .execute();
  await index(db, 'outbox', 'due', ['state', 'due']).execute();
  // Within one queue changes are sent in the order of their due times, so an index finds the next one of a million.
  await index(db, 'outbox', 'next', ['state', 'queue', 'due', 'entity', 'not_before']).execute();
  await index(db, 'outbox', 'turn', ['state', 'queue', 'not_before', 'due', 'entity']).execute();
  await index(db, 'outbox', 'age', ['state', 'lane', 'since']).execute();
  // This index alone answers the counts of the guard.
  await index(db, 'outbox', 'effect', ['effect', 'state', 'guard', 'kind']).execute();
  await workspaceTable(db, 'notices')
    .addColumn('item_key', 'text', notNull)
    .addColumn('kind', 'text', notNull)
    .addColumn('connection', 'text', notNull)
    .addColumn('wanted', 'text')
    .addColumn('done', 'text')
    .addColumn('state', 'text', notNull)
    .addColumn('not_before', 'bigint', notNull)
    .addColumn('attempts', 'integer', notNull)
    .addColumn('error', 'text')
    .addColumn('standing', 'text')
    .execute();
  await index(db, 'notices', 'waiting', ['state', 'not_before']).execute();
}

/** Creates the progress and the findings of sweeps of the workspace. */
async function createSweepTables(db: Kysely<unknown>): Promise<void> {
  await workspaceTable(db, 'workspace_sweeps')
    .addColumn('id', 'integer', notNull)
    .addColumn('started_at', 'bigint', notNull)
    .addColumn('tasks_at', 'bigint')
    .addColumn('tasks', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('list_began_at', 'bigint')
    .addColumn('records', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('records_at', 'bigint')
    .addColumn('finished_at', 'bigint')
    .execute();
  await workspaceTable(db, 'workspace_listed').addColumn('entity', 'text', notNull).execute();
  await workspaceTable(db, 'workspace_findings')
    .addColumn('sweep', 'integer', notNull)
    .addColumn('entity', 'text', notNull)
    .addColumn('what', 'text', notNull)
    .addColumn('found_at', 'bigint', notNull)
    .execute();
}

/** Creates the ledger of requests to the workspace, the use of the quota by caller, and the history of requests. */
async function createRequestTables(db: Kysely<unknown>): Promise<void> {
  await workspaceTable(db, 'ledger')
    .addColumn('id', 'integer', notNull)
    .addColumn('boot', 'text', notNull)
    .addColumn('lane', 'text', notNull)
    .addColumn('started', 'double precision', notNull)
    .addColumn('completed', 'double precision')
    .addColumn('status', 'integer')
    .addColumn('caller', 'text')
    .execute();
  await workspaceTable(db, 'quota_use')
    .addColumn('since', 'bigint', notNull)
    .addColumn('caller', 'text', notNull)
    .addColumn('requests', 'integer', notNull)
    .addColumn('refused', 'integer', notNull)
    .execute();
  await workspaceTable(db, 'requests')
    .addColumn('id', 'integer', notNull)
    .addColumn('entity', 'text', notNull)
    .addColumn('kind', 'text', notNull)
    .addColumn('item_key', 'text')
    .addColumn('task_id', 'text')
    .addColumn('action', 'text', notNull)
    .addColumn('lane', 'text', notNull)
    .addColumn('since', 'bigint', notNull)
    .addColumn('due', 'bigint', notNull)
    .addColumn('asked_at', 'bigint', notNull)
    .addColumn('slot_at', 'bigint', notNull)
    .addColumn('sent_at', 'bigint', notNull)
    .addColumn('completed_at', 'bigint', notNull)
    .addColumn('status', 'integer')
    .addColumn('error', 'text')
    .addColumn('outcome', 'text', notNull)
    .addColumn('attempt', 'integer', notNull)
    .addColumn('deliveries', 'text', notNull)
    .addColumn('answer', 'text')
    .execute();
  await index(db, 'requests', 'item', ['item_key', 'id']).where(sql.ref('item_key'), 'is not', null).execute();
  await index(db, 'requests', 'completed', ['completed_at']).execute();
}

/** Creates the facts by name, the last runs of scheduled jobs, and the tokens of the gateway. */
async function createFactTables(db: Kysely<unknown>): Promise<void> {
  await workspaceTable(db, 'meta').addColumn('name', 'text', notNull).addColumn('value', 'text', notNull).execute();
  await workspaceTable(db, 'job_runs')
    .addColumn('job', 'text', notNull)
    .addColumn('last_at', 'bigint', notNull)
    .execute();
  await workspaceTable(db, 'gateway_tokens')
    .addColumn('id', 'text', notNull)
    .addColumn('digest', 'text', notNull)
    .addColumn('description', 'text', notNull)
    .addColumn('created_at', 'bigint', notNull)
    .addColumn('revoked_at', 'bigint')
    .addUniqueConstraint('gateway_tokens_digest', ['workspace', 'digest'])
    .execute();
}

/** Begins a table of workspaces, with its column `workspace` and its primary key. The caller adds the other columns. */
function workspaceTable(db: Kysely<unknown>, name: WorkspaceTable) {
  // Kysely knows only the columns that were added so far.
  const key = ['workspace', ...WORKSPACE_TABLES[name]] as 'workspace'[];
  return db.schema
    .createTable(name)
    .addColumn('workspace', 'integer', notNull)
    .addPrimaryKeyConstraint(`${name}_key`, key);
}

function notNull(column: ColumnDefinitionBuilder): ColumnDefinitionBuilder {
  return column.notNull();
}

/** Begins an index of a table of workspaces. The workspace is its first column. */
function index(db: Kysely<unknown>, table: WorkspaceTable, name: string, columns: readonly string[]) {
  return db.schema
    .createIndex(`${table}_${name}`)
    .on(table)
    .columns(['workspace', ...columns]);
}

/** The prefix and the number of a task key: `BUG-` and 12 of `BUG-12`. */
const PREFIX = sql`rtrim(key, '0123456789')`;
const DIGITS = sql`substr(key, length(${PREFIX}) + 1)`;

/** Reads the empty text as 0, and too many digits as the highest number, as SQLite does. PostgreSQL needs an expression for that. */
function numberOfKey(dialect: Dialect): RawBuilder<unknown> {
  return dialect === 'sqlite'
    ? sql`cast(${DIGITS} as integer)`
    : sql`least(('0' || ${DIGITS})::numeric, 9223372036854775807)::bigint`;
}

function inItem(dialect: Dialect, field: string): RawBuilder<string | null> {
  return textIn(dialect, 'fields', ['item', field]);
}

/** Returns `acme/api#12` for a pull request and for an issue whose identifier is a number; otherwise the identifier: `ENG-123`. */
function nameOfItem(dialect: Dialect): RawBuilder<string | null> {
  const [identifier, repository, container] = ['identifier', 'repoName', 'containerName'].map((field) =>
    inItem(dialect, field),
  );
  return sql`case
  when kind = 'pull_request' then ${repository} || '#' || ${identifier}
  when ${identifier} like '#%' then ${container} || ${identifier}
  else ${identifier} end`;
}
