/** The most pages of one walk. No list of a vendor has more. */
const MOST_PAGES = 10_000;
/** The most pages in a row without an element. */
export const MOST_EMPTY = 100;

/**
 * Tracks a walk over pages of which each names the next one. It can be stored with the walk, because its size does not grow.
 *
 * A circle of pages is found by Brent's algorithm: each name is compared with that of one earlier page, the mark. The mark is
 * replaced after 1, 2, 4, 8, … pages, so a circle of any length is found before it was read three times.
 */
export interface PageTrail {
  readonly pages: number;
  /** Pages without an element since the last one that had any. */
  readonly empty: number;
  readonly mark?: string;
}

export const NO_PAGES: PageTrail = { pages: 0, empty: 0 };

/** A page that was read. */
export interface TrailedPage {
  /** Names the next page; absent on the last one. */
  readonly next?: string | undefined;
  readonly isEmpty?: boolean | undefined;
}

/** The reason why a walk must stop: `circle` and `long` end it; after `empty` it may continue later. */
export interface TrailFault {
  readonly kind: 'circle' | 'long' | 'empty';
  /** For people. */
  readonly message: string;
}

export interface Extended {
  readonly trail: PageTrail;
  readonly fault?: TrailFault;
}

/** Adds a page to the trail. @param most the most pages of this walk */
export function extendTrail(before: PageTrail, { next, isEmpty }: TrailedPage, most = MOST_PAGES): Extended {
  const pages = before.pages + 1;
  const empty = isEmpty ? before.empty + 1 : 0;
  const mark = isPowerOfTwo(pages) ? next : before.mark;
  const trail = { pages, empty, ...(mark !== undefined && { mark }) };
  if (next === undefined) return { trail };
  if (next === before.mark) return { trail, fault: { kind: 'circle', message: 'its pages lead in a circle' } };
  if (pages >= most) return { trail, fault: { kind: 'long', message: `it has not ended after ${most} pages` } };
  if (empty < MOST_EMPTY) return { trail };
  const message = `${MOST_EMPTY} pages in a row contain nothing, and another one follows`;
  return { trail: { ...trail, empty: 0 }, fault: { kind: 'empty', message } };
}

function isPowerOfTwo(value: number): boolean {
  return (value & (value - 1)) === 0;
}
