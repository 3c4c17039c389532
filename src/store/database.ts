// Design: src/decisions/database.md

import type { Database } from '../platform/database/database-types.ts';
import type { Schema } from './schema/tables.ts';
import type { Scope } from './workspace-scope.ts';

/** The rows of one workspace in the database that all workspaces share. */
export interface Store extends Pick<Database<Schema>, 'file' | 'fault' | 'checkFileReplaced' | 'keptLog'> {
  /** For single statements outside of a transaction. */
  readonly query: Scope;
  /** Runs `work` in one durable transaction; rolls back when it throws. */
  commit<Result>(work: (scope: Scope) => Promise<Result>): Promise<Result>;
  /** Commits without waiting for the disk, for work that is repeated if a power failure undoes it. */
  commitRelaxed<Result>(work: (scope: Scope) => Promise<Result>): Promise<Result>;
}
