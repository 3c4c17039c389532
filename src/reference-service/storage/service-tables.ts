import type { Generated } from 'kysely';
import type { SessionState } from '../agents/agent-session-states.ts';

/** JSON array of strings. */
type Strings = string;
/** RFC 3339, UTC, with milliseconds: sorts as text. */
type Time = string;

/**
 * The rows of the service. Every row of a resource has its workspace, and every query names it. `seq` gives the order "newest
 * first" and the place of a cursor.
 */
export interface ServiceTables {
  /** Single facts by name, for example the start credentials of the last start. */
  facts: { name: string; value: string };

  workspaces: { workspace_id: string; created_at: Time };

  users: { user_id: string; name: string; created_at: Time };

  members: { workspace_id: string; user_id: string; role: Role };

  teams: { workspace_id: string; team_id: string; name: string };

  api_keys: {
    seq: Generated<number>;
    api_key_id: string;
    workspace_id: string;
    description: string;
    /** SHA-256 of the secret, hex. The secret has 256 random bits: no salt, no slow hash is needed. */
    secret_hash: string;
    key_prefix: string;
    created_by_user_id: string;
    created_at: Time;
    /** Written at most once a minute. */
    last_used_at: Time | null;
    /** Null while the key is active. */
    revoked_at: Time | null;
  };

  oauth_tokens: {
    token_id: string;
    secret_hash: string;
    user_id: string;
    /** Null: no workspace; `current` is then refused (W3). */
    workspace_id: string | null;
    role: Role;
    created_at: Time;
    /** Epoch milliseconds; null: until revoked. */
    expires_at: number | null;
    revoked_at: Time | null;
  };

  /** The last number used for human keys. */
  counters: { workspace_id: string; prefix: string; value: number };

  tasks: {
    seq: Generated<number>;
    task_id: string;
    workspace_id: string;
    key: string;
    kind: 'bug' | 'idea';
    title: string;
    description: string | null;
    status: string;
    /** 0 for completed, cancelled and merged. */
    open: 0 | 1;
    priority: string;
    source: string;
    reporter_user_id: string;
    reported_at: Time;
    team_ids: Strings;
    assignee_ids: Strings;
    labels: Strings;
    user_id: string;
    created_at: Time;
    updated_at: Time;
    completed_at: Time | null;
  };

  /** Teams and assignees of tasks, as rows for the filters of the task list. */
  task_refs: { workspace_id: string; kind: 'team' | 'assignee'; ref_id: string; task_seq: number };

  work_items: {
    seq: Generated<number>;
    work_item_id: string;
    workspace_id: string;
    task_id: string;
    url: string;
    /** 0; the literal service numbers further links of a task to one address. */
    copy: Generated<number>;
    title: string | null;
    external_id: string | null;
    provider: string | null;
    created_at: Time;
  };

  documents: {
    seq: Generated<number>;
    document_id: string;
    workspace_id: string;
    title: string;
    /** In upper case, for the filter. */
    title_folded: string;
    type: string;
    status: string;
    task_id: string | null;
    excerpt: string;
    created_by_user_id: string;
    updated_by_user_id: string;
    created_at: Time;
    updated_at: Time;
    content: string;
  };

  /** Files, from the request for an upload address on; see files.ts. */
  files: {
    file_id: string;
    workspace_id: string;
    filename: string;
    content_type: string;
    size: number;
    created_by_user_id: string;
    created_at: Time;
    /** The end of the upload address, epoch milliseconds. */
    expires_at: number;
    /** SHA-256 of the bytes, hex; null until they have arrived. */
    digest: string | null;
    uploaded_at: Time | null;
  };

  pull_requests: {
    seq: Generated<number>;
    workspace_id: string;
    provider: string;
    repo_id: string;
    identifier: string;
    title: string;
    description: string | null;
    head_branch: string;
    base_branch: string;
    state: string;
    draft: 0 | 1;
    url: string | null;
    author: string | null;
    reviewers: Strings;
    labels: Strings;
    assignees: Strings;
    created_at: Time;
    updated_at: Time;
    merged_at: Time | null;
  };

  /** Requests counted against the quota; see quota-log.ts. */
  quota_log: {
    id: Generated<number>;
    workspace_id: string;
    /** `at` counts monotonic milliseconds of this boot. */
    boot: string;
    at: number;
    slots: number;
  };

  agents: {
    seq: Generated<number>;
    agent_id: string;
    workspace_id: string;
    /** The owner of the agent. */
    user_id: string;
    name: string;
    description: string | null;
    created_at: Time;
    updated_at: Time;
  };

  harnesses: {
    seq: Generated<number>;
    harness_id: string;
    workspace_id: string;
    agent_id: string;
    name: string;
    version: string | null;
    created_at: Time;
    last_heartbeat_at: Time;
  };

  /** States and transitions: session-states.ts. */
  sessions: {
    seq: Generated<number>;
    session_id: string;
    workspace_id: string;
    agent_id: string;
    task_id: string | null;
    title: string;
    state: SessionState;
    error: string | null;
    created_by_user_id: string;
    created_at: Time;
    updated_at: Time;
    ended_at: Time | null;
  };

  /** At most one of a session is active, by a unique index. */
  claims: {
    seq: Generated<number>;
    claim_id: string;
    workspace_id: string;
    session_id: string;
    harness_id: string;
    state: 'active' | 'completed' | 'failed' | 'released' | 'expired';
    /** End of the lease, epoch milliseconds. */
    expires_at: number;
    created_at: Time;
    ended_at: Time | null;
  };

  activities: {
    seq: Generated<number>;
    activity_id: string;
    workspace_id: string;
    session_id: string;
    type: string;
    url: string | null;
    user_id: string;
    created_at: Time;
    content: string | null;
  };

  /** Subscriptions; see webhooks.ts. */
  webhooks: {
    seq: Generated<number>;
    webhook_id: string;
    workspace_id: string;
    url: string;
    /** Empty: all. */
    events: Strings;
    sealed_key: string;
    sealed_secret: string;
    created_by_user_id: string;
    created_at: Time;
    active: 0 | 1;
    /** Number of events that were given up. */
    failures: number;
    /** JSON; see webhooks.ts. */
    last_delivery: string | null;
  };

  /** Events as they are delivered, stored while a delivery is pending. See events.ts. */
  webhook_events: { event_id: string; type: string; body: string };

  /** One event for one subscription: the outbox. A row is deleted when it was delivered or given up. */
  webhook_deliveries: {
    seq: Generated<number>;
    webhook_id: string;
    event_id: string;
    /** Failed attempts so far. */
    attempts: number;
    /** Epoch milliseconds. */
    due_at: number;
  };

  /** Tokens of members at git providers, encrypted; see provider-tokens.ts. */
  provider_tokens: {
    workspace_id: string;
    user_id: string;
    provider: string;
    host: string;
    /** Null: derived from the host. */
    api_url: string | null;
    sealed_token: string;
    connected_at: Time;
  };
}

export type Role = 'owner' | 'admin' | 'member';
