import type { Generated } from 'kysely';
import type { Role } from '../model/caller.ts';

/** The rows of `worksync.db`, which belong to the data folder and to no workspace. Times are epoch milliseconds. */
export interface InstallationTables {
  /** Single facts by name. */
  installation: { name: string; value: string };

  /** Every workspace that has rows here; see `daemon/workspaces.ts`. */
  workspaces: {
    id: Generated<number>;
    name: string;
  };

  /** Links that log a browser in: each once, until it expires. */
  login_links: {
    /** SHA-256 of the secret, in hex. */
    digest: string;
    role: Role;
    /** Names of the workspaces it is limited to, as JSON; null: all. */
    workspaces: string | null;
    expires_at: number;
  };

  /** Browsers that are logged in. */
  sessions: {
    /** SHA-256 of the cookie's secret, in hex. */
    digest: string;
    role: Role;
    /** Names of the workspaces it is limited to, as JSON; null: all. */
    workspaces: string | null;
    /** SHA-256 of the configured token it was opened with: it ends with that token. Null where a link opened it. */
    opened_by: string | null;
    created_at: number;
    /** When it was last used, give or take an hour. */
    seen_at: number;
    expires_at: number;
  };

  /** Grants of OAuth 2.0, by a digest of what the configuration says of them. Tokens are sealed. */
  oauth_credentials: {
    id: string;
    refresh: string;
    /** The refresh token before, until this one was used. */
    previous: string | null;
    access: string;
    access_expires_at: number;
    renewed_at: number;
  };

  /** Requests that a webhook address or the gateway refused: like ones in one row. See `refused-requests.ts`. */
  refused_requests: {
    /** SHA-256 of what makes two of them alike, in hex. */
    key: string;
    /** Names, as far as the address leads to one that is configured. */
    workspace: string | null;
    connection: string | null;
    method: string;
    /** Without its query. */
    path: string;
    status: number;
    code: string;
    /** Of the sender. */
    address: string;
    /** Of the latest of them, without secrets: an array of pairs as JSON. */
    headers: string;
    count: number;
    first_at: number;
    last_at: number;
  };

  /** What people changed by commands and pages; see `audit-rows.ts`. */
  audit: {
    id: Generated<number>;
    at: number;
    /** Its name, which outlives its rows; null: concerns none, or all. */
    workspace: string | null;
    actor: string;
    action: string;
    subject: string | null;
    /** How many things were changed. */
    count: number | null;
    /** `begun`: the process ended before it was known. */
    outcome: 'begun' | 'done' | 'failed' | 'asked' | 'undone';
    details: string | null;
  };

  /** The processes that share this database; see `leases.ts`. Empty where there is one, which holds everything. */
  replicas: {
    /** Of the process. */
    id: string;
    /** What owns its leases. It takes another one when this one has expired. */
    incarnation: string;
    /** Where the others reach it. */
    address: string;
    /** By the database's clock; moves with each renewal, and never back. */
    expires_at: number;
    /** Facts that the process reports about itself, as JSON; see `cluster/replica-facts.ts`. */
    about: string;
  };

  /** Who may work on which workspace. One without a row never had an owner. */
  leases: {
    workspace: number;
    /** Null: given back. One without a row in `replicas` has lapsed. */
    incarnation: string | null;
    /** One more with each holder. */
    epoch: number;
  };
}
