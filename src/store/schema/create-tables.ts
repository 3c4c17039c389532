import { type Kysely, type RawBuilder, sql } from 'kysely';
import { type Dialect, dialectOf, textIn } from '../../platform/database/dialect.ts';
import { createCounts } from '../counts.ts';
import { createInstallationTables, createReplicaTables } from './installation-tables.ts';
import { createStatistics } from './statistics.ts';

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
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('connection', 'text', (column) => column.notNull())
    .addColumn('delivery_key', 'text', (column) => column.notNull())
    .addColumn('source', 'text', (column) => column.notNull())
    .addColumn('event', 'text', (column) => column.notNull())
    .addColumn('received_at', 'bigint', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('reason', 'text')
    .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('settled_at', 'bigint')
    .addColumn('unpacked_length', 'integer')
    // The last column, so that reading the small ones does not walk the overflow pages of a large body.
    .addColumn('body', 'blob')
    .addUniqueConstraint('inbox_key', ['workspace', 'connection', 'delivery_key'])
    .execute();
  const inbox = (name: string, column: string) =>
    db.schema.createIndex(`inbox_${name}`).on('inbox').columns(['workspace', column]);
  await inbox('pending', 'id').where(sql.ref('state'), '=', 'pending').execute();
  await inbox('quarantined', 'id').where(sql.ref('state'), '=', 'quarantined').execute();
  await inbox('received', 'received_at').execute();
  // Rows whose body is still to be purged. A row enters this index when it is settled, so that appending stays cheap.
  await inbox('bodies', 'settled_at')
    .where(sql.ref('settled_at'), 'is not', null)
    .where(sql.ref('body'), 'is not', null)
    .execute();

  await db.schema
    .createTable('fetches')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('reference', 'text', (column) => column.notNull())
    .addColumn('connection', 'text', (column) => column.notNull())
    .addColumn('since', 'bigint', (column) => column.notNull())
    .addColumn('not_before', 'bigint', (column) => column.notNull())
    .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('error', 'text')
    .addColumn('delivery_id', 'integer', (column) => column.notNull())
    .addColumn('asks', 'integer', (column) => column.notNull().defaultTo(1))
    .addPrimaryKeyConstraint('fetches_key', ['workspace', 'reference'])
    .execute();
  // A lost sweep or a new rule may request tens of thousands of fetches: these indexes find the next one without reading all.
  await index(db, 'fetches', 'due', ['connection', 'since']);
  await index(db, 'fetches', 'later', ['not_before']);

  await db.schema
    .createTable('polls')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('connection', 'text', (column) => column.notNull())
    .addColumn('unit', 'text', (column) => column.notNull())
    .addColumn('watermark', 'text')
    .addColumn('walk', 'text')
    .addColumn('etag', 'text')
    .addColumn('digest', 'text')
    .addColumn('completed_at', 'bigint')
    .addColumn('error', 'text')
    .addColumn('failed_at', 'bigint')
    .addPrimaryKeyConstraint('polls_key', ['workspace', 'connection', 'unit'])
    .execute();
  await db.schema
    .createTable('sweeps')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('connection', 'text', (column) => column.notNull())
    .addColumn('unit', 'text', (column) => column.notNull())
    .addColumn('completed_at', 'bigint')
    .addColumn('listed', 'integer')
    .addColumn('asked', 'integer')
    .addColumn('error', 'text')
    .addColumn('failed_at', 'bigint')
    .addPrimaryKeyConstraint('sweeps_key', ['workspace', 'connection', 'unit'])
    .execute();
  await db.schema
    .createTable('backfills')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('connection', 'text', (column) => column.notNull())
    .addColumn('unit', 'text', (column) => column.notNull())
    .addColumn('since', 'text')
    .addColumn('page', 'text')
    .addColumn('pages', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('items', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('total', 'integer')
    .addColumn('started_at', 'bigint', (column) => column.notNull())
    .addColumn('finished_at', 'bigint')
    .addColumn('error', 'text')
    .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('not_before', 'bigint', (column) => column.notNull().defaultTo(0))
    .addPrimaryKeyConstraint('backfills_key', ['workspace', 'connection', 'unit'])
    .execute();
  await db.schema
    .createTable('scope_names')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('connection', 'text', (column) => column.notNull())
    .addColumn('entry', 'text', (column) => column.notNull())
    .addColumn('id', 'text', (column) => column.notNull())
    .addColumn('called', 'text', (column) => column.notNull())
    .addColumn('elsewhere', 'text')
    .addColumn('asked_at', 'bigint')
    .addPrimaryKeyConstraint('scope_names_key', ['workspace', 'connection', 'entry'])
    .execute();
}

/** Creates the items of vendors, their names, and the names that their texts mention. */
async function createItemTables(db: Kysely<unknown>): Promise<void> {
  const dialect = dialectOf(db);
  await db.schema
    .createTable('items')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('connector', 'text', (column) => column.notNull())
    .addColumn('connection', 'text', (column) => column.notNull())
    .addColumn('provider_time', 'bigint', (column) => column.notNull())
    .addColumn('hash', 'text', (column) => column.notNull())
    .addColumn('finished', 'integer', (column) => column.notNull())
    .addColumn('gone', 'integer', (column) => column.notNull())
    .addColumn('seen_at', 'bigint', (column) => column.notNull())
    .addColumn('unverified', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('deliveries', 'text')
    .addColumn('standing', 'text')
    .addColumn('fields', 'text', (column) => column.notNull())
    .addColumn('url', 'text', (column) => column.generatedAlwaysAs(inItem(dialect, 'url')))
    .addColumn('called', 'text', (column) => column.generatedAlwaysAs(nameOfItem(dialect)))
    .addPrimaryKeyConstraint('items_key', ['workspace', 'key'])
    .execute();
  await db.schema
    .createIndex('items_gone')
    .on('items')
    .columns(['workspace', 'seen_at'])
    .where(sql.ref('gone'), '=', 1)
    .execute();
  // A new rule re-evaluates open items only: few of the items that accumulate over the years.
  await db.schema
    .createIndex('items_open')
    .on('items')
    .columns(['workspace', 'key'])
    .where(sql.ref('finished'), '=', 0)
    .where(sql.ref('gone'), '=', 0)
    .execute();
  // Empty except after a restore. Open items come first.
  await db.schema
    .createIndex('items_unverified')
    .on('items')
    .columns(['workspace', 'connection', 'finished', 'key'])
    .where(sql.ref('unverified'), '=', 1)
    .execute();
  await index(db, 'items', 'url', ['url', 'seen_at']);
  await index(db, 'items', 'called', ['called', 'seen_at']);
  await db.schema
    .createTable('mentions')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('item_key', 'text', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('reason', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('mentions_key', ['workspace', 'item_key', 'name'])
    .execute();
  await index(db, 'mentions', 'name', ['name']);
  await db.schema
    .createTable('item_names')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('item_key', 'text', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('place', 'text')
    .addColumn('container', 'text')
    .addColumn('former_at', 'bigint')
    .addPrimaryKeyConstraint('item_names_key', ['workspace', 'item_key', 'name'])
    .execute();
  await index(db, 'item_names', 'name', ['name']);
  await index(db, 'item_names', 'place', ['place']);
}

/** Creates the cached tasks, and the desired and known states of links, records, tasks and attachments. */
async function createTaskTables(db: Kysely<unknown>): Promise<void> {
  const dialect = dialectOf(db);
  await db.schema
    .createTable('tasks')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('task_id', 'text', (column) => column.notNull())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('source', 'text', (column) => column.notNull())
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('fields', 'text', (column) => column.notNull())
    .addColumn('seen_at', 'bigint', (column) => column.notNull())
    .addColumn('prefix', 'text', (column) => column.generatedAlwaysAs(PREFIX))
    .addColumn('number', 'integer', (column) => column.generatedAlwaysAs(numberOfKey(dialect)))
    .addPrimaryKeyConstraint('tasks_key', ['workspace', 'task_id'])
    .execute();
  await index(db, 'tasks', 'by_key', ['key']);
  await index(db, 'tasks', 'by_source', ['source']);
  // Finds the highest number of each prefix: an unknown key with a higher number may be that of a new task.
  await index(db, 'tasks', 'by_number', ['prefix', 'number']);
  await db.schema
    .createTable('entities')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('entity', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('item_key', 'text')
    .addColumn('task_id', 'text')
    .addColumn('desired', 'text')
    .addColumn('known', 'text')
    .addColumn('known_at', 'bigint')
    .addColumn('remote_id', 'text')
    .addColumn('hand', 'text')
    .addColumn('written', 'text')
    .addColumn('revision', 'bigint', (column) => column.notNull().defaultTo(0))
    .addPrimaryKeyConstraint('entities_key', ['workspace', 'entity'])
    .execute();
  await index(db, 'entities', 'item', ['item_key']);
  await index(db, 'entities', 'task', ['task_id']);
  await db.schema
    .createIndex('entities_removed')
    .on('entities')
    .columns(['workspace', 'entity'])
    .where(sql.ref('hand'), '=', 'removed')
    .execute();
  // Links that worksync removed are purged a day later.
  await db.schema
    .createIndex('entities_gone')
    .on('entities')
    .columns(['workspace', 'known_at'])
    .where(sql.ref('hand'), '=', 'gone')
    .execute();
}

/** Creates the changes to send, and the notices to write back. */
async function createOutboxTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('outbox')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('entity', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('lane', 'text', (column) => column.notNull())
    .addColumn('since', 'bigint', (column) => column.notNull())
    .addColumn('due', 'bigint', (column) => column.notNull())
    .addColumn('weight', 'integer', (column) => column.notNull())
    .addColumn('not_before', 'bigint', (column) => column.notNull())
    .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('sent', 'text')
    .addColumn('sent_at', 'bigint')
    .addColumn('next_since', 'bigint')
    .addColumn('error', 'text')
    .addColumn('effect', 'text')
    .addColumn('guard', 'text')
    .addColumn('waiting', 'text', (column) => column.notNull())
    .addColumn('queue', 'text', (column) => column.generatedAlwaysAs(QUEUE).stored())
    .addPrimaryKeyConstraint('outbox_key', ['workspace', 'entity'])
    .execute();
  await index(db, 'outbox', 'due', ['state', 'due']);
  // Within one queue changes are sent in the order of their due times, so an index finds the next one of a million.
  await index(db, 'outbox', 'next', ['state', 'queue', 'due', 'entity', 'not_before']);
  await index(db, 'outbox', 'turn', ['state', 'queue', 'not_before', 'due', 'entity']);
  await index(db, 'outbox', 'age', ['state', 'lane', 'since']);
  // This index alone answers the counts of the guard.
  await index(db, 'outbox', 'effect', ['effect', 'state', 'guard', 'kind']);
  await db.schema
    .createTable('notices')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('item_key', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('connection', 'text', (column) => column.notNull())
    .addColumn('wanted', 'text')
    .addColumn('done', 'text')
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('not_before', 'bigint', (column) => column.notNull())
    .addColumn('attempts', 'integer', (column) => column.notNull())
    .addColumn('error', 'text')
    .addColumn('standing', 'text')
    .addPrimaryKeyConstraint('notices_key', ['workspace', 'item_key', 'kind'])
    .execute();
  await index(db, 'notices', 'waiting', ['state', 'not_before']);
}

/** Creates the progress and the findings of sweeps of the workspace. */
async function createSweepTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('workspace_sweeps')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('id', 'integer', (column) => column.notNull())
    .addColumn('started_at', 'bigint', (column) => column.notNull())
    .addColumn('tasks_at', 'bigint')
    .addColumn('tasks', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('list_began_at', 'bigint')
    .addColumn('records', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('records_at', 'bigint')
    .addColumn('finished_at', 'bigint')
    .addPrimaryKeyConstraint('workspace_sweeps_key', ['workspace', 'id'])
    .execute();
  await db.schema
    .createTable('workspace_listed')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('entity', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('workspace_listed_key', ['workspace', 'entity'])
    .execute();
  await db.schema
    .createTable('workspace_findings')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('sweep', 'integer', (column) => column.notNull())
    .addColumn('entity', 'text', (column) => column.notNull())
    .addColumn('what', 'text', (column) => column.notNull())
    .addColumn('found_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('workspace_findings_key', ['workspace', 'sweep', 'entity', 'what'])
    .execute();
}

/** Creates the ledger of requests to the workspace, the use of the quota by caller, and the history of requests. */
async function createRequestTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('ledger')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('id', 'integer', (column) => column.notNull())
    .addColumn('boot', 'text', (column) => column.notNull())
    .addColumn('lane', 'text', (column) => column.notNull())
    .addColumn('started', 'double precision', (column) => column.notNull())
    .addColumn('completed', 'double precision')
    .addColumn('status', 'integer')
    .addColumn('caller', 'text')
    .addPrimaryKeyConstraint('ledger_key', ['workspace', 'id'])
    .execute();
  await db.schema
    .createTable('quota_use')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('since', 'bigint', (column) => column.notNull())
    .addColumn('caller', 'text', (column) => column.notNull())
    .addColumn('requests', 'integer', (column) => column.notNull())
    .addColumn('refused', 'integer', (column) => column.notNull())
    .addPrimaryKeyConstraint('quota_use_key', ['workspace', 'since', 'caller'])
    .execute();
  await db.schema
    .createTable('requests')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('id', 'integer', (column) => column.notNull())
    .addColumn('entity', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('item_key', 'text')
    .addColumn('task_id', 'text')
    .addColumn('action', 'text', (column) => column.notNull())
    .addColumn('lane', 'text', (column) => column.notNull())
    .addColumn('since', 'bigint', (column) => column.notNull())
    .addColumn('due', 'bigint', (column) => column.notNull())
    .addColumn('asked_at', 'bigint', (column) => column.notNull())
    .addColumn('slot_at', 'bigint', (column) => column.notNull())
    .addColumn('sent_at', 'bigint', (column) => column.notNull())
    .addColumn('completed_at', 'bigint', (column) => column.notNull())
    .addColumn('status', 'integer')
    .addColumn('error', 'text')
    .addColumn('outcome', 'text', (column) => column.notNull())
    .addColumn('attempt', 'integer', (column) => column.notNull())
    .addColumn('deliveries', 'text', (column) => column.notNull())
    .addColumn('answer', 'text')
    .addPrimaryKeyConstraint('requests_key', ['workspace', 'id'])
    .execute();
  await db.schema
    .createIndex('requests_item')
    .on('requests')
    .columns(['workspace', 'item_key', 'id'])
    .where(sql.ref('item_key'), 'is not', null)
    .execute();
  await db.schema.createIndex('requests_completed').on('requests').columns(['workspace', 'completed_at']).execute();
}

/** Creates the facts by name, the last runs of scheduled jobs, and the tokens of the gateway. */
async function createFactTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('meta')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('value', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('meta_key', ['workspace', 'name'])
    .execute();
  await db.schema
    .createTable('job_runs')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('job', 'text', (column) => column.notNull())
    .addColumn('last_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('job_runs_key', ['workspace', 'job'])
    .execute();
  await db.schema
    .createTable('gateway_tokens')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('id', 'text', (column) => column.notNull())
    .addColumn('digest', 'text', (column) => column.notNull())
    .addColumn('description', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('revoked_at', 'bigint')
    .addPrimaryKeyConstraint('gateway_tokens_key', ['workspace', 'id'])
    .addUniqueConstraint('gateway_tokens_digest', ['workspace', 'digest'])
    .execute();
}

async function index(db: Kysely<unknown>, table: string, name: string, columns: readonly string[]): Promise<void> {
  await db.schema
    .createIndex(`${table}_${name}`)
    .on(table)
    .columns(['workspace', ...columns])
    .execute();
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
