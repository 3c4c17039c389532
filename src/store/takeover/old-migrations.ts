import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Of a change; see `store/next-change.ts`. */
const QUEUE = sql`case when kind = 'read' then 'read' when lane = 'backfill' then 'backfill' when weight > 1 then 'finished' else 'live' end`;

/** As it is since reads may wait in the lane of backfills. */
const QUEUE_WITH_SLOW_READS = sql`case when lane = 'backfill' then 'backfill' when kind = 'read' then 'read' when weight > 1 then 'finished' else 'live' end`;

/**
 * Migrations of the old files, one for each workspace, which are brought up to date before their rows are imported. No version
 * adds to these migrations any more.
 */
export const OLD_MIGRATIONS: Readonly<Record<string, Migration>> = {
  '001_first': {
    async up(db) {
      await db.schema
        .createTable('meta')
        .addColumn('name', 'text', (column) => column.primaryKey())
        .addColumn('value', 'text', (column) => column.notNull())
        .execute();
      await db.schema
        .createTable('inbox')
        .addColumn('id', 'integer', (column) => column.primaryKey().autoIncrement())
        .addColumn('connection', 'text', (column) => column.notNull())
        .addColumn('delivery_key', 'text', (column) => column.notNull())
        .addColumn('source', 'text', (column) => column.notNull())
        .addColumn('event', 'text', (column) => column.notNull())
        .addColumn('received_at', 'integer', (column) => column.notNull())
        .addColumn('state', 'text', (column) => column.notNull())
        .addColumn('reason', 'text')
        .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
        .addColumn('settled_at', 'integer')
        // Last, so that reading the small columns does not walk a large body's overflow pages.
        .addColumn('body', 'blob')
        .addUniqueConstraint('inbox_key', ['connection', 'delivery_key'])
        .execute();
      await db.schema
        .createIndex('inbox_pending')
        .on('inbox')
        .column('id')
        .where(sql.ref('state'), '=', 'pending')
        .execute();
      await db.schema
        .createIndex('inbox_quarantined')
        .on('inbox')
        .column('id')
        .where(sql.ref('state'), '=', 'quarantined')
        .execute();
      await db.schema.createIndex('inbox_received').on('inbox').column('received_at').execute();
      // Rows whose body is still to be purged; a row enters it when it is settled, so that appending does not pay.
      await db.schema
        .createIndex('inbox_bodies')
        .on('inbox')
        .column('settled_at')
        .where(sql.ref('settled_at'), 'is not', null)
        .where(sql.ref('body'), 'is not', null)
        .execute();
      await db.schema
        .createTable('items')
        .addColumn('key', 'text', (column) => column.primaryKey())
        .addColumn('kind', 'text', (column) => column.notNull())
        .addColumn('connector', 'text', (column) => column.notNull())
        .addColumn('connection', 'text', (column) => column.notNull())
        .addColumn('provider_time', 'integer', (column) => column.notNull())
        .addColumn('hash', 'text', (column) => column.notNull())
        .addColumn('finished', 'integer', (column) => column.notNull())
        .addColumn('gone', 'integer', (column) => column.notNull())
        .addColumn('seen_at', 'integer', (column) => column.notNull())
        .addColumn('fields', 'text', (column) => column.notNull())
        .execute();
      await db.schema.createIndex('items_gone').on('items').column('seen_at').where(sql.ref('gone'), '=', 1).execute();
      await db.schema
        .createTable('mentions')
        .addColumn('item_key', 'text', (column) => column.notNull())
        .addColumn('task_key', 'text', (column) => column.notNull())
        .addColumn('reason', 'text', (column) => column.notNull())
        .addPrimaryKeyConstraint('mentions_key', ['item_key', 'task_key'])
        .execute();
      await db.schema.createIndex('mentions_task').on('mentions').column('task_key').execute();
      await db.schema
        .createTable('tasks')
        .addColumn('task_id', 'text', (column) => column.primaryKey())
        .addColumn('key', 'text', (column) => column.notNull())
        .addColumn('source', 'text', (column) => column.notNull())
        .addColumn('status', 'text', (column) => column.notNull())
        .addColumn('fields', 'text', (column) => column.notNull())
        .addColumn('seen_at', 'integer', (column) => column.notNull())
        .execute();
      await db.schema
        .createTable('gateway_tokens')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('digest', 'text', (column) => column.notNull().unique())
        .addColumn('description', 'text', (column) => column.notNull())
        .addColumn('created_at', 'integer', (column) => column.notNull())
        .addColumn('revoked_at', 'integer')
        .execute();
      await db.schema.createIndex('tasks_by_key').on('tasks').column('key').execute();
      await db.schema.createIndex('tasks_by_source').on('tasks').column('source').execute();
      await db.schema
        .createTable('entities')
        .addColumn('entity', 'text', (column) => column.primaryKey())
        .addColumn('kind', 'text', (column) => column.notNull())
        .addColumn('item_key', 'text')
        .addColumn('task_id', 'text')
        .addColumn('desired', 'text')
        .addColumn('known', 'text')
        .addColumn('known_at', 'integer')
        .addColumn('remote_id', 'text')
        .addColumn('hand', 'text')
        .execute();
      await db.schema.createIndex('entities_item').on('entities').column('item_key').execute();
      await db.schema.createIndex('entities_task').on('entities').column('task_id').execute();
      await db.schema
        .createTable('outbox')
        .addColumn('entity', 'text', (column) => column.primaryKey())
        .addColumn('kind', 'text', (column) => column.notNull())
        .addColumn('lane', 'text', (column) => column.notNull())
        .addColumn('since', 'integer', (column) => column.notNull())
        .addColumn('due', 'integer', (column) => column.notNull())
        .addColumn('weight', 'integer', (column) => column.notNull())
        .addColumn('not_before', 'integer', (column) => column.notNull())
        .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
        .addColumn('state', 'text', (column) => column.notNull())
        .addColumn('sent', 'text')
        .addColumn('sent_at', 'integer')
        .addColumn('next_since', 'integer')
        .addColumn('error', 'text')
        .addColumn('waiting', 'text', (column) => column.notNull())
        .execute();
      await db.schema.createIndex('outbox_due').on('outbox').columns(['state', 'due']).execute();
      await db.schema
        .createTable('fetches')
        .addColumn('reference', 'text', (column) => column.primaryKey())
        .addColumn('connection', 'text', (column) => column.notNull())
        .addColumn('since', 'integer', (column) => column.notNull())
        .addColumn('not_before', 'integer', (column) => column.notNull())
        .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
        .addColumn('error', 'text')
        .addColumn('delivery_id', 'integer', (column) => column.notNull())
        .addColumn('asks', 'integer', (column) => column.notNull().defaultTo(1))
        .execute();
      await db.schema
        .createTable('polls')
        .addColumn('connection', 'text', (column) => column.notNull())
        .addColumn('unit', 'text', (column) => column.notNull())
        .addColumn('watermark', 'text')
        .addColumn('walk', 'text')
        .addColumn('etag', 'text')
        .addColumn('digest', 'text')
        .addColumn('completed_at', 'integer')
        .addColumn('error', 'text')
        .addColumn('failed_at', 'integer')
        .addPrimaryKeyConstraint('polls_key', ['connection', 'unit'])
        .execute();
      await db.schema
        .createTable('ledger')
        .addColumn('id', 'integer', (column) => column.primaryKey().autoIncrement())
        .addColumn('boot', 'text', (column) => column.notNull())
        .addColumn('lane', 'text', (column) => column.notNull())
        .addColumn('started', 'real', (column) => column.notNull())
        .addColumn('completed', 'real')
        .addColumn('status', 'integer')
        .execute();
    },
  },
  '002_guard': {
    async up(db) {
      await db.schema.alterTable('outbox').addColumn('effect', 'text').execute();
      await db.schema.alterTable('outbox').addColumn('guard', 'text').execute();
      // What the guard counts is answered by the index alone.
      await db.schema.createIndex('outbox_effect').on('outbox').columns(['effect', 'state', 'guard', 'kind']).execute();
    },
  },
  '003_history': {
    async up(db) {
      await db.schema
        .createTable('backfills')
        .addColumn('connection', 'text', (column) => column.notNull())
        .addColumn('unit', 'text', (column) => column.notNull())
        .addColumn('since', 'text')
        .addColumn('page', 'text')
        .addColumn('pages', 'integer', (column) => column.notNull().defaultTo(0))
        .addColumn('items', 'integer', (column) => column.notNull().defaultTo(0))
        .addColumn('total', 'integer')
        .addColumn('started_at', 'integer', (column) => column.notNull())
        .addColumn('finished_at', 'integer')
        .addColumn('error', 'text')
        .addColumn('attempts', 'integer', (column) => column.notNull().defaultTo(0))
        .addColumn('not_before', 'integer', (column) => column.notNull().defaultTo(0))
        .addPrimaryKeyConstraint('backfills_key', ['connection', 'unit'])
        .execute();
      await db.schema
        .createTable('sweeps')
        .addColumn('connection', 'text', (column) => column.notNull())
        .addColumn('unit', 'text', (column) => column.notNull())
        .addColumn('completed_at', 'integer')
        .addColumn('listed', 'integer')
        .addColumn('asked', 'integer')
        .addColumn('error', 'text')
        .addColumn('failed_at', 'integer')
        .addPrimaryKeyConstraint('sweeps_key', ['connection', 'unit'])
        .execute();
    },
  },
  '004_rules': {
    async up(db) {
      // Not only tasks are named.
      await db.schema.alterTable('mentions').renameColumn('task_key', 'name').execute();
      await db.schema
        .createTable('item_names')
        .addColumn('item_key', 'text', (column) => column.notNull())
        .addColumn('name', 'text', (column) => column.notNull())
        .addPrimaryKeyConstraint('item_names_key', ['item_key', 'name'])
        .execute();
      await db.schema.createIndex('item_names_name').on('item_names').column('name').execute();
      await db.schema.alterTable('items').addColumn('standing', 'text').execute();
      await db.schema.alterTable('entities').addColumn('written', 'text').execute();
    },
  },
  '005_packed_bodies': {
    async up(db) {
      // Bodies that are there stand as they came: so says null.
      await db.schema.alterTable('inbox').addColumn('unpacked_length', 'integer').execute();
    },
  },
  '005_write_back': {
    async up(db) {
      await db.schema
        .createTable('notices')
        .addColumn('item_key', 'text', (column) => column.notNull())
        .addColumn('kind', 'text', (column) => column.notNull())
        .addColumn('connection', 'text', (column) => column.notNull())
        .addColumn('wanted', 'text')
        .addColumn('done', 'text')
        .addColumn('state', 'text', (column) => column.notNull())
        .addColumn('not_before', 'integer', (column) => column.notNull())
        .addColumn('attempts', 'integer', (column) => column.notNull())
        .addColumn('error', 'text')
        .addPrimaryKeyConstraint('notices_key', ['item_key', 'kind'])
        .execute();
      await db.schema.createIndex('notices_waiting').on('notices').columns(['state', 'not_before']).execute();
    },
  },
  '006_fetches_due': {
    async up(db) {
      // A lost sweep or a new rule may ask for tens of thousands: the next one is found without a look at all of them.
      await db.schema.createIndex('fetches_due').on('fetches').columns(['connection', 'since']).execute();
      await db.schema.createIndex('fetches_later').on('fetches').column('not_before').execute();
    },
  },
  '007_job_runs': {
    async up(db) {
      await db.schema
        .createTable('job_runs')
        .addColumn('job', 'text', (column) => column.primaryKey())
        .addColumn('last_at', 'integer', (column) => column.notNull())
        .execute();
      // Sweeps kept theirs among the facts.
      await sql`insert into job_runs select 'sweep.' || substr(name, 7), cast(value as integer) from meta where name like 'swept.%'`.execute(
        db,
      );
      await sql`delete from meta where name like 'swept.%'`.execute(db);
    },
  },
  '007_scope_names': {
    async up(db) {
      await db.schema
        .createTable('scope_names')
        .addColumn('connection', 'text', (column) => column.notNull())
        .addColumn('entry', 'text', (column) => column.notNull())
        .addColumn('id', 'text', (column) => column.notNull())
        .addColumn('called', 'text', (column) => column.notNull())
        .addColumn('elsewhere', 'text')
        .addColumn('asked_at', 'integer')
        .addPrimaryKeyConstraint('scope_names_key', ['connection', 'entry'])
        .execute();
    },
  },
  '008_queues': {
    async up(db) {
      // Within one queue the order of due times is the order of sending: an index finds the next one of a million.
      await db.schema
        .alterTable('outbox')
        .addColumn('queue', 'text', (column) => column.generatedAlwaysAs(QUEUE))
        .execute();
      await addQueueIndexes(db);
    },
  },
  '009_status_reads': {
    async up(db) {
      // The oldest of each lane, and links that a person removed: found without a look at all rows.
      await db.schema.createIndex('outbox_age').on('outbox').columns(['state', 'lane', 'since']).execute();
      await db.schema
        .createIndex('entities_removed')
        .on('entities')
        .column('entity')
        .where(sql.ref('hand'), '=', 'removed')
        .execute();
    },
  },
  '009_standing_comments': {
    async up(db) {
      await db.schema.alterTable('notices').addColumn('standing', 'text').execute();
    },
  },
  '010_workspace_sweeps': {
    async up(db) {
      await db.schema
        .createTable('workspace_sweeps')
        .addColumn('id', 'integer', (column) => column.primaryKey().autoIncrement())
        .addColumn('started_at', 'integer', (column) => column.notNull())
        .addColumn('tasks_at', 'integer')
        .addColumn('tasks', 'integer', (column) => column.notNull().defaultTo(0))
        .addColumn('list_began_at', 'integer')
        .addColumn('records', 'integer', (column) => column.notNull().defaultTo(0))
        .addColumn('records_at', 'integer')
        .addColumn('finished_at', 'integer')
        .execute();
      await db.schema
        .createTable('workspace_listed')
        .addColumn('entity', 'text', (column) => column.primaryKey())
        .execute();
      await db.schema
        .createTable('workspace_findings')
        .addColumn('sweep', 'integer', (column) => column.notNull())
        .addColumn('entity', 'text', (column) => column.notNull())
        .addColumn('what', 'text', (column) => column.notNull())
        .addColumn('found_at', 'integer', (column) => column.notNull())
        .addPrimaryKeyConstraint('workspace_findings_key', ['sweep', 'entity', 'what'])
        .execute();
      await db.schema.dropIndex('outbox_next').execute();
      await db.schema.dropIndex('outbox_turn').execute();
      await db.schema.alterTable('outbox').dropColumn('queue').execute();
      await db.schema
        .alterTable('outbox')
        .addColumn('queue', 'text', (column) => column.generatedAlwaysAs(QUEUE_WITH_SLOW_READS))
        .execute();
      await addQueueIndexes(db);
    },
  },
};

/** Within one queue the order of due times is the order of sending. */
async function addQueueIndexes(db: Kysely<unknown>): Promise<void> {
  const next = ['state', 'queue', 'due', 'entity', 'not_before'];
  await db.schema.createIndex('outbox_next').on('outbox').columns(next).execute();
  const turn = ['state', 'queue', 'not_before', 'due', 'entity'];
  await db.schema.createIndex('outbox_turn').on('outbox').columns(turn).execute();
}
