import { SyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { extendTrail, NO_PAGES } from '../../platform/lib/page-trail.ts';
import type { Fetched, HistoryPage, HistoryPosition, PollPage, PollPosition } from '../connector.ts';
import { omitUndefined } from './payload.ts';
import { malformed, providerTime, type RateLimitUse } from './refusal.ts';

/** The elements of a list to read. Times are epoch milliseconds. */
export type Selection =
  /**
   * The first walk: what is not done, in an order that never changes. If an item that becomes done left the list during the
   * walk, another item would move to a page that was read already. So the list also contains what changed since the walk
   * began, unless the vendor names pages by a position that does not move.
   */
  | { readonly items: 'open'; readonly began: number }
  /** The elements that changed since a time; all if there is none. */
  | { readonly items: 'changed'; readonly since: number | undefined; readonly way: 'poll' | 'history' }
  /** Only the ids, of everything, in an order that never changes. */
  | { readonly items: 'ids'; readonly containerId: string };

export interface ListRequest {
  readonly unit: string;
  readonly selection: Selection;
  readonly page: string | undefined;
  readonly use: RateLimitUse;
  /** The validator of the last walk's first page, if walks are conditional. */
  readonly etag?: string | undefined;
}

export interface ListedPage {
  readonly found: readonly unknown[];
  readonly next: string | undefined;
  /** The headers of the answer, which contain the vendor's time. Walks need them. */
  readonly answer: Pick<HttpAnswer, 'headers'>;
  readonly total?: number | undefined;
  /** Nothing changed since the walk whose validator was sent. */
  readonly isUnchanged?: boolean;
  /** worksync makes the pages itself, for example by time: an empty page then says nothing about those behind it. */
  readonly isWindow?: boolean;
}

/** Returns `isEmpty` for a page on which the vendor lists nothing although another page follows. */
export function emptyPageFlag({ found, next, isWindow }: Pick<ListedPage, 'found' | 'next' | 'isWindow'>) {
  return found.length === 0 && next !== undefined && !isWindow ? { isEmpty: true } : {};
}

/**
 * The order in which a vendor lists changes since a time. It decides how far the watermark of a walk may move:
 *
 * - `since`: from that time on. A change during the walk is on a page still to come, or newer than all that the walk read.
 * - `newest first`: everything, newest change first. The walk itself ends where a page reaches back beyond the time.
 * - `fixed`: from that time on, in an order that never changes. A change during the walk may be on a page that was read
 *   already. So the watermark moves no further than the beginning of the walk, and the next walk reads that change.
 */
export type Order = 'since' | 'newest first' | 'fixed';

/** One vendor's list, as walks read it. */
export interface WalkableList {
  readonly order: Order;
  /** Whether the first page is requested with the validator of the last walk. Requires that every change alters that page. */
  readonly isConditional?: boolean;
  list(request: ListRequest, signal: AbortSignal): Promise<ListedPage>;
  /** Returns when an element was changed, epoch milliseconds; NaN if that cannot be read, so that `translate` reports it. */
  changedAt(element: unknown): number;
  /** Whether an element is done. Needed if the vendor cannot exclude such elements from the first walk. */
  isDone?(element: unknown): boolean;
  serialize(found: readonly unknown[], signal: AbortSignal): Promise<Fetched>;
}

/** The time before the watermark that is read again, milliseconds: lists lag behind, and several changes share a second. */
const OVERLAP = 10 * 60_000;
const SECOND = 1_000;

/**
 * Reads one page of a walk: what changed since the watermark less the overlap. Without a watermark, the first walk reads what is
 * not done, and its watermark becomes the time at which it began.
 */
export async function pollPage(walk: WalkableList, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const { unit, watermark, startedAt } = position;
  const isFirstWalk = watermark === undefined;
  const began = Date.parse(startedAt) - OVERLAP;
  const selection: Selection = isFirstWalk
    ? { items: 'open', began }
    : { items: 'changed', since: Date.parse(watermark) - OVERLAP, way: 'poll' };
  const { page, beganAt } = readWalkPage(walk.order, position.page);
  const isConditional = walk.isConditional && !isFirstWalk && position.page === undefined;
  const etag = isConditional ? position.etag : undefined;

  const listed = await walk.list({ unit, selection, page, use: 'poll', etag }, signal);
  if (listed.isUnchanged) return { outcome: 'unchanged' };

  const { times, next, ...stored } = await selectFrom(walk, selection, listed, signal);
  // In a fixed order the watermark moves no further than the beginning of the walk, which the name of each next page carries.
  const start = firstWalkStart({ ...position, page: undefined }, listed.answer);
  const latest = walk.order === 'fixed' ? (beganAt ?? Date.parse(start ?? '')) : Number.POSITIVE_INFINITY;
  const capped = times.map((time) => Math.min(time, latest));
  return {
    outcome: 'page',
    ...stored,
    next: next !== undefined && walk.order === 'fixed' ? `${next}@${latest}` : next,
    newest: isFirstWalk ? firstWalkStart(position, listed.answer) : newestWatermark(capped, listed.answer),
    ...(isConditional &&
      isValidatorSafe(times, listed.answer) &&
      omitUndefined({ etag: listed.answer.headers['etag'] })),
  };
}

/** Reads one page of everything that was changed since a time, for a backfill. */
export async function historyPage(
  walk: WalkableList,
  { unit, since, page: position }: HistoryPosition,
  signal: AbortSignal,
): Promise<HistoryPage> {
  const { page } = readWalkPage(walk.order, position);
  const selection = {
    items: 'changed',
    since: since === undefined ? since : Date.parse(since),
    way: 'history',
  } as const;
  const listed = await walk.list({ unit, selection, page, use: 'background' }, signal);
  const { times: _, next, ...stored } = await selectFrom(walk, selection, listed, signal);
  return { ...stored, ...omitUndefined({ next, total: listed.total }) };
}

/**
 * Serializes the selected elements of a page. A vendor that lists since a time leaves out older elements. A walk over everything,
 * newest change first, ends where the last element of a page is older. An element without a readable time is kept.
 */
async function selectFrom(
  walk: WalkableList,
  selection: Exclude<Selection, { items: 'ids' }>,
  listed: ListedPage,
  signal: AbortSignal,
) {
  const times = listed.found.map(walk.changedAt);
  const since = selection.items === 'changed' && walk.order === 'newest first' ? selection.since : undefined;
  const isOlder = (time = Number.NaN) => since !== undefined && time < since;
  const selected = listed.found.filter((element, index) =>
    selection.items === 'open'
      ? !walk.isDone?.(element) || (times[index] as number) >= selection.began
      : !isOlder(times[index]),
  );
  const next = isOlder(times.at(-1)) ? undefined : listed.next;
  return { ...(await walk.serialize(selected, signal)), ...emptyPageFlag(listed), times, next };
}

/**
 * Whether every change must alter this first page, newest change first. If all its elements have one time, and that second
 * is not over, an item that changes within the second may be listed after the page.
 */
function isValidatorSafe(times: readonly number[], answer: ListedPage['answer']): boolean {
  const [newest = 0, oldest = 0] = [times[0], times.at(-1)];
  return times.length < 2 || oldest < newest || newest + SECOND <= (providerTime(answer) ?? newest);
}

const WALK_PAGE = /^(.{1,4000}?)(?:@(\d{1,15}))?$/;

/** Splits a stored page of a walk in a fixed order: the vendor's page, and when the walk began, epoch milliseconds. */
function readWalkPage(
  order: Order,
  page: string | undefined,
): { page: string | undefined; beganAt?: number | undefined } {
  if (page === undefined || order !== 'fixed') return { page };
  const [, vendorPage, beganAt] = WALK_PAGE.exec(page) ?? [];
  if (vendorPage === undefined) throw invalidPage(page);
  return { page: vendorPage, beganAt: beganAt === undefined ? undefined : Number(beganAt) };
}

/** Reads a time field, epoch milliseconds; NaN if that is impossible: the walk keeps such an element, and `translate` reports it. */
export function timeOf(element: unknown, field: string): number {
  const time = (element as Record<string, unknown> | null | undefined)?.[field];
  return typeof time === 'string' ? Date.parse(time) : Number.NaN;
}

/** Returns the newest time, but none ahead of the provider's clock: such a watermark would skip what changes until then. */
function newestWatermark(times: readonly number[], answer: Pick<HttpAnswer, 'headers'>): string | undefined {
  const readableTimes = times.filter((time) => !Number.isNaN(time));
  if (readableTimes.length === 0) return undefined;
  const newest = Math.max(...readableTimes);
  return new Date(Math.min(newest, providerTime(answer) ?? Number.POSITIVE_INFINITY)).toISOString();
}

/**
 * Returns the watermark of the first walk: the time of its first page, and not the time of an element. The walk may last longer
 * than the overlap. A late change would then move the watermark past the closing of an item that an earlier page listed as open.
 *
 * The time is that of the provider's clock or ours, whichever is behind. If the provider reports none, it is ours less the overlap.
 */
export function firstWalkStart(
  { page, startedAt }: PollPosition,
  answer: Pick<HttpAnswer, 'headers'>,
): string | undefined {
  if (page !== undefined) return undefined;
  const ours = Date.parse(startedAt);
  return new Date(Math.min(ours, providerTime(answer) ?? ours - OVERLAP)).toISOString();
}

/** The most pages of a list that is read in one go, such as that of all projects: more than any account has. */
const MOST_PAGES = 1_000;

/**
 * Yields the elements of each page of a list whose pages name the next one. Throws `list_endless` if the pages lead in a circle
 * or do not end.
 *
 * @param what names the list in errors
 */
export async function* pagesOf<Element>(
  what: string,
  read: (
    page: string | undefined,
  ) => Promise<{ readonly found: readonly Element[]; readonly next: string | undefined }>,
): AsyncGenerator<readonly Element[]> {
  let trail = NO_PAGES;
  for (let page: string | undefined; ; ) {
    const { found, next }: Awaited<ReturnType<typeof read>> = await read(page);
    yield found;
    if (next === undefined) return;
    const extended = extendTrail(trail, { next, isEmpty: found.length === 0 }, MOST_PAGES);
    if (extended.fault) throw new SyncError('list_endless', `${what}: ${extended.fault.message}`);
    trail = extended.trail;
    page = next;
  }
}

/**
 * Yields the pages of a list that is read by offset: each page begins after the elements that were read before.
 *
 * @param read gets the number of elements before the page; `isLast` means that no page follows
 */
export function countedPagesOf<Element>(
  what: string,
  read: (offset: number) => Promise<{ readonly found: readonly Element[]; readonly isLast: boolean }>,
): AsyncGenerator<readonly Element[]> {
  let offset = 0;
  return pagesOf(what, async () => {
    const { found, isLast } = await read(offset);
    offset += found.length;
    return { found, next: isLast ? undefined : String(offset) };
  });
}

/** Returns the stored page of a walk if it has the form of the vendor's page names, else throws `internal`. */
export function storedPage(page: string | undefined, form: RegExp): string | undefined {
  if (page === undefined || form.test(page)) return page;
  throw invalidPage(page);
}

export function invalidPage(page: string): SyncError {
  return new SyncError('internal', `the stored page of a walk is invalid: ${page.slice(0, 40)}`);
}

/**
 * Returns the vendor's name of the next page, which is sent back unchanged. Throws `answer_malformed` if it has another form, or
 * names the present page.
 */
export function nextPage(next: string | undefined | null, form: RegExp, present: string | undefined, what: string) {
  if (next === undefined || next === null || !form.test(next))
    throw malformed(`${what}: the next page has no usable name`);
  if (next === present) throw malformed(`${what}: a page names itself as its next page`);
  return next;
}

/** The position of a walk over numbered pages: its direction, and the number of the page. */
interface PageCursor {
  readonly rel: 'next' | 'prev';
  readonly page: number;
}

/** Parses the stored `page` of a position. Throws `internal`. */
export function readPageCursor(text: string | undefined): PageCursor | undefined {
  if (text === undefined) return undefined;
  const match = /^(next|prev):([1-9]\d{0,6})$/.exec(text);
  if (!match) throw invalidPage(text);
  return { rel: match[1] as PageCursor['rel'], page: Number(match[2]) };
}

/**
 * Returns the cursor of the next page as text for the position; undefined on the last page. Throws `answer_malformed`.
 *
 * @param backwards whether the walk goes from the last page to the first, after a first page that names the number of the last
 */
export function nextPageCursor(
  cursor: PageCursor | undefined,
  backwards: boolean,
  pageOf: (rel: 'next' | 'prev' | 'last') => number | undefined,
  what: string,
): string | undefined {
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
