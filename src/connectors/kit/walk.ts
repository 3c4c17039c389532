import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { HistoryPage, HistoryPosition, PollPage, PollPosition } from '../connector.ts';
import { invalidPage } from './pages.ts';
import { omitUndefined } from './payload.ts';
import { providerTime, type Use } from './rate-limit.ts';

/** Which elements of a list are wanted. Times are epoch milliseconds. */
export type Selection =
  /**
   * The first walk: what is not done, in an order that never changes. If an item that becomes done left the list during the
   * walk, another item would slip onto a page that was read already. So the list also contains what changed since the walk
   * began, unless the vendor names pages by a place that does not move.
   */
  | { readonly items: 'open'; readonly began: number }
  /** What was changed since a time; everything where there is none. */
  | { readonly items: 'changed'; readonly since: number | undefined; readonly way: 'poll' | 'history' }
  /** Only the ids, of everything, in an order that never changes. */
  | { readonly items: 'ids'; readonly containerId: string };

export interface ListRequest {
  readonly unit: string;
  readonly selection: Selection;
  /** Names the page, as `next` did; absent on the first one. */
  readonly page: string | undefined;
  readonly use: Use;
  /** The validator of the last walk's first page, where walks are conditional. */
  readonly etag?: string | undefined;
}

export interface ListedPage {
  readonly found: readonly unknown[];
  /** Names the next page; undefined on the last one. */
  readonly next: string | undefined;
  /** Its headers tell the vendor's time, where the list is one that walks read. */
  readonly answer: Pick<HttpAnswer, 'headers'>;
  /** How many there are, where the answer tells. */
  readonly total?: number | undefined;
  /** Nothing changed since that walk. */
  readonly isUnchanged?: boolean;
  /** worksync cuts the pages itself, for example by time: an empty one says nothing of those behind it. */
  readonly isWindow?: boolean;
}

/** Whether the vendor sent a page without an element, behind which another one follows, as pages of intake tell it. */
export function emptyPageFlag({ found, next, isWindow }: Pick<ListedPage, 'found' | 'next' | 'isWindow'>) {
  return found.length === 0 && next !== undefined && !isWindow ? { isEmpty: true } : {};
}

/**
 * How a vendor lists what was changed since a time. It decides how far the watermark of a walk may move:
 *
 * - `since`: from that time on: what changes during the walk is on a page still to come, or newer than what the walk has seen;
 * - `newest first`: everything, newest change first: the walk itself ends where a page reaches back beyond the time;
 * - `fixed`: from that time on, in an order that never changes. What changes during the walk may be on a page that was read
 *   already. So the watermark moves no further than the time at which the walk began; the next walk brings that change.
 */
export type Order = 'since' | 'newest first' | 'fixed';

export interface Walk {
  readonly order: Order;
  /** Whether a walk over changes asks for its first page with the validator of the last walk: every change alters that page. */
  readonly isConditional?: boolean;
  list(wanted: ListRequest, signal: AbortSignal): Promise<ListedPage>;
  /** When a listed element was changed, epoch milliseconds; NaN where that cannot be read: `translate` judges the element. */
  changedAt(element: unknown): number;
  /** Whether an element is done, where the vendor cannot leave those out of the first walk. */
  isDone?(element: unknown): boolean;
  /** A page as worksync stores it. */
  write(found: readonly unknown[], signal: AbortSignal): Promise<Pick<HistoryPage, 'event' | 'body'>>;
}

/**
 * One page of a walk. With a watermark: what was changed since then less the overlap. Without one, the first walk: what is
 * not done; its watermark starts no earlier than the walk.
 */
export async function pollPage(walk: Walk, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const { unit, watermark, startedAt } = position;
  const place = placeOf(walk.order, position.page);
  const isFirstWalk = watermark === undefined;
  const since = isFirstWalk ? undefined : Date.parse(watermark) - OVERLAP;
  const began = Date.parse(startedAt) - OVERLAP;
  const selection: Selection = isFirstWalk ? { items: 'open', began } : { items: 'changed', since, way: 'poll' };
  const isValidated = walk.isConditional && !isFirstWalk && position.page === undefined;
  const etag = isValidated ? position.etag : undefined;
  const listed = await walk.list({ unit, selection, page: place.page, use: 'poll', etag }, signal);
  if (listed.isUnchanged) return { outcome: 'unchanged' };
  const times = listed.found.map(walk.changedAt);
  const cut = cutOf(walk, since);
  const isWanted = (element: unknown, at: number) =>
    isFirstWalk ? !walk.isDone?.(element) || (times[at] as number) >= began : !((times[at] as number) < cut);
  const start = firstWalkStart({ ...position, page: undefined }, listed.answer);
  const latest = walk.order === 'fixed' ? (place.began ?? Date.parse(start ?? '')) : Number.POSITIVE_INFINITY;
  const next = isBeyond(times, cut) ? undefined : listed.next;
  return {
    outcome: 'page',
    ...(await walk.write(listed.found.filter(isWanted), signal)),
    next: next !== undefined && walk.order === 'fixed' ? `${next}@${latest}` : next,
    newest: isFirstWalk
      ? firstWalkStart(position, listed.answer)
      : newestWatermark(
          times.map((time) => Math.min(time, latest)),
          listed.answer,
        ),
    ...(isValidated && isTelling(times, listed.answer) && omitUndefined({ etag: listed.answer.headers['etag'] })),
    ...emptyPageFlag(listed),
  };
}

/** One page of everything that was changed since a time. */
export async function historyPage(walk: Walk, position: HistoryPosition, signal: AbortSignal): Promise<HistoryPage> {
  const { unit } = position;
  const since = position.since === undefined ? undefined : Date.parse(position.since);
  const { page } = placeOf(walk.order, position.page);
  const wanted: ListRequest = { unit, selection: { items: 'changed', since, way: 'history' }, page, use: 'background' };
  const listed = await walk.list(wanted, signal);
  const { found, next, total } = listed;
  const times = found.map(walk.changedAt);
  const cut = cutOf(walk, since);
  const written = await walk.write(
    found.filter((_, at) => !((times[at] as number) < cut)),
    signal,
  );
  return {
    ...written,
    ...omitUndefined({ next: isBeyond(times, cut) ? undefined : next, total }),
    ...emptyPageFlag(listed),
  };
}

/** The time at which the walk itself must end; a vendor that can be asked for a time leaves out what is older. */
function cutOf({ order }: Walk, since: number | undefined): number {
  return order === 'newest first' && since !== undefined ? since : Number.NEGATIVE_INFINITY;
}

/** The list is ordered, so its last element tells; a time that cannot be read does not. */
function isBeyond(times: readonly number[], cut: number): boolean {
  return (times.at(-1) ?? Number.NaN) < cut;
}

/**
 * Whether every change must alter this first page, newest change first. Where all its elements have one time, and that second
 * is not over, an item that changes within the second may come to stand behind the page.
 */
function isTelling(times: readonly number[], answer: ListedPage['answer']): boolean {
  const [newest = 0, oldest = 0] = [times[0], times.at(-1)];
  return times.length < 2 || oldest < newest || newest + SECOND <= (providerTime(answer) ?? newest);
}

const SECOND = 1_000;

const PLACE = /^(.{1,4000}?)(?:@(\d{1,15}))?$/;

/** The page, and behind it when the walk began, epoch milliseconds, where its order is fixed. */
function placeOf(order: Order, page: string | undefined): { page: string | undefined; began?: number | undefined } {
  if (page === undefined || order !== 'fixed') return { page };
  const [, place, began] = PLACE.exec(page) ?? [];
  if (place === undefined) throw invalidPage(page);
  return { page: place, began: began === undefined ? undefined : Number(began) };
}

/** What was changed this long before the watermark is read again: lists lag behind, and times share a second. */
export const OVERLAP = 10 * 60_000;

/** Epoch milliseconds of a field; NaN where it cannot be read: the walk keeps such an element, for `translate` to judge. */
export function timeOf(element: unknown, field: string): number {
  const time = (element as Record<string, unknown> | null | undefined)?.[field];
  return typeof time === 'string' ? Date.parse(time) : Number.NaN;
}

/** The newest of the times, but none ahead of the provider's clock: such a watermark would skip what happens until then. */
export function newestWatermark(times: readonly number[], answer: Pick<HttpAnswer, 'headers'>): string | undefined {
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
