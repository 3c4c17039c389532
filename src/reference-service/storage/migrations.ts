import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Names sort by age. A migration that has been released is never changed; a new resource brings a new one. */
export const MIGRATIONS: Readonly<Record<string, Migration>> = {
  '001_schema': {
    async up(db) {
      await createAccess(db);
      await createTasks(db);
      await createWorkItems(db);
      await createPullRequests(db);
      await createQuotaLog(db);
      await createDocuments(db);
      await createFiles(db);
      await createAgents(db);
      await createWebhooks(db);
      await createProviderTokens(db);
    },
  },
};

async function createAccess(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('facts')
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('value', 'text', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('workspaces')
    .addColumn('workspace_id', 'text', (column) => column.primaryKey())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('users')
    .addColumn('user_id', 'text', (column) => column.primaryKey())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('members')
    .addColumn('workspace_id', 'text', (column) => column.notNull().references('workspaces.workspace_id'))
    .addColumn('user_id', 'text', (column) => column.notNull().references('users.user_id'))
    .addColumn('role', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('members_key', ['workspace_id', 'user_id'])
    .execute();
  await db.schema
    .createTable('teams')
    .addColumn('workspace_id', 'text', (column) => column.notNull().references('workspaces.workspace_id'))
    .addColumn('team_id', 'text', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('teams_key', ['workspace_id', 'team_id'])
    .execute();
  await db.schema
    .createTable('api_keys')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('api_key_id', 'text', (column) => column.notNull().unique())
    .addColumn('workspace_id', 'text', (column) => column.notNull().references('workspaces.workspace_id'))
    .addColumn('description', 'text', (column) => column.notNull())
    .addColumn('secret_hash', 'text', (column) => column.notNull().unique())
    .addColumn('key_prefix', 'text', (column) => column.notNull())
    .addColumn('created_by_user_id', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('last_used_at', 'text')
    .addColumn('revoked_at', 'text')
    .execute();
  await db.schema.createIndex('api_keys_workspace').on('api_keys').columns(['workspace_id', 'seq']).execute();
  await db.schema
    .createTable('oauth_tokens')
    .addColumn('token_id', 'text', (column) => column.primaryKey())
    .addColumn('secret_hash', 'text', (column) => column.notNull().unique())
    .addColumn('user_id', 'text', (column) => column.notNull().references('users.user_id'))
    .addColumn('workspace_id', 'text', (column) => column.references('workspaces.workspace_id'))
    .addColumn('role', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('expires_at', 'integer')
    .addColumn('revoked_at', 'text')
    .execute();
}

async function createTasks(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('counters')
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('prefix', 'text', (column) => column.notNull())
    .addColumn('value', 'integer', (column) => column.notNull())
    .addPrimaryKeyConstraint('counters_key', ['workspace_id', 'prefix'])
    .execute();
  await db.schema
    .createTable('tasks')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('task_id', 'text', (column) => column.notNull())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('title', 'text', (column) => column.notNull())
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('open', 'integer', (column) => column.notNull())
    .addColumn('priority', 'text', (column) => column.notNull())
    .addColumn('source', 'text', (column) => column.notNull())
    .addColumn('reporter_user_id', 'text', (column) => column.notNull())
    .addColumn('reported_at', 'text', (column) => column.notNull())
    .addColumn('team_ids', 'text', (column) => column.notNull())
    .addColumn('assignee_ids', 'text', (column) => column.notNull())
    .addColumn('labels', 'text', (column) => column.notNull())
    .addColumn('user_id', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('updated_at', 'text', (column) => column.notNull())
    .addColumn('completed_at', 'text')
    // Last, so that reading the small columns does not walk a long text's overflow pages.
    .addColumn('description', 'text')
    .addUniqueConstraint('tasks_id', ['workspace_id', 'task_id'])
    .addUniqueConstraint('tasks_human_key', ['workspace_id', 'key'])
    .execute();
  await db.schema.createIndex('tasks_open').on('tasks').columns(['workspace_id', 'open', 'seq']).execute();
  await db.schema.createIndex('tasks_status').on('tasks').columns(['workspace_id', 'status', 'seq']).execute();
  await db.schema
    .createTable('task_refs')
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('ref_id', 'text', (column) => column.notNull())
    .addColumn('task_seq', 'integer', (column) => column.notNull().references('tasks.seq'))
    .addPrimaryKeyConstraint('task_refs_key', ['workspace_id', 'kind', 'ref_id', 'task_seq'])
    .execute();
  await db.schema.createIndex('task_refs_task').on('task_refs').column('task_seq').execute();
}

async function createWorkItems(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('work_items')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('work_item_id', 'text', (column) => column.notNull().unique())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('task_id', 'text', (column) => column.notNull())
    .addColumn('url', 'text', (column) => column.notNull())
    // The literal service may store an address twice at a task.
    .addColumn('copy', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('title', 'text')
    .addColumn('external_id', 'text')
    .addColumn('provider', 'text')
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addUniqueConstraint('work_items_url_of_task', ['workspace_id', 'task_id', 'url', 'copy'])
    .execute();
  await db.schema.createIndex('work_items_url').on('work_items').columns(['workspace_id', 'url', 'task_id']).execute();
}

async function createPullRequests(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('pull_requests')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('provider', 'text', (column) => column.notNull())
    .addColumn('repo_id', 'text', (column) => column.notNull())
    .addColumn('identifier', 'text', (column) => column.notNull())
    .addColumn('title', 'text', (column) => column.notNull())
    .addColumn('head_branch', 'text', (column) => column.notNull())
    .addColumn('base_branch', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('draft', 'integer', (column) => column.notNull())
    .addColumn('url', 'text')
    .addColumn('author', 'text')
    .addColumn('reviewers', 'text', (column) => column.notNull())
    .addColumn('labels', 'text', (column) => column.notNull())
    .addColumn('assignees', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('updated_at', 'text', (column) => column.notNull())
    .addColumn('merged_at', 'text')
    .addColumn('description', 'text')
    .addUniqueConstraint('pull_requests_natural_key', ['workspace_id', 'provider', 'repo_id', 'identifier'])
    .execute();
  const index = (name: string, columns: string[]) =>
    db.schema
      .createIndex(name)
      .on('pull_requests')
      .columns(['workspace_id', ...columns, 'seq'])
      .execute();
  await index('pull_requests_newest', []);
  await index('pull_requests_state', ['state']);
  await index('pull_requests_repository', ['provider', 'repo_id']);
  await index('pull_requests_branch', ['head_branch']);
}

async function createQuotaLog(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('quota_log')
    .addColumn('id', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('boot', 'text', (column) => column.notNull())
    .addColumn('at', 'real', (column) => column.notNull())
    .addColumn('slots', 'integer', (column) => column.notNull())
    .execute();
}

async function createDocuments(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('documents')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('document_id', 'text', (column) => column.notNull().unique())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('title', 'text', (column) => column.notNull())
    .addColumn('title_folded', 'text', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('task_id', 'text')
    .addColumn('excerpt', 'text', (column) => column.notNull())
    .addColumn('created_by_user_id', 'text', (column) => column.notNull())
    .addColumn('updated_by_user_id', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('updated_at', 'text', (column) => column.notNull())
    .addColumn('content', 'text', (column) => column.notNull())
    .execute();
  await db.schema.createIndex('documents_newest').on('documents').columns(['workspace_id', 'seq']).execute();
  await db.schema.createIndex('documents_task').on('documents').columns(['workspace_id', 'task_id', 'seq']).execute();
}

async function createFiles(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('files')
    .addColumn('file_id', 'text', (column) => column.primaryKey())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('filename', 'text', (column) => column.notNull())
    .addColumn('content_type', 'text', (column) => column.notNull())
    .addColumn('size', 'integer', (column) => column.notNull())
    .addColumn('created_by_user_id', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('expires_at', 'integer', (column) => column.notNull())
    .addColumn('digest', 'text')
    .addColumn('uploaded_at', 'text')
    .execute();
  await db.schema.createIndex('files_digest').on('files').columns(['digest', 'expires_at']).execute();
}

async function createAgents(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('agents')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('agent_id', 'text', (column) => column.notNull().unique())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('user_id', 'text', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('description', 'text')
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('updated_at', 'text', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('harnesses')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('harness_id', 'text', (column) => column.notNull().unique())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('agent_id', 'text', (column) => column.notNull().references('agents.agent_id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('version', 'text')
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('last_heartbeat_at', 'text', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('sessions')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('session_id', 'text', (column) => column.notNull().unique())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('agent_id', 'text', (column) => column.notNull().references('agents.agent_id'))
    .addColumn('task_id', 'text')
    .addColumn('title', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('error', 'text')
    .addColumn('created_by_user_id', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('updated_at', 'text', (column) => column.notNull())
    .addColumn('ended_at', 'text')
    .execute();
  await db.schema
    .createTable('claims')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('claim_id', 'text', (column) => column.notNull().unique())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('session_id', 'text', (column) => column.notNull().references('sessions.session_id'))
    .addColumn('harness_id', 'text', (column) => column.notNull().references('harnesses.harness_id'))
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('expires_at', 'integer', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('ended_at', 'text')
    .execute();
  await db.schema
    .createTable('activities')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('activity_id', 'text', (column) => column.notNull().unique())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('session_id', 'text', (column) => column.notNull().references('sessions.session_id'))
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('url', 'text')
    .addColumn('user_id', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('content', 'text')
    .execute();
  const index = (table: string, name: string, columns: string[]) =>
    db.schema.createIndex(name).on(table).columns(columns).execute();
  await index('agents', 'agents_newest', ['workspace_id', 'seq']);
  await index('harnesses', 'harnesses_of_agent', ['agent_id', 'seq']);
  await index('sessions', 'sessions_of_agent', ['agent_id', 'seq']);
  await index('activities', 'activities_of_session', ['session_id', 'seq']);
  // The database itself refuses a second live claim on a session.
  await sql`create unique index claims_live on claims (session_id) where state = 'active'`.execute(db);
  await sql`create index claims_due on claims (workspace_id, expires_at) where state = 'active'`.execute(db);
}

async function createWebhooks(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('webhooks')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('webhook_id', 'text', (column) => column.notNull().unique())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('url', 'text', (column) => column.notNull())
    .addColumn('events', 'text', (column) => column.notNull())
    .addColumn('sealed_key', 'text', (column) => column.notNull())
    .addColumn('sealed_secret', 'text', (column) => column.notNull())
    .addColumn('created_by_user_id', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('active', 'integer', (column) => column.notNull())
    .addColumn('failures', 'integer', (column) => column.notNull())
    .addColumn('last_delivery', 'text')
    .execute();
  await db.schema
    .createTable('webhook_events')
    .addColumn('event_id', 'text', (column) => column.primaryKey())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('body', 'text', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('webhook_deliveries')
    .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('webhook_id', 'text', (column) => column.notNull())
    .addColumn('event_id', 'text', (column) => column.notNull())
    .addColumn('attempts', 'integer', (column) => column.notNull())
    .addColumn('due_at', 'integer', (column) => column.notNull())
    .execute();
  const index = (table: string, name: string, columns: string[]) =>
    db.schema.createIndex(name).on(table).columns(columns).execute();
  await index('webhooks', 'webhooks_newest', ['workspace_id', 'seq']);
  await index('webhook_deliveries', 'webhook_deliveries_due', ['webhook_id', 'due_at', 'seq']);
  await index('webhook_deliveries', 'webhook_deliveries_event', ['event_id']);
}

async function createProviderTokens(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('provider_tokens')
    .addColumn('workspace_id', 'text', (column) => column.notNull().references('workspaces.workspace_id'))
    .addColumn('user_id', 'text', (column) => column.notNull().references('users.user_id'))
    .addColumn('provider', 'text', (column) => column.notNull())
    .addColumn('host', 'text', (column) => column.notNull())
    .addColumn('api_url', 'text')
    .addColumn('sealed_token', 'text', (column) => column.notNull())
    .addColumn('connected_at', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('provider_tokens_key', ['workspace_id', 'user_id', 'provider'])
    .execute();
}
