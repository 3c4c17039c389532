import { createHash } from 'node:crypto';
import type { Action } from '../../model/change.ts';
import { type ListPage, mayBeCut } from '../../model/delivery.ts';
import type { PreparedRequest } from './request.ts';

/** The lists that are read page by page, and the name of their array. */
export const LISTS: Readonly<Partial<Record<Action, string>>> = {
  'read-tasks': 'tasks',
  'read-pull-requests': 'pullRequests',
};

/** The position of a list read. It is the body of the prepared request, and survives a crash in the outbox row. */
export interface ListPosition {
  readonly cursor?: string;
  /** Requests a longer page, because a first page may have been cut. */
  readonly limit?: number;
  /** The length of the first page, which may have been cut. */
  readonly first?: number;
  /** When the first page was requested, epoch milliseconds. */
  readonly began?: number;
  /** Digests of the cursors of this list so far. */
  readonly seen?: readonly string[];
  /** How often the list was restarted because a cursor was refused. */
  readonly restarts?: number;
}

/** The part of an answer that decides how a list continues. */
export interface ListAnswer {
  readonly nextCursor?: string | null;
  readonly isLast?: boolean | null;
  /** The number of elements that could not be read. */
  readonly unreadable?: number;
}

/** The place of an answer in its list, and the next page to request; undefined at the end. */
export interface ListStep {
  readonly page: ListPage;
  readonly next?: ListPosition;
}

/** Returns the step for an answer to a list read; undefined for any other action. */
export function listStepOf(prepared: PreparedRequest, body: unknown): ListStep | undefined {
  const name = LISTS[prepared.action];
  if (name === undefined) return undefined;
  const answer = body as ListAnswer & Readonly<Record<string, unknown>>;
  return nextListStep(prepared, answer, (answer[name] as readonly unknown[]).length);
}

/** Most pages of one list. A list without an end proves nothing. */
const MAX_PAGES = 500;
/** The page length of the list of records. */
export const RECORDS_PER_PAGE = 100;
/** A limit above any usual page length. */
const LONG_PAGE = 5_000;

/**
 * Decides how a list continues after a page. A repeated cursor ends the list as incomplete.
 *
 * @param length the number of elements of the page
 */
export function nextListStep(
  { body, sentAt }: Pick<PreparedRequest, 'body' | 'sentAt'>,
  { nextCursor, isLast = null, unreadable = 0 }: ListAnswer,
  length: number,
): ListStep {
  const position: ListPosition = body;
  const { began = sentAt, seen = [], restarts } = position;
  const kept = restarts === undefined ? {} : { restarts };
  const goesOn = { began, isEnd: false, isComplete: false };
  if (nextCursor) {
    const hash = createHash('sha256').update(nextCursor).digest('base64url').slice(0, 8);
    if (seen.includes(hash) || seen.length >= MAX_PAGES) return { page: lastPage(began, false) };
    return { page: goesOn, next: { cursor: nextCursor, began, seen: [...seen, hash], ...kept } };
  }
  const isWhole = isLast !== false && unreadable === 0;
  const isFirst = position.cursor === undefined && position.first === undefined;
  if (isWhole && isFirst && mayBeCut(length, isLast)) {
    return { page: goesOn, next: { limit: LONG_PAGE, first: length, began, ...kept } };
  }
  // Complete if the longer page has as many elements as the first, or has more and does not look cut itself.
  const isProved = length === position.first || !mayBeCut(length, isLast);
  return { page: lastPage(began, isWhole && isProved) };
}

function lastPage(began: number, isComplete: boolean): ListPage {
  return { began, isEnd: true, isComplete };
}
