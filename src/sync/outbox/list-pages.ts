import { createHash } from 'node:crypto';
import { type ListPage, mayBeCut } from '../../model/delivery.ts';
import type { Prepared } from './prepare.ts';

/** Where a list read stands; it is the body of the prepared request, and outlives the process in the outbox row. */
export interface ListPlace {
  readonly cursor?: string;
  /** Requests a longer page, where a first one may have been cut. */
  readonly limit?: number;
  /** How many the first page had, which may have been cut. */
  readonly first?: number;
  /** When the first page was requested, epoch milliseconds. */
  readonly began?: number;
  /** Digests of the cursors of this list so far. */
  readonly seen?: readonly string[];
  /** How often the list has begun anew because a cursor was refused. */
  readonly restarts?: number;
}

/** The part of an answer that says where the list goes on. */
export interface ListAnswer {
  readonly nextCursor?: string | null;
  readonly isLast?: boolean | null;
  /** Elements that could not be read. */
  readonly unreadable?: number;
}

/** Pages of one list; a list that goes on proves nothing. */
const MOST_PAGES = 500;
/** Longer than any usual page. */
const LONG_PAGE = 5_000;

/**
 * Pure. What a page means for its list, and the next page to request; undefined at the end. A repeated cursor ends the list
 * as incomplete.
 *
 * @param length how many elements the page has
 */
export function pageOf(
  { body, sentAt }: Pick<Prepared, 'body' | 'sentAt'>,
  answer: ListAnswer,
  length: number,
): { readonly page: ListPage; readonly next?: ListPlace } {
  const place: ListPlace = body;
  const { began = sentAt, seen = [], restarts } = place;
  const kept = restarts === undefined ? {} : { restarts };
  const { nextCursor, isLast = null, unreadable = 0 } = answer;
  if (nextCursor) {
    const hash = createHash('sha256').update(nextCursor).digest('base64url').slice(0, 8);
    if (seen.includes(hash) || seen.length >= MOST_PAGES) return { page: ended(began, false) };
    return {
      page: { began, isEnd: false, isComplete: false },
      next: { cursor: nextCursor, began, seen: [...seen, hash], ...kept },
    };
  }
  const isWhole = isLast !== false && unreadable === 0;
  const isFirst = place.cursor === undefined && place.first === undefined;
  if (isWhole && isFirst && mayBeCut(length, isLast)) {
    return {
      page: { began, isEnd: false, isComplete: false },
      next: { limit: LONG_PAGE, first: length, began, ...kept },
    };
  }
  // The longer page brought nothing more, or more than the first one: then it must not look cut itself.
  const isProved = length === place.first || !mayBeCut(length, isLast);
  return { page: ended(began, isWhole && isProved) };
}

function ended(began: number, isComplete: boolean): ListPage {
  return { began, isEnd: true, isComplete };
}
