import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { PollPosition } from '../connector.ts';
import { providerTime } from './answers.ts';
import { invalidPage } from './pages.ts';

/** What was changed this long before the watermark is read again: lists lag behind, and times share a second. */
export const OVERLAP = 10 * 60_000;

/** How a walk over numbered pages goes on: in which direction, and at which page. */
interface PageCursor {
  readonly rel: 'next' | 'prev';
  readonly page: number;
}

/** The stored `page` of a position. */
export function readPageCursor(text: string | undefined): PageCursor | undefined {
  if (text === undefined) return undefined;
  const match = /^(next|prev):([1-9]\d{0,6})$/.exec(text);
  if (!match) throw invalidPage(text);
  return { rel: match[1] as PageCursor['rel'], page: Number(match[2]) };
}

interface Surroundings {
  readonly cursor: PageCursor | undefined;
  /** Reads the first page, to learn the number of the last, and then goes from the last page down to the first again. */
  readonly backwards?: boolean;
  /** The number of a neighbouring page, as the answer tells it. */
  pageOf(rel: 'next' | 'prev' | 'last'): number | undefined;
  readonly what: string;
}

/** Where the walk goes on, as text for the next position; undefined on the last page. */
export function nextPageCursor({ cursor, backwards, pageOf, what }: Surroundings): string | undefined {
  const last = backwards && !cursor ? pageOf('last') : undefined;
  if (last !== undefined && last > 1) return `prev:${last}`;
  const rel = cursor?.rel ?? 'next';
  const page = pageOf(rel);
  if (page === undefined) return undefined;
  const current = cursor?.page ?? 1;
  // A list that links in circles would never end.
  if (rel === 'next' ? page > current : page < current) return `${rel}:${page}`;
  throw new SyncError('answer_malformed', `${what}: the ${rel} page of page ${current} is said to be ${page}`);
}

/** Epoch milliseconds of a field; NaN where it cannot be read: the walk keeps such an element, for `translate` to judge. */
export function timeOf(element: unknown, field: string): number {
  const time = (element as Record<string, unknown> | null | undefined)?.[field];
  return typeof time === 'string' ? Date.parse(time) : Number.NaN;
}

/** The newest of the times, but none ahead of the provider's clock: such a watermark would skip what happens until then. */
export function newest(times: readonly number[], answer: Pick<HttpAnswer, 'headers'>): string | undefined {
  const seen = times.filter((time) => !Number.isNaN(time));
  if (seen.length === 0) return undefined;
  return new Date(Math.min(Math.max(...seen), providerTime(answer) ?? Number.POSITIVE_INFINITY)).toISOString();
}

/**
 * The first walk reports the time of its first page as `newest`, and no time of an element: the walk may last longer than the
 * overlap, and the time of a late change would move the watermark past the closing of an item that an earlier page showed as
 * open. The time is that of the provider's clock or ours, whichever is behind; where the provider tells none, ours less the
 * overlap.
 */
export function firstWalkStart(
  { page, startedAt }: PollPosition,
  answer: Pick<HttpAnswer, 'headers'>,
): string | undefined {
  if (page !== undefined) return undefined;
  const ours = Date.parse(startedAt);
  return new Date(Math.min(ours, providerTime(answer) ?? ours - OVERLAP)).toISOString();
}
