import { SyncError } from '../../model/errors/sync-error.ts';
import { extendTrail, NO_PAGES } from '../../platform/lib/page-trail.ts';
import { malformed } from './refusal.ts';

/** The stored page of a walk, where the vendor gives pages names of this form. Throws `internal` for anything else. */
export function storedPage(page: string | undefined, form: RegExp): string | undefined {
  if (page === undefined || form.test(page)) return page;
  throw invalidPage(page);
}

/** For a stored page that worksync cannot have written. */
export function invalidPage(page: string): SyncError {
  return new SyncError('internal', `the stored page of a walk is invalid: ${page.slice(0, 40)}`);
}

/** The name of the page behind this one, which is sent back as it came. Throws `answer_malformed` for one that is none. */
export function nextPage(next: string | undefined | null, form: RegExp, present: string | undefined, what: string) {
  if (next === undefined || next === null || !form.test(next))
    throw malformed(`${what}: the next page has no usable name`);
  if (next === present) throw malformed(`${what}: a page names itself as its next page`);
  return next;
}

/** The most pages of a list that is read at once, such as that of all projects: more than any account has. */
const MOST_PAGES = 1_000;

/**
 * The elements of each page of a list, where every page names the next one. Throws `list_endless` where they lead in a circle or
 * do not end.
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
 * The same of a list whose pages are counted by elements: each page begins behind those that were read.
 *
 * @param read gets how many elements were read before; `isLast` where none follows
 */
export function countedPagesOf<Element>(
  what: string,
  read: (seen: number) => Promise<{ readonly found: readonly Element[]; readonly isLast: boolean }>,
): AsyncGenerator<readonly Element[]> {
  let seen = 0;
  return pagesOf(what, async () => {
    const { found, isLast } = await read(seen);
    seen += found.length;
    return { found, next: isLast ? undefined : String(seen) };
  });
}

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
