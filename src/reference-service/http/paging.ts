import { type SelectQueryBuilder, sql } from 'kysely';
import { LIMITS } from '../../workspace-api/contract.ts';
import { invalid } from './api-error.ts';

/**
 * One page of these rows, the newest first, and the cursor of the next one. The cursor is the `seq` of the last row that was given, so
 * pages neither skip nor repeat rows when others are added meanwhile (W10). Throws 400.
 */
export async function readPage<Tables, Table extends keyof Tables, Row extends { seq: number }>(
  rows: SelectQueryBuilder<Tables, Table, Row>,
  query: { limit?: number; cursor?: string },
) {
  const limit = query.limit ?? LIMITS.page.default;
  const after = query.cursor === undefined ? undefined : readCursor(query.cursor);
  // One too many, which says whether there is another page.
  const newest = rows.orderBy(sql.ref('seq'), 'desc').limit(limit + 1);
  const found = await (after === undefined ? newest : newest.where(sql.ref('seq'), '<', after)).execute();
  const given = found.slice(0, limit);
  const last = given.at(-1);
  return { given, nextCursor: found.length > limit && last ? writeCursor(last.seq) : null };
}

function writeCursor(seq: number): string {
  return Buffer.from(`after ${seq}`).toString('base64url');
}

function readCursor(cursor: string): number {
  const seq = Buffer.from(cursor, 'base64url')
    .toString()
    .match(/^after (\d{1,15})$/)?.[1];
  if (seq === undefined) throw invalid('cursor: not a cursor of this list');
  return Number(seq);
}
