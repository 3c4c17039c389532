import { describe, expect, it } from 'vitest';
import type { DeliveryOrigin } from '../../../../src/model/delivery.ts';
import type { Item, PullRequest, Review } from '../../../../src/model/item.ts';
import type { StoredItem } from '../../../../src/store/items.ts';
import { clampTime, isSameValue, mergeNewest } from '../../../../src/sync/reconcile/newest-wins.ts';
import { bare, workItem } from '../../../support/rows/items.ts';

interface Fetched {
  readonly fetched: Item;
}

/** Merges deliveries one after the other. `outcome` is the outcome of the last one. */
function merge(...deliveries: readonly (Item | Fetched)[]) {
  let stored: StoredItem | undefined;
  let outcome = '';
  for (const delivery of deliveries) {
    const source: DeliveryOrigin = 'fetched' in delivery ? 'fetch' : 'webhook';
    const item = 'fetched' in delivery ? delivery.fetched : delivery;
    const result = mergeNewest(stored, item, source);
    outcome = result.needsFetch ? 'needs fetch' : result.outcome;
    if (result.outcome === 'applied') stored = result.stored;
  }
  return { outcome, item: (stored as StoredItem).item as PullRequest, older: (stored as StoredItem).older };
}

type Row = [rule: string, deliveries: readonly (Item | Fetched)[], outcome: string, stored: Partial<PullRequest>];

const A = { title: 'a' };
const B = { title: 'b' };
const APPROVED: Review = { reviewer: 'ben', state: 'approved', at: '2026-03-02T08:00:00Z' };
const CHANGES: Review = { reviewer: 'cho', state: 'changes', at: '2026-03-02T09:00:00Z' };
const fetched = (item: Item): Fetched => ({ fetched: item });

const TABLE: readonly Row[] = [
  ['the first delivery is applied', [bare(5, A)], 'applied', { ...A, updatedAt: 5 }],
  ['newer content replaces older content', [bare(5, A), bare(6, B)], 'applied', { ...B, updatedAt: 6 }],
  ['older content is superseded', [bare(6, A), bare(5, B)], 'superseded', A],
  ['an absent field is kept', [bare(5, { ...A, draft: true }), bare(6, B)], 'applied', { ...B, draft: true }],
  [
    'an undefined field is absent',
    [bare(5, { ...A, draft: true }), bare(6, { ...B, draft: undefined })],
    'applied',
    { ...B, draft: true },
  ],
  [
    'null is a value',
    [bare(5, { description: 'x' }), bare(6, { description: null })],
    'applied',
    { description: null },
  ],
  [
    'older content fills only fields that newer deliveries lack',
    [bare(6, A), bare(5, { ...B, draft: true })],
    'applied',
    { ...A, draft: true, updatedAt: 6 },
  ],
  [
    'a filled field is replaced by newer content',
    [bare(9, A), bare(5, { draft: true }), bare(7, { draft: false })],
    'applied',
    { ...A, draft: false, updatedAt: 9 },
  ],
  [
    'a filled field is not replaced by older content',
    [bare(9, A), bare(7, { draft: false }), bare(5, { draft: true })],
    'superseded',
    { ...A, draft: false },
  ],
  [
    'a field that newer deliveries lack keeps its own time',
    [bare(5, { draft: true }), bare(9, A), bare(7, { draft: false })],
    'applied',
    { ...A, draft: false },
  ],
  ['a repeat changes nothing', [bare(5, A), bare(5, A)], 'unchanged', A],
  [
    'lists are compared by content',
    [bare(5, { labels: ['x', 'y'] }), bare(5, { labels: ['x', 'y'] })],
    'unchanged',
    { labels: ['x', 'y'] },
  ],
  [
    'a tie that only adds fields needs no fetch',
    [bare(5, A), bare(5, { ...A, draft: true })],
    'applied',
    { ...A, draft: true },
  ],
  ['the last arrival of a contradicting tie wins until a fetch decides', [bare(5, A), bare(5, B)], 'needs fetch', B],
  [
    'each field of the last arrival wins its tie',
    [
      bare(5, { draft: true, isQueued: false, baseBranch: 'main', labels: ['bug'] }),
      bare(5, { draft: false, isQueued: true, baseBranch: 'next', labels: ['bug', 'urgent'] }),
    ],
    'needs fetch',
    { draft: false, isQueued: true, baseBranch: 'next', labels: ['bug', 'urgent'] },
  ],
  [
    'a state of the same time replaces that of the creation',
    [bare(5, { ...A, isCreation: true }), bare(5, B)],
    'needs fetch',
    B,
  ],
  [
    'a repeated creation does not replace a later state',
    [bare(5, { ...A, isCreation: true }), bare(5, B), bare(5, { ...A, isCreation: true })],
    'needs fetch',
    B,
  ],
  [
    'a repeated creation does not replace the last of several later states',
    [bare(5, { ...A, isCreation: true }), bare(5, B), bare(5, { title: 'c' }), bare(5, { ...A, isCreation: true })],
    'needs fetch',
    { title: 'c' },
  ],
  [
    'merged is later than closed',
    [bare(5, { state: 'closed' }), bare(5, { state: 'merged' })],
    'applied',
    { state: 'merged' },
  ],
  [
    'the last arrival of a tie of older times wins',
    [bare(9, { draft: true }), bare(5, A), bare(5, B)],
    'needs fetch',
    { ...B, draft: true, updatedAt: 9 },
  ],
  ['fetched content wins its tie', [bare(5, A), bare(5, B), fetched(bare(5, A))], 'applied', A],
  ['older fetched content does not replace newer content', [bare(6, A), fetched(bare(5, B))], 'superseded', A],
  ['a fetched object that agrees changes nothing', [bare(5, A), fetched(bare(5, A))], 'unchanged', A],
  [
    'a contested state does not reopen a merged pull request, and no other field of that delivery is applied',
    [bare(5, { ...A, state: 'merged' }), bare(5, { ...B, state: 'open' })],
    'needs fetch',
    { ...A, state: 'merged' },
  ],
  [
    'a contested state does not reopen a closed pull request',
    [bare(5, { state: 'closed' }), bare(5, { state: 'open' })],
    'needs fetch',
    { state: 'closed' },
  ],
  [
    'a contested state finishes an open pull request',
    [bare(5, { state: 'open' }), bare(5, { state: 'merged' })],
    'applied',
    { state: 'merged' },
  ],
  [
    'a fetched state reopens a closed pull request',
    [bare(5, { state: 'closed' }), bare(5, { state: 'open' }), fetched(bare(5, { state: 'open' }))],
    'applied',
    { state: 'open' },
  ],
  [
    'a newer state reopens a closed pull request',
    [bare(5, { state: 'closed' }), bare(6, { state: 'open' })],
    'applied',
    { state: 'open' },
  ],
  [
    'a report of a gone item needs a fetch',
    [bare(5, A), bare(6, { gone: true })],
    'needs fetch',
    { ...A, gone: true, updatedAt: 5 },
  ],
  [
    'a fetch that finds the item gone counts at any time',
    [bare(5, A), fetched(bare(4, { gone: true }))],
    'applied',
    { ...A, gone: true, updatedAt: 5 },
  ],
  [
    'a report of a gone item that exists needs a fetch',
    [bare(5, A), fetched(bare(6, { gone: true })), bare(7, B)],
    'needs fetch',
    { ...B, gone: true },
  ],
  [
    'an old event of a gone item needs a fetch too',
    [bare(5, A), fetched(bare(6, { gone: true })), bare(4, A)],
    'needs fetch',
    { ...A, gone: true },
  ],
  [
    'a fetch restores a gone item without a newer time',
    [bare(5, A), fetched(bare(9, { gone: true })), fetched(bare(5, A))],
    'applied',
    { ...A, gone: false },
  ],
  [
    'a restored item gets the content that changed meanwhile',
    [bare(5, A), fetched(bare(9, { gone: true })), fetched(bare(6, B))],
    'applied',
    { ...B, gone: false, updatedAt: 6 },
  ],
  [
    'an older report that a newer item is gone is ignored',
    [bare(7, A), bare(6, { gone: true })],
    'needs fetch',
    { ...A, gone: false },
  ],
  [
    'an older deletion does not hide a restored item',
    [bare(4, { gone: true }), fetched(bare(7, A)), bare(6, { gone: true })],
    'needs fetch',
    { ...A, gone: false },
  ],
  [
    'a gone item is filled with older content, and stays gone',
    [bare(6, { gone: true }), bare(5, A)],
    'needs fetch',
    { ...A, gone: true },
  ],
  [
    'version: higher replaces within one time',
    [bare(5, { ...A, version: 1 }), bare(5, { ...B, version: 2 })],
    'applied',
    { ...B, version: 2 },
  ],
  [
    'version: lower is superseded within one time',
    [bare(5, { ...A, version: 2 }), bare(5, { ...B, version: 1 })],
    'superseded',
    A,
  ],
  ['version: equal is a tie', [bare(5, { ...A, version: 2 }), bare(5, { ...B, version: 2 })], 'needs fetch', B],
  ['version: missing on one side is a tie', [bare(5, { ...A, version: 2 }), bare(5, B)], 'needs fetch', B],
  ['version: the time counts first', [bare(5, { ...A, version: 9 }), bare(6, { ...B, version: 1 })], 'applied', B],
  [
    'version: a version of another time does not count',
    [bare(5, { ...A, version: 1 }), bare(6, A), bare(6, { ...B, version: 2 })],
    'needs fetch',
    B,
  ],
  [
    'version: a field that the newest lacks is filled by the last that has it',
    [bare(5, { draft: true, version: 1 }), bare(5, { ...A, version: 3 }), bare(5, { draft: false, version: 2 })],
    'applied',
    { ...A, draft: false, version: 3 },
  ],
  [
    'the last decision of the reviewers wins a tie',
    [bare(5, { reviewDecision: { state: 'approved' } }), bare(5, { reviewDecision: { state: 'none' } })],
    'needs fetch',
    { reviewDecision: { state: 'none' } },
  ],
  [
    'an open state of any time does not replace a merged one, but its other fields do',
    [bare(5, { ...A, state: 'merged', mergedAt: 'x' }), bare(9, { ...B, state: 'open', mergedAt: null })],
    'applied',
    { ...B, state: 'merged', mergedAt: 'x', updatedAt: 9 },
  ],
  [
    'a merged state of any time replaces an open one, and no other field',
    [bare(9, { ...A, state: 'open', mergedAt: null }), bare(5, { ...B, state: 'merged', mergedAt: 'x' })],
    'applied',
    { ...A, state: 'merged', mergedAt: 'x', updatedAt: 9 },
  ],
  [
    'a declined pull request stays declined',
    [bare(5, { state: 'declined' }), bare(9, { state: 'open' })],
    'applied',
    { state: 'declined' },
  ],
  [
    'a fetch decides that a merged pull request is open',
    [bare(5, { state: 'merged' }), fetched(bare(9, { state: 'open' }))],
    'applied',
    { state: 'open' },
  ],
  [
    'reviews are merged by their ids',
    [bare(5, { ...A, reviews: { 7: APPROVED } }), bare(6, { ...B, reviews: { 8: CHANGES } })],
    'applied',
    { ...B, reviews: { 7: APPROVED, 8: CHANGES } },
  ],
  [
    'an older delivery adds its review, and nothing else',
    [bare(6, { ...A, reviews: { 8: CHANGES } }), bare(5, { ...B, reviews: { 7: APPROVED } })],
    'applied',
    { ...A, reviews: { 7: APPROVED, 8: CHANGES }, updatedAt: 6 },
  ],
  [
    'a dismissed review stays dismissed',
    [bare(5, { reviews: { 7: { ...APPROVED, state: 'dismissed' } } }), bare(6, { reviews: { 7: APPROVED } })],
    'applied',
    { reviews: { 7: { ...APPROVED, state: 'dismissed' } } },
  ],
  [
    'two reviews of one time need no fetch',
    [bare(5, { ...A, reviews: { 7: APPROVED } }), bare(5, { ...A, reviews: { 8: CHANGES } })],
    'applied',
    { ...A, reviews: { 7: APPROVED, 8: CHANGES } },
  ],
];

describe('newest wins', () => {
  it.each(TABLE)('%s', (_rule, deliveries, outcome, stored) => {
    const merged = merge(...deliveries);
    expect(merged.outcome).toBe(outcome);
    expect(merged.item).toMatchObject(stored);
  });

  it('stores no absent field', () => {
    expect(Object.keys(merge(bare(1, { draft: undefined, title: 'a' })).item)).not.toContain('draft');
  });

  it('stores times only of fields that are older than the item', () => {
    const { older } = merge(bare(5, { ...A, draft: true }), bare(6, B));
    expect(older).toEqual({ draft: { updatedAt: 5 } });
  });

  it('removes an older time when a newer delivery carries the field', () => {
    expect(merge(bare(5, { draft: true }), bare(6, A), bare(7, { draft: true })).older).toEqual({
      title: { updatedAt: 6 },
    });
  });

  it('does not modify its arguments', () => {
    const first = Object.freeze(bare(5, A));
    const result = mergeNewest(undefined, first, 'webhook');
    if (result.outcome !== 'applied') throw new Error('not applied');
    Object.freeze(result.stored);
    Object.freeze(result.stored.item);
    Object.freeze(result.stored.older);
    expect(mergeNewest(result.stored, bare(6, B), 'webhook').outcome).toBe('applied');
    expect(result.stored.item).toMatchObject(A);
  });

  it('does not reopen a finished work item by a contested state', () => {
    const merged = merge(workItem({ state: 'done' }), workItem({ state: 'in_progress' }));
    expect(merged.outcome).toBe('needs fetch');
    expect(merged.item.state).toBe('done');
  });
});

describe('a time from the future', () => {
  const RECEIVED = 10_000_000;
  it.each([
    ['in the past', RECEIVED - 1, RECEIVED - 1],
    ['of the receipt', RECEIVED, RECEIVED],
    ['5 minutes ahead', RECEIVED + 300_000, RECEIVED + 300_000],
    ['a millisecond more', RECEIVED + 300_001, RECEIVED],
    ['years ahead', Date.UTC(2200, 0, 1), RECEIVED],
  ])('a time %s', (_, updatedAt, expected) => {
    const item = bare(updatedAt, A);
    const own = expected === updatedAt ? {} : { toldAt: updatedAt };
    expect(clampTime(item, RECEIVED)).toEqual({ ...item, updatedAt: expected, ...own });
  });

  it.each([
    ['is not older than the stored state', RECEIVED + 900_000, RECEIVED + 600_000, RECEIVED + 600_000],
    ['is older if the provider dates it older', RECEIVED + 500_000, RECEIVED + 600_000, RECEIVED + 500_000],
    ['is the receipt if the stored state is older', RECEIVED + 900_000, RECEIVED - 1, RECEIVED],
  ])('after our clock was set back, a time in the future %s', (_, updatedAt, storedAt, expected) => {
    expect(clampTime(bare(updatedAt, A), RECEIVED, bare(storedAt)).updatedAt).toBe(expected);
  });

  it.each([
    ['of the same second', RECEIVED + 950_000, RECEIVED + 1_000],
    ['older, and our clock is right again', RECEIVED + 900_000, RECEIVED + 960_000],
    ['of the same second, and our clock is right again', RECEIVED + 950_000, RECEIVED + 960_000],
  ])('ties with a stored state from the future if the provider dates it as %s, and a fetch decides', (_, at, late) => {
    const stored = clampTime(bare(RECEIVED + 950_000, B), RECEIVED);
    const other = clampTime(bare(at, A), late, stored);
    expect(merge(stored, other).outcome).toBe('needs fetch');
    const fetched = clampTime(bare(RECEIVED + 950_000, B), late + 1_000, other);
    expect(merge(stored, other, { fetched }).item).toMatchObject(B);
  });

  it('does not count after our clock is right and the provider dates a later state', () => {
    const stored = clampTime(bare(RECEIVED + 950_000, A), RECEIVED);
    const later = clampTime(bare(RECEIVED + 951_000, B), RECEIVED + 960_000, stored);
    const { item, outcome } = merge(stored, later);
    expect([outcome, item]).toEqual(['applied', { ...later, gone: false }]);
    expect(item).not.toHaveProperty('toldAt');
  });

  it('is stored beside the clamped one, until a plausible time is newer', () => {
    const ahead = clampTime(bare(RECEIVED + 900_000, A), RECEIVED);
    expect(merge(ahead).item).toMatchObject({ updatedAt: RECEIVED, toldAt: RECEIVED + 900_000 });
    expect(merge(ahead, bare(RECEIVED + 1, B)).item).not.toHaveProperty('toldAt');
  });

  /** States of one pull request in the order of their arrival, a second apart, with these times relative to the first. */
  function arrive(...states: readonly [at: number, fields: Partial<PullRequest>][]) {
    let stored: StoredItem | undefined;
    for (const [index, [at, fields]] of states.entries()) {
      const item = clampTime(bare(RECEIVED + at, fields), RECEIVED + index * 1_000, stored?.item);
      const result = mergeNewest(stored, item, 'webhook');
      if (result.outcome === 'applied') stored = result.stored;
    }
    return (stored as StoredItem).item as PullRequest;
  }

  const FAR = Date.UTC(2199, 0, 1) - RECEIVED;
  const AHEAD = 600_000;
  const OPEN: Partial<PullRequest> = { state: 'open', mergedAt: null };
  const MERGED: Partial<PullRequest> = { state: 'merged', mergedAt: '1970-01-01T02:46:40.000Z' };

  it.each<[string, readonly [number, Partial<PullRequest>][], Partial<PullRequest>]>([
    [
      'of 2199 keeps no merge from being taken',
      [
        [0, OPEN],
        [FAR, { ...OPEN, ...B }],
        [1_000, { ...MERGED, ...A }],
      ],
      { ...MERGED, ...A },
    ],
    [
      'of 2199 in the first delivery keeps no older state from being taken',
      [
        [FAR, { ...OPEN, ...B }],
        [-9_000, { ...OPEN, ...A }],
      ],
      A,
    ],
    [
      'of 2199 does not replace a state with a plausible time',
      [
        [0, A],
        [FAR, B],
      ],
      A,
    ],
    [
      'of 2199 fills a field that a plausible state then replaces',
      [
        [0, A],
        [FAR, { labels: ['x'] }],
        [-1_000, { labels: [] }],
      ],
      { ...A, labels: [] },
    ],
    [
      'of 2199 neither reopens nor merges by its date alone',
      [
        [0, MERGED],
        [FAR, OPEN],
      ],
      MERGED,
    ],
    [
      'of 2199 is replaced by the same content with a plausible time',
      [
        [FAR, A],
        [1_000, A],
        [0, B],
      ],
      A,
    ],
    [
      'of 2199 wins over another one by its arrival',
      [
        [FAR, A],
        [FAR - 9_000, B],
      ],
      B,
    ],
    [
      'of a clock that went ahead does not stop the updates',
      [
        [0, A],
        [AHEAD, B],
        [AHEAD + 1_000, { title: 'c' }],
      ],
      { title: 'c' },
    ],
    [
      'of a clock that went ahead does not stop the updates after the clock is right again',
      [
        [0, A],
        [AHEAD, B],
        [2_000, { title: 'c' }],
      ],
      { title: 'c' },
    ],
    [
      'of a clock that went ahead does not let older states return',
      [
        [0, A],
        [AHEAD, B],
        [-1_000, { title: 'c' }],
      ],
      B,
    ],
  ])('%s', (_, states, expected) => {
    expect(arrive(...states)).toMatchObject(expected);
  });

  it('of 2199 among the content becomes the time of receipt, once', () => {
    const review = (at: string, state: Review['state']) => ({ 7: { reviewer: 'ben', state, at } });
    const far = '2199-01-01T00:00:00.000Z';
    const receipt = new Date(RECEIVED).toISOString();
    const first = bare(RECEIVED, { ...A, closedAt: far, reviews: review(far, 'approved') });
    const stored = clampTime(first, RECEIVED);
    expect(stored).toMatchObject({ closedAt: receipt, reviews: { 7: { at: receipt } } });
    expect(clampTime(first, RECEIVED + 9_000, stored)).toEqual(stored);
    const later = bare(RECEIVED + 2_000, { reviews: review(new Date(RECEIVED + 1_000).toISOString(), 'changes') });
    expect(merge(stored, later).item.reviews).toEqual(later.reviews);
  });

  it('does not block later states', () => {
    const far = clampTime(bare(Date.UTC(2200, 0, 1), A), RECEIVED);
    expect(merge(far, bare(RECEIVED + 1, B)).item).toMatchObject(B);
  });
});

describe('values of fields are equal', () => {
  it.each<[unknown, unknown, boolean]>([
    ['a', 'a', true],
    ['a', 'b', false],
    [null, null, true],
    [null, undefined, false],
    [[], [], true],
    [['a'], ['a'], true],
    [['a'], ['a', 'b'], false],
    [['a', 'b'], ['b', 'a'], false],
    [['a'], 'a', false],
    [false, null, false],
    [{ ada: 'a@b.example', ben: 'c' }, { ben: 'c', ada: 'a@b.example' }, true],
    [{ ada: 'a@b.example' }, { ada: 'c@b.example' }, false],
    [{ ada: 'a@b.example' }, {}, false],
    [{}, null, false],
  ])('%j, %j: %j', (left, right, expected) => {
    expect(isSameValue(left, right)).toBe(expected);
    expect(isSameValue(right, left)).toBe(expected);
  });
});
