import type { Role } from '../../model/caller.ts';
import { bigint, integer, numbered, type RowOf, table, text } from '../../platform/database/database-schema.ts';

/** The tables whose rows belong to no workspace, in the order in which they are copied. Times are epoch milliseconds. */
export const INSTALLATION_TABLES = {
  /** The workspaces that have rows; see `daemon/workspaces.ts`. */
  workspaces: table({ id: numbered(), name: text().unique() }),

  /** Links that log a browser in. Each works once, until it expires. */
  login_links: table({
    /** SHA-256 of the secret, in hex. */
    digest: text().primaryKey(),
    role: text<Role>(),
    /** Names of the permitted workspaces, as JSON; null: all. */
    workspaces: text().nullable(),
    expires_at: integer(),
  }),

  /** Logged-in browsers. */
  sessions: table({
    /** SHA-256 of the cookie's secret, in hex. */
    digest: text().primaryKey(),
    role: text<Role>(),
    /** Names of the permitted workspaces, as JSON; null: all. */
    workspaces: text().nullable(),
    /** SHA-256 of the configured token that opened the session, which ends with that token. Null if a link opened it. */
    opened_by: text().nullable(),
    created_at: integer(),
    /** When the session was last used, to within an hour. */
    seen_at: integer(),
    expires_at: integer(),
  }),

  /** Grants of OAuth 2.0, by a digest of their configuration. Tokens are sealed. */
  oauth_credentials: table({
    id: text().primaryKey(),
    refresh: text(),
    /** The previous refresh token, until the present one was used. */
    previous: text().nullable(),
    access: text(),
    access_expires_at: integer(),
    renewed_at: integer(),
  }),

  /**
   * Requests that a webhook address or the gateway refused, similar ones in one row; see `refused-requests.ts`. Workspaces by name,
   * because names outlive the rows of a deleted workspace.
   */
  refused_requests: table(
    {
      /** SHA-256 of the properties that similar requests share, in hex. */
      key: text().primaryKey(),
      /** Names; null if the request was addressed to none that is configured. */
      workspace: text().nullable(),
      connection: text().nullable(),
      method: text(),
      /** Path without the query. */
      path: text(),
      status: integer(),
      code: text(),
      /** Address of the sender. */
      address: text(),
      /** Headers of the latest request, without secrets: an array of pairs as JSON. */
      headers: text(),
      count: integer(),
      first_at: bigint(),
      last_at: bigint(),
    },
    {
      keyShapes: [[500, 1]],
      indexes: {
        refused_last: { columns: ['last_at'], shape: [500, 1] },
        refused_workspace: { columns: ['workspace', 'last_at'], shape: [500, 20, 1] },
      },
    },
  ),

  /** Changes that people made by commands and pages; see `audit-rows.ts`. */
  audit: table(
    {
      id: numbered(),
      at: bigint(),
      /** Name of the workspace, which outlives its rows; null if the change concerns none or all. */
      workspace: text().nullable(),
      actor: text(),
      action: text(),
      subject: text().nullable(),
      /** Number of changed things. */
      count: integer().nullable(),
      /** `begun`: the process ended before the outcome was stored. */
      outcome: text<'begun' | 'done' | 'failed' | 'asked' | 'undone'>(),
      details: text().nullable(),
    },
    {
      indexes: {
        audit_at: { columns: ['at'], shape: [100_000, 1] },
        audit_workspace: { columns: ['workspace', 'id'], shape: [100_000, 1_000, 1] },
      },
    },
  ),

  /** Single facts by name. */
  installation: table({ name: text().primaryKey(), value: text() }),

  /** The processes that share this database; see `leases.ts`. Empty if a single process uses it. */
  replicas: table({
    /** Id of the process. */
    id: text().primaryKey(),
    /** The owner of the leases of the process. The process gets a new incarnation when this one has expired. */
    incarnation: text().unique(),
    /** Address at which the other processes reach this one. */
    address: text(),
    /** Time by the clock of the database. It increases with each renewal. */
    expires_at: bigint(),
    /** Facts that the process reports about itself, as JSON; see `cluster/lease-holder.ts`. */
    about: text().defaultTo('{}'),
  }),

  /** The owners of workspaces. A workspace without a row never had one. */
  leases: table({
    workspace: integer().primaryKey(),
    /** Null if the lease was released. Expired if `replicas` has no such incarnation. */
    incarnation: text().nullable(),
    /** Incremented with each new owner. */
    epoch: integer(),
  }),
};

export type InstallationTables = {
  readonly [Name in keyof typeof INSTALLATION_TABLES]: RowOf<(typeof INSTALLATION_TABLES)[Name]['columns']>;
};
