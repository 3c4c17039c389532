import { describe, expect, it } from 'vitest';
import type { DeliverySource } from '../../../../src/model/delivery.ts';
import type { Item, PullRequest } from '../../../../src/model/item.ts';
import { clampTime, type Held, judge, same } from '../../../../src/sync/reconcile/newest.ts';
import { bare, workItem } from '../../../support/items.ts';

interface Fetched {
  readonly fetched: Item;
}

/** Takes deliveries over one after the other; `outcome` is what became of the last one. */
function take(...deliveries: readonly (Item | Fetched)[]) {
  let held: Held | undefined;
  let outcome = '';
  for (const delivery of deliveries) {
    const source: DeliverySource = 'fetched' in delivery ? 'fetch' : 'webhook';
    const item = 'fetched' in delivery ? delivery.fetched : delivery;
    const judgement = judge(held, item, source);
    outcome = judgement.doubtful ? 'doubtful' : judgement.outcome;
    if (judgement.outcome === 'applied') held = judgement.held;
  }
  return { outcome, item: (held as Held).item as PullRequest, older: (held as Held).older };
}

type Row = [rule: string, deliveries: readonly (Item | Fetched)[], outcome: string, holds: Partial<PullRequest>];

const A = { title: 'a' };
const B = { title: 'b' };
const fetched = (item: Item): Fetched => ({ fetched: item });

const TABLE: readonly Row[] = [
  ['the first is taken', [bare(5, A)], 'applied', { ...A, updatedAt: 5 }],
  ['newer replaces', [bare(5, A), bare(6, B)], 'applied', { ...B, updatedAt: 6 }],
  ['older is superseded', [bare(6, A), bare(5, B)], 'superseded', A],
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
    'older fills what newer ones lack, and no more',
    [bare(6, A), bare(5, { ...B, draft: true })],
    'applied',
    { ...A, draft: true, updatedAt: 6 },
  ],
  [
    'what was filled by an older one is replaced by a less old one',
    [bare(9, A), bare(5, { draft: true }), bare(7, { draft: false })],
    'applied',
    { ...A, draft: false, updatedAt: 9 },
  ],
  [
    'what was filled by an older one is not replaced by an even older one',
    [bare(9, A), bare(7, { draft: false }), bare(5, { draft: true })],
    'superseded',
    { ...A, draft: false },
  ],
  [
    'a field that newer ones lacked keeps its own time',
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
    'a tie that only adds fields is no doubt',
    [bare(5, A), bare(5, { ...A, draft: true })],
    'applied',
    { ...A, draft: true },
  ],
  ['a contradicting tie never overwrites', [bare(5, A), bare(5, B)], 'doubtful', A],
  ['what a creation told gives way within its time', [bare(5, { ...A, isCreation: true }), bare(5, B)], 'doubtful', B],
  [
    'a creation that is delivered again does not come back',
    [bare(5, { ...A, isCreation: true }), bare(5, B), bare(5, { ...A, isCreation: true })],
    'doubtful',
    B,
  ],
  [
    'an older event that is delivered again does not come back',
    [bare(5, { ...A, isCreation: true }), bare(5, B), bare(5, { title: 'c' }), bare(5, B)],
    'unchanged',
    B,
  ],
  [
    'being merged is later than being closed',
    [bare(5, { state: 'closed' }), bare(5, { state: 'merged' })],
    'doubtful',
    { state: 'merged' },
  ],
  [
    'nor does a tie of older times',
    [bare(9, { draft: true }), bare(5, A), bare(5, B)],
    'doubtful',
    { ...A, draft: true, updatedAt: 9 },
  ],
  ['what was fetched wins its tie', [bare(5, A), bare(5, B), fetched(bare(5, B))], 'applied', B],
  ['what was fetched earlier does not win over what is newer', [bare(6, A), fetched(bare(5, B))], 'superseded', A],
  ['a fetched object that agrees changes nothing', [bare(5, A), fetched(bare(5, A))], 'unchanged', A],
  [
    'being merged is not taken back on a guess, nor is anything else of that delivery taken',
    [bare(5, { ...A, state: 'merged' }), bare(5, { ...B, state: 'open' })],
    'doubtful',
    { ...A, state: 'merged' },
  ],
  [
    'being closed is not taken back on a guess',
    [bare(5, { state: 'closed' }), bare(5, { state: 'open' })],
    'doubtful',
    { state: 'closed' },
  ],
  [
    'being finished is believed on a guess',
    [bare(5, { state: 'open' }), bare(5, { state: 'merged' })],
    'doubtful',
    { state: 'merged' },
  ],
  [
    'being reopened is believed once it was fetched',
    [bare(5, { state: 'closed' }), bare(5, { state: 'open' }), fetched(bare(5, { state: 'open' }))],
    'applied',
    { state: 'open' },
  ],
  [
    'being reopened later is no guess',
    [bare(5, { state: 'closed' }), bare(6, { state: 'open' })],
    'applied',
    { state: 'open' },
  ],
  ['gone is a guess', [bare(5, A), bare(6, { gone: true })], 'doubtful', { ...A, gone: true, updatedAt: 5 }],
  [
    'gone, as it was fetched, whatever time the look was at',
    [bare(5, A), fetched(bare(4, { gone: true }))],
    'applied',
    { ...A, gone: true, updatedAt: 5 },
  ],
  [
    'seen again is to be fetched',
    [bare(5, A), fetched(bare(6, { gone: true })), bare(7, B)],
    'doubtful',
    { ...B, gone: true },
  ],
  [
    'an old event of a gone item is to be fetched as well',
    [bare(5, A), fetched(bare(6, { gone: true })), bare(4, A)],
    'doubtful',
    { ...A, gone: true },
  ],
  [
    'seen again by a fetch is back, though no time moved',
    [bare(5, A), fetched(bare(9, { gone: true })), fetched(bare(5, A))],
    'applied',
    { ...A, gone: false },
  ],
  [
    'what is back is filled with what changed meanwhile',
    [bare(5, A), fetched(bare(9, { gone: true })), fetched(bare(6, B))],
    'applied',
    { ...B, gone: false, updatedAt: 6 },
  ],
  ['what was seen later was not gone before', [bare(7, A), bare(6, { gone: true })], 'doubtful', { ...A, gone: false }],
  [
    'a deletion of the time between does not hide what is back',
    [bare(4, { gone: true }), fetched(bare(7, A)), bare(6, { gone: true })],
    'doubtful',
    { ...A, gone: false },
  ],
  [
    'a gone item is filled from before, and stays gone',
    [bare(6, { gone: true }), bare(5, A)],
    'doubtful',
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
  ['version: equal is a tie', [bare(5, { ...A, version: 2 }), bare(5, { ...B, version: 2 })], 'doubtful', A],
  ['version: missing on one side is a tie', [bare(5, { ...A, version: 2 }), bare(5, B)], 'doubtful', A],
  ['version: time goes first', [bare(5, { ...A, version: 9 }), bare(6, { ...B, version: 1 })], 'applied', B],
  [
    'version: that of another time orders nothing',
    [bare(5, { ...A, version: 1 }), bare(6, A), bare(6, { ...B, version: 2 })],
    'doubtful',
    A,
  ],
  [
    'version: a field that the newest lacked is filled by the last that had it',
    [bare(5, { draft: true, version: 1 }), bare(5, { ...A, version: 3 }), bare(5, { draft: false, version: 2 })],
    'applied',
    { ...A, draft: false, version: 3 },
  ],
];

describe('newest wins', () => {
  it.each(TABLE)('%s', (_rule, deliveries, outcome, holds) => {
    const taken = take(...deliveries);
    expect(taken.outcome).toBe(outcome);
    expect(taken.item).toMatchObject(holds);
  });

  it('stores no absent field', () => {
    expect(Object.keys(take(bare(1, { draft: undefined, title: 'a' })).item)).not.toContain('draft');
  });

  it('remembers the time only of fields that are older than the item', () => {
    const { older } = take(bare(5, { ...A, draft: true }), bare(6, B));
    expect(older).toEqual({ draft: { updatedAt: 5 } });
  });

  it('forgets an older time when the field is carried again', () => {
    expect(take(bare(5, { draft: true }), bare(6, A), bare(7, { draft: true })).older).toEqual({
      title: { updatedAt: 6 },
    });
  });

  it('changes nothing that it was given', () => {
    const first = Object.freeze(bare(5, A));
    const judgement = judge(undefined, first, 'webhook');
    if (judgement.outcome !== 'applied') throw new Error('not taken');
    Object.freeze(judgement.held);
    Object.freeze(judgement.held.item);
    Object.freeze(judgement.held.older);
    expect(judge(judgement.held, bare(6, B), 'webhook').outcome).toBe('applied');
    expect(judgement.held.item).toMatchObject(A);
  });

  it('does not take a work item back from done on a guess', () => {
    const taken = take(workItem({ state: 'done' }), workItem({ state: 'in_progress' }));
    expect(taken.outcome).toBe('doubtful');
    expect(taken.item.state).toBe('done');
  });
});

describe('a time from the future', () => {
  const RECEIVED = 10_000_000;
  it.each([
    ['behind', RECEIVED - 1, RECEIVED - 1],
    ['the same', RECEIVED, RECEIVED],
    ['5 minutes ahead', RECEIVED + 300_000, RECEIVED + 300_000],
    ['a millisecond more', RECEIVED + 300_001, RECEIVED],
    ['years ahead', Date.UTC(2200, 0, 1), RECEIVED],
  ])('%s', (_, updatedAt, expected) => {
    const item = bare(updatedAt, A);
    const told = expected === updatedAt ? {} : { toldAt: updatedAt };
    expect(clampTime(item, RECEIVED)).toEqual({ ...item, updatedAt: expected, ...told });
  });

  it.each([
    ['is not older than what is held', RECEIVED + 900_000, RECEIVED + 600_000, RECEIVED + 600_000],
    ['is older where the provider says so', RECEIVED + 500_000, RECEIVED + 600_000, RECEIVED + 500_000],
    ['is that of the receipt where what is held is older', RECEIVED + 900_000, RECEIVED - 1, RECEIVED],
  ])('after our clock was set back %s', (_, updatedAt, heldAt, expected) => {
    expect(clampTime(bare(updatedAt, A), RECEIVED, { updatedAt: heldAt }).updatedAt).toBe(expected);
  });

  it.each([
    ['older', RECEIVED + 900_000, RECEIVED + 1_000],
    ['of the same second', RECEIVED + 950_000, RECEIVED + 1_000],
    ['older, and our clock is right by now', RECEIVED + 900_000, RECEIVED + 960_000],
    ['of the same second, and our clock is right by now', RECEIVED + 950_000, RECEIVED + 960_000],
  ])('ties with what is held from the future where the provider says that it is %s: a fetch decides', (_, at, late) => {
    const held = clampTime(bare(RECEIVED + 950_000, B), RECEIVED);
    const other = clampTime(bare(at, A), late, held);
    expect(take(held, other).outcome).toBe('doubtful');
    const fetched = clampTime(bare(RECEIVED + 950_000, B), late + 1_000, other);
    expect(take(held, other, { fetched }).item).toMatchObject(B);
  });

  it('counts no more once our clock is right and the provider dates something later', () => {
    const held = clampTime(bare(RECEIVED + 950_000, A), RECEIVED);
    const later = clampTime(bare(RECEIVED + 951_000, B), RECEIVED + 960_000, held);
    const { item, outcome } = take(held, later);
    expect([outcome, item]).toEqual(['applied', { ...later, gone: false }]);
    expect(item).not.toHaveProperty('toldAt');
  });

  it('is remembered as it was told, until an honest one is newer', () => {
    const ahead = clampTime(bare(RECEIVED + 900_000, A), RECEIVED);
    expect(take(bare(RECEIVED - 1, B), ahead).item).toMatchObject({ updatedAt: RECEIVED, toldAt: RECEIVED + 900_000 });
    expect(take(ahead, bare(RECEIVED + 1, B)).item).not.toHaveProperty('toldAt');
  });

  it('does not block honest ones for good', () => {
    const mad = clampTime(bare(Date.UTC(2200, 0, 1), A), RECEIVED);
    expect(take(mad, bare(RECEIVED + 1, B)).item).toMatchObject(B);
  });
});

describe('equality of fields', () => {
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
  ])('%j, %j', (left, right, expected) => {
    expect(same(left, right)).toBe(expected);
    expect(same(right, left)).toBe(expected);
  });
});
