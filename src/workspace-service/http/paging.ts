import { LIMITS } from '../../workspace/contract.ts';
import { invalid } from './api-error.ts';

/** Where a page starts and how long it is; `after` is the `seq` of the last row that was given. */
export interface Page {
  readonly limit: number;
  readonly after: number | undefined;
}

/** Keyset pages: they neither skip nor repeat rows when others are added meanwhile (W10). Throws 400. */
export function pageOf(query: { limit?: number; cursor?: string }): Page {
  return {
    limit: query.limit ?? LIMITS.page.default,
    after: query.cursor === undefined ? undefined : readCursor(query.cursor),
  };
}

/** Splits what was read with one row too many into the page and the cursor of the next one. */
export function cutPage<Row extends { seq: number }>(rows: readonly Row[], page: Page) {
  const given = rows.slice(0, page.limit);
  const last = given.at(-1);
  return { given, nextCursor: rows.length > page.limit && last ? writeCursor(last.seq) : null };
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
