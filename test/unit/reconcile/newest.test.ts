import { describe, expect, it } from 'vitest';
import type { DeliverySource } from '../../../src/model/delivery.ts';
import type { Item, PullRequest } from '../../../src/model/item.ts';
import { clampTime, type Held, judge, same } from '../../../src/reconcile/newest.ts';
import { bare, workItem } from '../../support/items.ts';

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

interface Row {
  readonly rule: string;
  readonly deliveries: readonly (Item | Fetched)[];
  readonly outcome: string;
  readonly holds: Partial<PullRequest>;
}

const A = { title: 'a' };
const B = { title: 'b' };
const fetched = (item: Item): Fetched => ({ fetched: item });

const TABLE: readonly Row[] = [
  { rule: 'the first is taken', deliveries: [bare(5, A)], outcome: 'applied', holds: { ...A, updatedAt: 5 } },
  { rule: 'newer replaces', deliveries: [bare(5, A), bare(6, B)], outcome: 'applied', holds: { ...B, updatedAt: 6 } },
  { rule: 'older is superseded', deliveries: [bare(6, A), bare(5, B)], outcome: 'superseded', holds: A },
  {
    rule: 'an absent field is kept',
    deliveries: [bare(5, { ...A, draft: true }), bare(6, B)],
    outcome: 'applied',
    holds: { ...B, draft: true },
  },
  {
    rule: 'an undefined field is absent',
    deliveries: [bare(5, { ...A, draft: true }), bare(6, { ...B, draft: undefined })],
    outcome: 'applied',
    holds: { ...B, draft: true },
  },
  {
    rule: 'null is a value',
    deliveries: [bare(5, { description: 'x' }), bare(6, { description: null })],
    outcome: 'applied',
    holds: { description: null },
  },
  {
    rule: 'older fills what newer ones lack, and no more',
    deliveries: [bare(6, A), bare(5, { ...B, draft: true })],
    outcome: 'applied',
    holds: { ...A, draft: true, updatedAt: 6 },
  },
  {
    rule: 'what was filled by an older one is replaced by a less old one',
    deliveries: [bare(9, A), bare(5, { draft: true }), bare(7, { draft: false })],
    outcome: 'applied',
    holds: { ...A, draft: false, updatedAt: 9 },
  },
  {
    rule: 'what was filled by an older one is not replaced by an even older one',
    deliveries: [bare(9, A), bare(7, { draft: false }), bare(5, { draft: true })],
    outcome: 'superseded',
    holds: { ...A, draft: false },
  },
  {
    rule: 'a field that newer ones lacked keeps its own time',
    deliveries: [bare(5, { draft: true }), bare(9, A), bare(7, { draft: false })],
    outcome: 'applied',
    holds: { ...A, draft: false },
  },
  { rule: 'a repeat changes nothing', deliveries: [bare(5, A), bare(5, A)], outcome: 'unchanged', holds: A },
  {
    rule: 'lists are compared by content',
    deliveries: [bare(5, { labels: ['x', 'y'] }), bare(5, { labels: ['x', 'y'] })],
    outcome: 'unchanged',
    holds: { labels: ['x', 'y'] },
  },
  {
    rule: 'a tie that only adds fields is no doubt',
    deliveries: [bare(5, A), bare(5, { ...A, draft: true })],
    outcome: 'applied',
    holds: { ...A, draft: true },
  },
  { rule: 'a contradicting tie is a guess', deliveries: [bare(5, A), bare(5, B)], outcome: 'doubtful', holds: B },
  {
    rule: 'a tie of older times is a guess as well',
    deliveries: [bare(9, { draft: true }), bare(5, A), bare(5, B)],
    outcome: 'doubtful',
    holds: { ...B, draft: true, updatedAt: 9 },
  },
  {
    rule: 'what was fetched wins its tie',
    deliveries: [bare(5, A), bare(5, B), fetched(bare(5, A))],
    outcome: 'applied',
    holds: A,
  },
  {
    rule: 'what was fetched earlier does not win over what is newer',
    deliveries: [bare(6, A), fetched(bare(5, B))],
    outcome: 'superseded',
    holds: A,
  },
  {
    rule: 'a fetched object that agrees changes nothing',
    deliveries: [bare(5, A), fetched(bare(5, A))],
    outcome: 'unchanged',
    holds: A,
  },
  {
    rule: 'being merged is not taken back on a guess, nor is anything else of that delivery taken',
    deliveries: [bare(5, { ...A, state: 'merged' }), bare(5, { ...B, state: 'open' })],
    outcome: 'doubtful',
    holds: { ...A, state: 'merged' },
  },
  {
    rule: 'being closed is not taken back on a guess',
    deliveries: [bare(5, { state: 'closed' }), bare(5, { state: 'open' })],
    outcome: 'doubtful',
    holds: { state: 'closed' },
  },
  {
    rule: 'being finished is believed on a guess',
    deliveries: [bare(5, { state: 'open' }), bare(5, { state: 'merged' })],
    outcome: 'doubtful',
    holds: { state: 'merged' },
  },
  {
    rule: 'being reopened is believed once it was fetched',
    deliveries: [bare(5, { state: 'closed' }), bare(5, { state: 'open' }), fetched(bare(5, { state: 'open' }))],
    outcome: 'applied',
    holds: { state: 'open' },
  },
  {
    rule: 'being reopened later is no guess',
    deliveries: [bare(5, { state: 'closed' }), bare(6, { state: 'open' })],
    outcome: 'applied',
    holds: { state: 'open' },
  },
  {
    rule: 'gone is a guess',
    deliveries: [bare(5, A), bare(6, { gone: true })],
    outcome: 'doubtful',
    holds: { ...A, gone: true, updatedAt: 5 },
  },
  {
    rule: 'gone, as it was fetched, whatever time the look was at',
    deliveries: [bare(5, A), fetched(bare(4, { gone: true }))],
    outcome: 'applied',
    holds: { ...A, gone: true, updatedAt: 5 },
  },
  {
    rule: 'seen again is to be fetched',
    deliveries: [bare(5, A), fetched(bare(6, { gone: true })), bare(7, B)],
    outcome: 'doubtful',
    holds: { ...B, gone: true },
  },
  {
    rule: 'an old event of a gone item is to be fetched as well',
    deliveries: [bare(5, A), fetched(bare(6, { gone: true })), bare(4, A)],
    outcome: 'doubtful',
    holds: { ...A, gone: true },
  },
  {
    rule: 'seen again by a fetch is back, though no time moved',
    deliveries: [bare(5, A), fetched(bare(9, { gone: true })), fetched(bare(5, A))],
    outcome: 'applied',
    holds: { ...A, gone: false },
  },
  {
    rule: 'what is back is filled with what changed meanwhile',
    deliveries: [bare(5, A), fetched(bare(9, { gone: true })), fetched(bare(6, B))],
    outcome: 'applied',
    holds: { ...B, gone: false, updatedAt: 6 },
  },
  {
    rule: 'what was seen later was not gone before',
    deliveries: [bare(7, A), bare(6, { gone: true })],
    outcome: 'doubtful',
    holds: { ...A, gone: false },
  },
  {
    rule: 'a deletion of the time between does not hide what is back',
    deliveries: [bare(4, { gone: true }), fetched(bare(7, A)), bare(6, { gone: true })],
    outcome: 'doubtful',
    holds: { ...A, gone: false },
  },
  {
    rule: 'a gone item is filled from before, and stays gone',
    deliveries: [bare(6, { gone: true }), bare(5, A)],
    outcome: 'doubtful',
    holds: { ...A, gone: true },
  },
  {
    rule: 'version: higher replaces within one time',
    deliveries: [bare(5, { ...A, version: 1 }), bare(5, { ...B, version: 2 })],
    outcome: 'applied',
    holds: { ...B, version: 2 },
  },
  {
    rule: 'version: lower is superseded within one time',
    deliveries: [bare(5, { ...A, version: 2 }), bare(5, { ...B, version: 1 })],
    outcome: 'superseded',
    holds: A,
  },
  {
    rule: 'version: equal is a tie',
    deliveries: [bare(5, { ...A, version: 2 }), bare(5, { ...B, version: 2 })],
    outcome: 'doubtful',
    holds: B,
  },
  {
    rule: 'version: missing on one side is a tie',
    deliveries: [bare(5, { ...A, version: 2 }), bare(5, B)],
    outcome: 'doubtful',
    holds: B,
  },
  {
    rule: 'version: time goes first',
    deliveries: [bare(5, { ...A, version: 9 }), bare(6, { ...B, version: 1 })],
    outcome: 'applied',
    holds: B,
  },
  {
    rule: 'version: that of another time orders nothing',
    deliveries: [bare(5, { ...A, version: 1 }), bare(6, A), bare(6, { ...B, version: 2 })],
    outcome: 'doubtful',
    holds: B,
  },
  {
    rule: 'version: a field that the newest lacked is filled by the last that had it',
    deliveries: [
      bare(5, { draft: true, version: 1 }),
      bare(5, { ...A, version: 3 }),
      bare(5, { draft: false, version: 2 }),
    ],
    outcome: 'applied',
    holds: { ...A, draft: false, version: 3 },
  },
];

describe('newest wins', () => {
  it.each(TABLE)('$rule', ({ deliveries, outcome, holds }) => {
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

  it('ties with what is held where both are, and the provider says that it is older: a fetch decides', () => {
    const newer = clampTime(bare(RECEIVED + 950_000, B), RECEIVED);
    const late = clampTime(bare(RECEIVED + 900_000, A), RECEIVED + 1_000, newer);
    expect(take(newer, late).outcome).toBe('doubtful');
    const fetched = clampTime(bare(RECEIVED + 950_000, B), RECEIVED + 2_000, late);
    expect(take(newer, late, { fetched }).item).toMatchObject(B);
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
