import { SyncError } from '../../model/errors/sync-error.ts';
import { extendTrail, NO_PAGES } from '../../platform/lib/page-trail.ts';
import { malformed } from './refusal.ts';

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

interface NumberedPage {
  readonly cursor: PageCursor | undefined;
  /** Whether the walk reads the first page, which names the number of the last, and then goes from the last page to the first. */
  readonly backwards?: boolean;
  pageOf(rel: 'next' | 'prev' | 'last'): number | undefined;
  readonly what: string;
}

/** Returns the cursor of the next page as text for the position; undefined on the last page. Throws `answer_malformed`. */
export function nextPageCursor({ cursor, backwards, pageOf, what }: NumberedPage): string | undefined {
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
