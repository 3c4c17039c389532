import { createHash, hash } from 'node:crypto';
import type { Sql } from '../workspace-scope.ts';
import type { CopiedTable } from './copied-tables.ts';
import { factsOf } from './copy-marker.ts';
import { portionsOf, type StoredRow } from './row-portions.ts';

/** A digest of the rows of a database: two databases with the same rows have the same digest. */
export interface RowDigest {
  readonly rows: number;
  /** SHA-256 of all rows in the order of their keys, in hex. */
  readonly sha256: string;
}

/** @param carry what becomes of a row on its way; absent: it stays as it is */
export async function digestOf(
  query: Sql,
  table: CopiedTable,
  carry: (row: StoredRow) => StoredRow = (row) => row,
): Promise<RowDigest> {
  const all = createHash('sha256');
  let rows = 0;
  for await (const portion of portionsOf(query, table)) {
    for (const row of portion)
      all.update(`${JSON.stringify(Object.entries(carry(row)).sort(byName).map(canonical))}\n`);
    rows += portion.length;
  }
  return { rows, sha256: all.digest('hex') };
}

type Cell = readonly [column: string, value: StoredRow[string] | undefined];

function byName([one]: Cell, [other]: Cell): number {
  return one < other ? -1 : 1;
}

function canonical([column, value]: Cell): readonly unknown[] {
  return Buffer.isBuffer(value) ? [column, 'bytes', hash('sha256', value, 'hex')] : [column, value];
}

/** The digest of derived rows and of facts, which are few enough to be read at once. */
export async function digestOfRest(query: Sql): Promise<RowDigest> {
  const counts = await query
    .selectFrom('counts')
    .select(['workspace', 'counted', 'class', 'count'])
    .where('count', '>', 0)
    .execute();
  // The databases write the same JSON with other spaces.
  const told = counts
    .map((row) => JSON.stringify([row.workspace, row.counted, JSON.parse(row.class), row.count]))
    .sort();
  const facts = (await factsOf(query)).map(({ name, value }) => JSON.stringify([name, value]));
  return { rows: facts.length, sha256: hash('sha256', [...told, ...facts].join('\n'), 'hex') };
}
