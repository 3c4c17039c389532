import type { InstallationTables } from '../schema/installation-tables.ts';
import { WORKSPACE_TABLES } from '../schema/tables.ts';

/**
 * The tables without a workspace that are not copied as tables: facts are copied as a whole (`copy-marker.ts`), and leases are
 * those of processes of one database, none of which runs now.
 */
type Left = 'installation' | 'replicas' | 'leases';

const TABLES_OF_ALL = {
  workspaces: ['id'],
  login_links: ['digest'],
  sessions: ['digest'],
  oauth_credentials: ['id'],
  refused_requests: ['key'],
  audit: ['id'],
} as const satisfies {
  readonly [Table in Exclude<keyof InstallationTables, Left>]: readonly (keyof InstallationTables[Table])[];
};

export type CopiedName = keyof typeof TABLES_OF_ALL | keyof typeof WORKSPACE_TABLES;

/** A table whose rows go from one database to another. */
export interface CopiedTable {
  readonly name: CopiedName;
  /** The columns of its primary key, in their order. */
  readonly key: readonly string[];
}

/** The order in which tables are copied. */
export const COPIED_TABLES: readonly CopiedTable[] = [
  ...Object.entries(TABLES_OF_ALL).map(([name, key]) => ({ name: name as CopiedName, key })),
  ...Object.entries(WORKSPACE_TABLES).map(([name, key]) => ({ name: name as CopiedName, key: keyOf(name, key) })),
];

/** The numbers of deliveries are those of all workspaces. */
function keyOf(name: string, key: readonly string[]): readonly string[] {
  return name === 'inbox' ? key : ['workspace', ...key];
}

/** Tables whose rows the database numbers. It never gives a number twice, even if the row was deleted. */
export const NUMBERED = ['workspaces', 'audit', 'inbox'] as const satisfies readonly CopiedName[];
