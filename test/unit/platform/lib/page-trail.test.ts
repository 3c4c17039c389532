import { describe, expect, test } from 'vitest';
import {
  extendTrail,
  MOST_EMPTY,
  MOST_PAGES,
  NO_PAGES,
  type TrailedPage,
} from '../../../../src/platform/lib/page-trail.ts';

/** Reads pages until the trail says that the walk must stop. */
function follow(pageAt: (count: number) => TrailedPage, most?: number) {
  let trail = NO_PAGES;
  for (let count = 0; ; count++) {
    const page = pageAt(count);
    const extended = extendTrail(trail, page, most);
    trail = extended.trail;
    if (extended.fault || page.next === undefined) return { kind: extended.fault?.kind, pages: trail.pages, trail };
  }
}

describe('a trail of pages', () => {
  test.each([
    [0, 1],
    [0, 2],
    [0, 1_000],
    [5, 1],
    [500, 3],
  ])('finds a circle behind %i pages that is %i pages long', (before, length) => {
    const { kind, pages } = follow((count) => ({
      next: `${count < before ? count : before + ((count - before) % length)}`,
    }));
    expect(kind).toBe('circle');
    expect(pages).toBeLessThanOrEqual(3 * (before + length) + 2);
  });

  test('lets a walk end that has no more pages than the bound', () => {
    expect(follow((count) => (count < MOST_PAGES - 1 ? { next: `${count}` } : {}))).toMatchObject({ kind: undefined });
    expect(follow((count) => ({ next: `${count}` }))).toMatchObject({ kind: 'long', pages: MOST_PAGES });
    expect(follow((count) => ({ next: `${count}` }), 7)).toMatchObject({ kind: 'long', pages: 7 });
  });

  test('stops at empty pages in a row, and not at those between others', () => {
    expect(follow((count) => ({ next: `${count}`, isEmpty: count > 3 }))).toMatchObject({
      kind: 'empty',
      pages: MOST_EMPTY + 4,
      trail: { empty: 0 },
    });
    expect(
      follow((count) => ({ next: count < 999 ? `${count}` : undefined, isEmpty: count % 50 > 0 })).kind,
    ).toBeUndefined();
  });
});
