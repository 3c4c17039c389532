import type { Generated, Kysely } from 'kysely';
import type { Role } from '../../model/caller.ts';

/** The tables of `worksync.db` whose rows belong to no workspace. Times are epoch milliseconds. */
export interface InstallationTables {
  /** Single facts by name. */
  installation: { name: string; value: string };

  /** The workspaces that have rows; see `daemon/workspaces.ts`. */
  workspaces: {
    id: Generated<number>;
    name: string;
  };

  /** Links that log a browser in. Each works once, until it expires. */
  login_links: {
    /** SHA-256 of the secret, in hex. */
    digest: string;
    role: Role;
    /** Names of the permitted workspaces, as JSON; null: all. */
    workspaces: string | null;
    expires_at: number;
  };

  /** Logged-in browsers. */
  sessions: {
    /** SHA-256 of the cookie's secret, in hex. */
    digest: string;
    role: Role;
    /** Names of the permitted workspaces, as JSON; null: all. */
    workspaces: string | null;
    /** SHA-256 of the configured token that opened the session, which ends with that token. Null if a link opened it. */
    opened_by: string | null;
    created_at: number;
    /** When the session was last used, to within an hour. */
    seen_at: number;
    expires_at: number;
  };

  /** Grants of OAuth 2.0, by a digest of their configuration. Tokens are sealed. */
  oauth_credentials: {
    id: string;
    refresh: string;
    /** The previous refresh token, until the present one was used. */
    previous: string | null;
    access: string;
    access_expires_at: number;
    renewed_at: number;
  };

  /** Requests that a webhook address or the gateway refused, similar ones in one row; see `refused-requests.ts`. */
  refused_requests: {
    /** SHA-256 of the properties that similar requests share, in hex. */
    key: string;
    /** Names; null if the request was addressed to none that is configured. */
    workspace: string | null;
    connection: string | null;
    method: string;
    /** Path without the query. */
    path: string;
    status: number;
    code: string;
    /** Address of the sender. */
    address: string;
    /** Headers of the latest request, without secrets: an array of pairs as JSON. */
    headers: string;
    count: number;
    first_at: number;
    last_at: number;
  };

  /** Changes that people made by commands and pages; see `audit-rows.ts`. */
  audit: {
    id: Generated<number>;
    at: number;
    /** Name of the workspace, which outlives its rows; null if the change concerns none or all. */
    workspace: string | null;
    actor: string;
    action: string;
    subject: string | null;
    /** Number of changed things. */
    count: number | null;
    /** `begun`: the process ended before the outcome was stored. */
    outcome: 'begun' | 'done' | 'failed' | 'asked' | 'undone';
    details: string | null;
  };

  /** The processes that share this database; see `leases.ts`. Empty if a single process uses it. */
  replicas: {
    /** Id of the process. */
    id: string;
    /** The owner of the leases of the process. The process gets a new incarnation when this one has expired. */
    incarnation: string;
    /** Address at which the other processes reach this one. */
    address: string;
    /** Time by the clock of the database. It increases with each renewal. */
    expires_at: number;
    /** Facts that the process reports about itself, as JSON; see `cluster/peers.ts`. */
    about: string;
  };

  /** The owners of workspaces. A workspace without a row never had one. */
  leases: {
    workspace: number;
    /** Null if the lease was released. Expired if `replicas` has no such incarnation. */
    incarnation: string | null;
    /** Incremented with each new owner. */
    epoch: number;
  };
}

/** Creates the tables above, without those of replicas. */
export async function createInstallationTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('installation')
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('value', 'text', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('login_links')
    .addColumn('digest', 'text', (column) => column.primaryKey())
    .addColumn('role', 'text', (column) => column.notNull())
    .addColumn('workspaces', 'text')
    .addColumn('expires_at', 'integer', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('sessions')
    .addColumn('digest', 'text', (column) => column.primaryKey())
    .addColumn('role', 'text', (column) => column.notNull())
    .addColumn('workspaces', 'text')
    .addColumn('opened_by', 'text')
    .addColumn('created_at', 'integer', (column) => column.notNull())
    .addColumn('seen_at', 'integer', (column) => column.notNull())
    .addColumn('expires_at', 'integer', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('oauth_credentials')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('refresh', 'text', (column) => column.notNull())
    .addColumn('previous', 'text')
    .addColumn('access', 'text', (column) => column.notNull())
    .addColumn('access_expires_at', 'integer', (column) => column.notNull())
    .addColumn('renewed_at', 'integer', (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('workspaces')
    .addColumn('id', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('name', 'text', (column) => column.notNull().unique())
    .execute();
  // Workspaces by name, because names outlive the rows of a deleted workspace.
  await db.schema
    .createTable('refused_requests')
    .addColumn('key', 'text', (column) => column.primaryKey())
    .addColumn('workspace', 'text')
    .addColumn('connection', 'text')
    .addColumn('method', 'text', (column) => column.notNull())
    .addColumn('path', 'text', (column) => column.notNull())
    .addColumn('status', 'integer', (column) => column.notNull())
    .addColumn('code', 'text', (column) => column.notNull())
    .addColumn('address', 'text', (column) => column.notNull())
    .addColumn('headers', 'text', (column) => column.notNull())
    .addColumn('count', 'integer', (column) => column.notNull())
    .addColumn('first_at', 'bigint', (column) => column.notNull())
    .addColumn('last_at', 'bigint', (column) => column.notNull())
    .execute();
  await db.schema.createIndex('refused_last').on('refused_requests').columns(['last_at']).execute();
  await db.schema.createIndex('refused_workspace').on('refused_requests').columns(['workspace', 'last_at']).execute();
  await db.schema
    .createTable('audit')
    .addColumn('id', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addColumn('workspace', 'text')
    .addColumn('actor', 'text', (column) => column.notNull())
    .addColumn('action', 'text', (column) => column.notNull())
    .addColumn('subject', 'text')
    .addColumn('count', 'integer')
    .addColumn('outcome', 'text', (column) => column.notNull())
    .addColumn('details', 'text')
    .execute();
  await db.schema.createIndex('audit_at').on('audit').columns(['at']).execute();
  await db.schema.createIndex('audit_workspace').on('audit').columns(['workspace', 'id']).execute();
}

/** Creates the tables of the processes that share a PostgreSQL, and of the leases by which they own workspaces. */
export async function createReplicaTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('replicas')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('incarnation', 'text', (column) => column.notNull().unique())
    .addColumn('address', 'text', (column) => column.notNull())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .addColumn('about', 'text', (column) => column.notNull().defaultTo('{}'))
    .execute();
  await db.schema
    .createTable('leases')
    .addColumn('workspace', 'integer', (column) => column.primaryKey())
    .addColumn('incarnation', 'text')
    .addColumn('epoch', 'integer', (column) => column.notNull())
    .execute();
}
