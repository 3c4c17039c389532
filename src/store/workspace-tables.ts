import { type Kysely, sql } from 'kysely';

/** Of a change; see `store/next-change.ts`. */
const QUEUE = sql`case when lane = 'backfill' then 'backfill' when kind = 'read' then 'read' when weight > 1 then 'finished' else 'live' end`;

/**
 * The tables of workspaces as `003_workspaces` makes them. Part of a released migration: never changed.
 *
 * `workspace` comes first in every key and every index, so that what is one workspace's is one range of each.
 */
export async function createWorkspaceTables(db: Kysely<unknown>): Promise<void> {
  await createIntake(db);
  await createHeld(db);
  await createOutgoing(db);
  await createKept(db);
}

/** What came in, and what reads it. */
async function createIntake(db: Kysely<unknown>): Promise<void> {
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
    // Last, so that reading the small columns does not walk a large body's overflow pages.
    .addColumn('body', 'blob')
    .addUniqueConstraint('inbox_key', ['workspace', 'connection', 'delivery_key'])
    .execute();
  const inbox = (name: string, column: string) =>
    db.schema.createIndex(`inbox_${name}`).on('inbox').columns(['workspace', column]);
  await inbox('pending', 'id').where(sql.ref('state'), '=', 'pending').execute();
  await inbox('quarantined', 'id').where(sql.ref('state'), '=', 'quarantined').execute();
  await inbox('received', 'received_at').execute();
  // Rows whose body is still to be purged; a row enters it when it is settled, so that appending does not pay.
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
  // A lost sweep or a new rule may ask for tens of thousands: the next one is found without a look at all of them.
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

/** What is known of both sides. */
async function createHeld(db: Kysely<unknown>): Promise<void> {
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
    .addColumn('standing', 'text')
    .addColumn('fields', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('items_key', ['workspace', 'key'])
    .execute();
  await db.schema
    .createIndex('items_gone')
    .on('items')
    .columns(['workspace', 'seen_at'])
    .where(sql.ref('gone'), '=', 1)
    .execute();
  for (const table of ['mentions', 'item_names'] as const) {
    await db.schema
      .createTable(table)
      .addColumn('workspace', 'integer', (column) => column.notNull())
      .addColumn('item_key', 'text', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .$call((made) => (table === 'mentions' ? made.addColumn('reason', 'text', (column) => column.notNull()) : made))
      .addPrimaryKeyConstraint(`${table}_key`, ['workspace', 'item_key', 'name'])
      .execute();
    await index(db, table, 'name', ['name']);
  }
  await db.schema
    .createTable('tasks')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('task_id', 'text', (column) => column.notNull())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('source', 'text', (column) => column.notNull())
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('fields', 'text', (column) => column.notNull())
    .addColumn('seen_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('tasks_key', ['workspace', 'task_id'])
    .execute();
  await index(db, 'tasks', 'by_key', ['key']);
  await index(db, 'tasks', 'by_source', ['source']);
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
}

/** What is to be sent. */
async function createOutgoing(db: Kysely<unknown>): Promise<void> {
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
  // Within one queue the order of due times is the order of sending: an index finds the next one of a million.
  await index(db, 'outbox', 'next', ['state', 'queue', 'due', 'entity', 'not_before']);
  await index(db, 'outbox', 'turn', ['state', 'queue', 'not_before', 'due', 'entity']);
  await index(db, 'outbox', 'age', ['state', 'lane', 'since']);
  // What the guard counts is answered by the index alone.
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
  await db.schema
    .createTable('ledger')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('id', 'integer', (column) => column.notNull())
    .addColumn('boot', 'text', (column) => column.notNull())
    .addColumn('lane', 'text', (column) => column.notNull())
    .addColumn('started', 'double precision', (column) => column.notNull())
    .addColumn('completed', 'double precision')
    .addColumn('status', 'integer')
    .addPrimaryKeyConstraint('ledger_key', ['workspace', 'id'])
    .execute();
}

/** Facts, what scheduled jobs count from, and the gateway's tokens. */
async function createKept(db: Kysely<unknown>): Promise<void> {
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
