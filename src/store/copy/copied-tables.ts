import { keyOf } from '../../platform/database/table-definition.ts';
import { ALL_TABLES, type Schema } from '../schema/tables.ts';

/**
 * The tables that are not copied as tables: facts are copied as a whole (`copy-marker.ts`), leases are those of processes of one
 * database, none of which runs now, and triggers derive the counts.
 */
const LEFT = ['installation', 'replicas', 'leases', 'counts'] as const satisfies readonly (keyof Schema)[];

export type CopiedName = Exclude<keyof Schema, (typeof LEFT)[number]>;

/** A table whose rows go from one database to another. */
export interface CopiedTable {
  readonly name: CopiedName;
  /** The columns of its primary key, in their order. */
  readonly key: readonly string[];
}

/** The order in which tables are copied. */
export const COPIED_TABLES: readonly CopiedTable[] = Object.entries(ALL_TABLES)
  .filter(([name]) => !LEFT.some((left) => left === name))
  .map(([name, table]) => ({ name: name as CopiedName, key: keyOf(table) }));

/** Tables whose rows the database numbers. It never gives a number twice, even if the row was deleted. */
export const NUMBERED: readonly string[] = Object.entries(ALL_TABLES)
  .filter(([, { columns }]) => Object.values(columns).some(({ isNumbered }) => isNumbered))
  .map(([name]) => name);
