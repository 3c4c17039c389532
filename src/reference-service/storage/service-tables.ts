import { sql } from 'kysely';
import {
  integer,
  migrationsOf,
  numbered,
  type RowOf,
  real,
  table,
  text,
} from '../../platform/database/database-schema.ts';
import type { SESSION_STATES } from '../../workspace-api/contract.ts';

export type Role = 'owner' | 'admin' | 'member';

/** States of an agent's session (W63). */
export type SessionState = (typeof SESSION_STATES)[number];

/** A JSON array of strings. */
const strings = () => text();
/** RFC 3339, UTC, with milliseconds: sorts as text. */
const time = () => text();
/** Epoch milliseconds. */
const milliseconds = () => integer();

const ofWorkspace = () => text().references('workspaces.workspace_id');
const ofUser = () => text().references('users.user_id');

/**
 * The tables of the service. Every row of a resource has its workspace, and every query names it. `seq` gives the order "newest first"
 * and the place of a cursor. Long texts come last, so that reading the small columns does not walk their overflow pages.
 */
const TABLES = {
  /** Single facts by name, for example the start credentials of the last start. */
  facts: table({ name: text().primaryKey(), value: text() }),

  workspaces: table({ workspace_id: text().primaryKey(), created_at: time() }),

  users: table({ user_id: text().primaryKey(), name: text(), created_at: time() }),

  members: table(
    { workspace_id: ofWorkspace(), user_id: ofUser(), role: text<Role>() },
    { key: ['workspace_id', 'user_id'] },
  ),

  teams: table({ workspace_id: ofWorkspace(), team_id: text(), name: text() }, { key: ['workspace_id', 'team_id'] }),

  api_keys: table(
    {
      seq: numbered(),
      api_key_id: text().unique(),
      workspace_id: ofWorkspace(),
      description: text(),
      /** SHA-256 of the secret, hex. The secret has 256 random bits: no salt, no slow hash is needed. */
      secret_hash: text().unique(),
      key_prefix: text(),
      created_by_user_id: text(),
      created_at: time(),
      /** Written at most once a minute. */
      last_used_at: time().nullable(),
      /** Null while the key is active. */
      revoked_at: time().nullable(),
    },
    { indexes: { api_keys_workspace: { columns: ['workspace_id', 'seq'] } } },
  ),

  oauth_tokens: table({
    token_id: text().primaryKey(),
    secret_hash: text().unique(),
    user_id: ofUser(),
    /** Null: no workspace; `current` is then refused (W3). */
    workspace_id: ofWorkspace().nullable(),
    role: text<Role>(),
    created_at: time(),
    /** Null: until revoked. */
    expires_at: milliseconds().nullable(),
    revoked_at: time().nullable(),
  }),

  /** The last number used for human keys. */
  counters: table({ workspace_id: text(), prefix: text(), value: integer() }, { key: ['workspace_id', 'prefix'] }),

  tasks: table(
    {
      seq: numbered(),
      task_id: text(),
      workspace_id: text(),
      key: text(),
      kind: text<'bug' | 'idea'>(),
      title: text(),
      status: text(),
      /** 0 for completed, cancelled and merged. */
      open: integer<0 | 1>(),
      priority: text(),
      source: text(),
      reporter_user_id: text(),
      reported_at: time(),
      team_ids: strings(),
      assignee_ids: strings(),
      labels: strings(),
      user_id: text(),
      created_at: time(),
      updated_at: time(),
      completed_at: time().nullable(),
      description: text().nullable(),
    },
    {
      unique: { tasks_id: ['workspace_id', 'task_id'], tasks_human_key: ['workspace_id', 'key'] },
      indexes: {
        tasks_open: { columns: ['workspace_id', 'open', 'seq'] },
        tasks_status: { columns: ['workspace_id', 'status', 'seq'] },
      },
    },
  ),

  /** Teams and assignees of tasks, as rows for the filters of the task list. */
  task_refs: table(
    {
      workspace_id: text(),
      kind: text<'team' | 'assignee'>(),
      ref_id: text(),
      task_seq: integer().references('tasks.seq'),
    },
    {
      key: ['workspace_id', 'kind', 'ref_id', 'task_seq'],
      indexes: { task_refs_task: { columns: ['task_seq'] } },
    },
  ),

  work_items: table(
    {
      seq: numbered(),
      work_item_id: text().unique(),
      workspace_id: text(),
      task_id: text(),
      url: text(),
      /** 0; the literal service, which may store an address twice at a task, numbers further links to it. */
      copy: integer().defaultTo(0),
      title: text().nullable(),
      external_id: text().nullable(),
      provider: text().nullable(),
      created_at: time(),
    },
    {
      unique: { work_items_url_of_task: ['workspace_id', 'task_id', 'url', 'copy'] },
      indexes: { work_items_url: { columns: ['workspace_id', 'url', 'task_id'] } },
    },
  ),

  pull_requests: table(
    {
      seq: numbered(),
      workspace_id: text(),
      provider: text(),
      repo_id: text(),
      identifier: text(),
      title: text(),
      head_branch: text(),
      base_branch: text(),
      state: text(),
      draft: integer<0 | 1>(),
      url: text().nullable(),
      author: text().nullable(),
      reviewers: strings(),
      labels: strings(),
      assignees: strings(),
      created_at: time(),
      updated_at: time(),
      merged_at: time().nullable(),
      description: text().nullable(),
    },
    {
      unique: { pull_requests_natural_key: ['workspace_id', 'provider', 'repo_id', 'identifier'] },
      indexes: {
        pull_requests_newest: { columns: ['workspace_id', 'seq'] },
        pull_requests_state: { columns: ['workspace_id', 'state', 'seq'] },
        pull_requests_repository: { columns: ['workspace_id', 'provider', 'repo_id', 'seq'] },
        pull_requests_branch: { columns: ['workspace_id', 'head_branch', 'seq'] },
      },
    },
  ),

  /** Requests counted against the quota; see quota-log.ts. */
  quota_log: table({
    id: numbered(),
    workspace_id: text(),
    /** `at` counts monotonic milliseconds of this boot. */
    boot: text(),
    at: real(),
    slots: integer(),
  }),

  documents: table(
    {
      seq: numbered(),
      document_id: text().unique(),
      workspace_id: text(),
      title: text(),
      /** In upper case, for the filter. */
      title_folded: text(),
      type: text(),
      status: text(),
      task_id: text().nullable(),
      excerpt: text(),
      created_by_user_id: text(),
      updated_by_user_id: text(),
      created_at: time(),
      updated_at: time(),
      content: text(),
    },
    {
      indexes: {
        documents_newest: { columns: ['workspace_id', 'seq'] },
        documents_task: { columns: ['workspace_id', 'task_id', 'seq'] },
      },
    },
  ),

  /** Files, from the request for an upload address on; see files.ts. */
  files: table(
    {
      file_id: text().primaryKey(),
      workspace_id: text(),
      filename: text(),
      content_type: text(),
      size: integer(),
      created_by_user_id: text(),
      created_at: time(),
      /** The end of the upload address. */
      expires_at: milliseconds(),
      /** SHA-256 of the bytes, hex; null until they have arrived. */
      digest: text().nullable(),
      uploaded_at: time().nullable(),
    },
    { indexes: { files_digest: { columns: ['digest', 'expires_at'] } } },
  ),

  agents: table(
    {
      seq: numbered(),
      agent_id: text().unique(),
      workspace_id: text(),
      /** The owner of the agent. */
      user_id: text(),
      name: text(),
      description: text().nullable(),
      created_at: time(),
      updated_at: time(),
    },
    { indexes: { agents_newest: { columns: ['workspace_id', 'seq'] } } },
  ),

  harnesses: table(
    {
      seq: numbered(),
      harness_id: text().unique(),
      workspace_id: text(),
      agent_id: text().references('agents.agent_id'),
      name: text(),
      version: text().nullable(),
      created_at: time(),
      last_heartbeat_at: time(),
    },
    { indexes: { harnesses_of_agent: { columns: ['agent_id', 'seq'] } } },
  ),

  /** States and transitions: agents.ts. */
  sessions: table(
    {
      seq: numbered(),
      session_id: text().unique(),
      workspace_id: text(),
      agent_id: text().references('agents.agent_id'),
      task_id: text().nullable(),
      title: text(),
      state: text<SessionState>(),
      error: text().nullable(),
      created_by_user_id: text(),
      created_at: time(),
      updated_at: time(),
      ended_at: time().nullable(),
    },
    { indexes: { sessions_of_agent: { columns: ['agent_id', 'seq'] } } },
  ),

  claims: table(
    {
      seq: numbered(),
      claim_id: text().unique(),
      workspace_id: text(),
      session_id: text().references('sessions.session_id'),
      harness_id: text().references('harnesses.harness_id'),
      state: text<'active' | 'completed' | 'failed' | 'released' | 'expired'>(),
      /** End of the lease. */
      expires_at: milliseconds(),
      created_at: time(),
      ended_at: time().nullable(),
    },
    {
      indexes: {
        // The database itself refuses a second live claim on a session.
        claims_live: { columns: ['session_id'], where: sql`state = 'active'`, isUnique: true },
        claims_due: { columns: ['workspace_id', 'expires_at'], where: sql`state = 'active'` },
      },
    },
  ),

  activities: table(
    {
      seq: numbered(),
      activity_id: text().unique(),
      workspace_id: text(),
      session_id: text().references('sessions.session_id'),
      type: text(),
      url: text().nullable(),
      user_id: text(),
      created_at: time(),
      content: text().nullable(),
    },
    { indexes: { activities_of_session: { columns: ['session_id', 'seq'] } } },
  ),

  /** Subscriptions; see webhooks.ts. */
  webhooks: table(
    {
      seq: numbered(),
      webhook_id: text().unique(),
      workspace_id: text(),
      url: text(),
      /** Empty: all. */
      events: strings(),
      sealed_key: text(),
      sealed_secret: text(),
      created_by_user_id: text(),
      created_at: time(),
      active: integer<0 | 1>(),
      /** Number of events that were given up. */
      failures: integer(),
      /** JSON; see webhooks.ts. */
      last_delivery: text().nullable(),
    },
    { indexes: { webhooks_newest: { columns: ['workspace_id', 'seq'] } } },
  ),

  /** Events as they are delivered, stored while a delivery is pending. See events.ts. */
  webhook_events: table({ event_id: text().primaryKey(), type: text(), body: text() }),

  /** One event for one subscription: the outbox. A row is deleted when it was delivered or given up. */
  webhook_deliveries: table(
    {
      seq: numbered(),
      webhook_id: text(),
      event_id: text(),
      /** Failed attempts so far. */
      attempts: integer(),
      due_at: milliseconds(),
    },
    {
      indexes: {
        webhook_deliveries_due: { columns: ['webhook_id', 'due_at', 'seq'] },
        webhook_deliveries_event: { columns: ['event_id'] },
      },
    },
  ),

  /** Tokens of members at git providers, encrypted; see keys.ts. */
  provider_tokens: table(
    {
      workspace_id: ofWorkspace(),
      user_id: ofUser(),
      provider: text(),
      host: text(),
      /** Null: derived from the host. */
      api_url: text().nullable(),
      sealed_token: text(),
      connected_at: time(),
    },
    { key: ['workspace_id', 'user_id', 'provider'] },
  ),
};

/** The rows of the service. */
export type ServiceTables = { readonly [Name in keyof typeof TABLES]: RowOf<(typeof TABLES)[Name]['columns']> };

/** Names sort by age. A released migration is never changed; a column that is added later names a new one by `since`. */
export const MIGRATIONS = migrationsOf(TABLES, '001_schema');
