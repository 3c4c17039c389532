import { describe, expect, it } from 'vitest';
import type { Item, PullRequest, Review, WorkItem } from '../../../../src/model/item.ts';
import type { StoredItem } from '../../../../src/store/items/items.ts';
import { clampTime, mergeNewest } from '../../../../src/sync/reconcile/newest-wins.ts';
import { bare, workItem } from '../../../support/rows/items.ts';

interface Fetched {
  readonly fetched: Item;
}

/** Merges deliveries one after the other. `outcome` is the outcome of the last one. */
function merge(...deliveries: readonly (Item | Fetched)[]) {
  let stored: StoredItem | undefined;
  let outcome = '';
  for (const delivery of deliveries) {
    const isFetched = 'fetched' in delivery;
    const result = mergeNewest(stored, isFetched ? delivery.fetched : delivery, isFetched ? 'fetch' : 'webhook');
    outcome = result.needsFetch ? 'needs fetch' : result.outcome;
    if (result.outcome === 'applied') stored = result.stored;
  }
  return { outcome, item: (stored as StoredItem).item as PullRequest, older: (stored as StoredItem).older };
}

/** A pull request with these fields at this time. */
const at = (time: number, ...fields: readonly Partial<PullRequest>[]) => bare(time, Object.assign({}, ...fields));
const fetched = (time: number, ...fields: readonly Partial<PullRequest>[]): Fetched => ({
  fetched: at(time, ...fields),
});
const work = (updatedAt: number, state: WorkItem['state'] = 'open') => workItem({ updatedAt, state });
const v = (version: number) => ({ version });

const A = { title: 'a' };
const B = { title: 'b' };
const C = { title: 'c' };
const DRAFT = { draft: true };
const OPEN = { state: 'open' } as const;
const CLOSED = { state: 'closed' } as const;
const MERGED = { state: 'merged' } as const;
const DECLINED = { state: 'declined' } as const;
const NOT_MERGED: Partial<PullRequest> = { ...OPEN, mergedAt: null };
const WAS_MERGED: Partial<PullRequest> = { ...MERGED, mergedAt: '1970-01-01T02:46:40.000Z' };
const GONE = { gone: true };
const BACK = { gone: false };
const CREATED = at(5, { ...A, isCreation: true });
const AB = { labels: ['a', 'b'] };
const BA = { labels: ['b', 'a'] };
const EMAILS = { emails: { ada: 'a@b.example', ben: 'c' } };
const SAME_EMAILS = { emails: { ben: 'c', ada: 'a@b.example' } };
const none = { reviewDecision: { state: 'none' } } as const;
const approved = { reviewDecision: { state: 'approved' } } as const;

type Outcome = 'applied' | 'unchanged' | 'superseded' | 'needs fetch';
type Row = [rule: string, outcome: Outcome, stored: Item, ...deliveries: (Item | Fetched)[]];

const TABLE: readonly Row[] = [
  ['an undefined field is absent', 'applied', at(6, B, DRAFT), at(5, DRAFT), at(6, B, { draft: undefined })],
  ['texts by name are compared by content', 'unchanged', at(5, EMAILS), at(5, EMAILS), at(5, SAME_EMAILS)],
  ['lists are compared in their order', 'needs fetch', at(5, BA), at(5, AB), at(5, BA)],
  [
    'the branches of a merge are those of its oldest state',
    'applied',
    at(9, MERGED, { defaultBranch: 'trunk', mergedDefaultBranch: 'master' }),
    at(9, MERGED, { defaultBranch: 'trunk' }),
    at(5, OPEN, { defaultBranch: 'main' }),
    at(7, MERGED, { defaultBranch: 'master' }),
  ],
  // Contents of one time.
  ['a tie that only adds fields needs no fetch', 'applied', at(5, A, DRAFT), at(5, A), at(5, A, DRAFT)],
  ['the last arrival wins a contradicting tie until a fetch', 'needs fetch', at(5, B), at(5, A), at(5, B)],
  ['the last decision of the reviewers wins', 'needs fetch', at(5, none), at(5, approved), at(5, none)],
  ['a state replaces that of the creation', 'needs fetch', at(5, B), CREATED, at(5, B)],
  ['fetched content wins', 'applied', at(5, A), at(5, A), at(5, B), fetched(5, A)],
  ['older fetched content is superseded', 'superseded', at(6, A), at(6, A), fetched(5, B)],
  // The state.
  ['merged is later than closed', 'applied', at(5, MERGED), at(5, CLOSED), at(5, MERGED)],
  ['a contested state finishes an open pull request', 'needs fetch', at(5, CLOSED), at(5, OPEN), at(5, CLOSED)],
  ['a contested state reopens no closed pull request', 'needs fetch', at(5, CLOSED), at(5, CLOSED), at(5, OPEN)],
  ['a fetched state reopens a closed one', 'applied', at(5, OPEN), at(5, CLOSED), at(5, OPEN), fetched(5, OPEN)],
  ['a newer state reopens a closed pull request', 'applied', at(6, OPEN), at(5, CLOSED), at(6, OPEN)],
  ['other fields of an open state apply', 'applied', at(9, B, WAS_MERGED), at(5, A, WAS_MERGED), at(9, B, NOT_MERGED)],
  ['a declined pull request stays declined', 'applied', at(9, DECLINED), at(5, DECLINED), at(9, OPEN)],
  ['a fetch decides that a merged pull request is open', 'applied', at(9, OPEN), at(5, MERGED), fetched(9, OPEN)],
  ['a contested state reopens no work item', 'needs fetch', work(1_000, 'done'), work(1_000, 'done'), work(1_000)],
  // Items that are gone.
  ['a report of a gone item needs a fetch', 'needs fetch', at(5, A, GONE), at(5, A), at(6, GONE)],
  ['a fetch that finds the item gone counts at any time', 'applied', at(5, A, GONE), at(5, A), fetched(4, GONE)],
  ['a gone item that exists needs a fetch', 'needs fetch', at(7, B, GONE), at(5, A), fetched(6, GONE), at(7, B)],
  ['an old event of a gone item needs a fetch', 'needs fetch', at(5, A, GONE), at(5, A), fetched(6, GONE), at(4, A)],
  ['a fetch restores a gone item', 'applied', at(5, A, BACK), at(5, A), fetched(9, GONE), fetched(5, A)],
  // Versions within one time.
  ['a higher version replaces', 'applied', at(5, B, v(2)), at(5, A, v(1)), at(5, B, v(2))],
  ['a lower version is superseded', 'superseded', at(5, A), at(5, A, v(2)), at(5, B, v(1))],
  ['an equal version is a tie', 'needs fetch', at(5, B), at(5, A, v(2)), at(5, B, v(2))],
  ['the time counts before the version', 'applied', at(6, B), at(5, A, v(9)), at(6, B, v(1))],
];

describe('newest wins', () => {
  it.each(TABLE)('%s', (_rule, outcome, expected, ...deliveries) => {
    const { item, ...merged } = merge(...deliveries);
    expect(merged.outcome).toBe(outcome);
    expect(item).toMatchObject(expected);
  });

  it('stores when a work item was finished, and since when it is open again', () => {
    const seconds = (second: number) => new Date(second * 1_000).toISOString();
    const state = (second: number, value: WorkItem['state']) => work(second * 1_000, value);
    const times = (...deliveries: Item[]) => {
      const { lastClosedAt, openSince } = merge(...deliveries).item;
      return [lastClosedAt, openSince];
    };
    expect(times(state(1, 'open'), state(2, 'done'))).toEqual([seconds(2), undefined]);
    expect(times(state(1, 'open'), state(2, 'done'), state(3, 'open'))).toEqual([seconds(2), seconds(3)]);
    expect(times(state(1, 'open'), state(4, 'open'), state(2, 'done'))).toEqual([seconds(2), seconds(4)]);
    expect(times(state(4, 'open'), state(2, 'done'), state(3, 'open'))).toEqual([seconds(2), seconds(3)]);
  });
});

describe('a time from the future', () => {
  const RECEIVED = 10_000_000;
  it.each([
    ['in the past', RECEIVED - 1, RECEIVED - 1],
    ['5 minutes ahead', RECEIVED + 300_000, RECEIVED + 300_000],
    ['5 minutes and a millisecond ahead', RECEIVED + 300_001, RECEIVED],
  ])('a time %s', (_, updatedAt, expected) => {
    const item = at(updatedAt, A);
    const own = expected === updatedAt ? {} : { toldAt: updatedAt };
    expect(clampTime(item, RECEIVED)).toEqual({ ...item, updatedAt: expected, ...own });
  });

  const FAR = Date.UTC(2199, 0, 1) - RECEIVED;
  const AHEAD = 600_000;

  // States of one pull request in the order of their arrival, a second apart, with times relative to the first receipt.
  it.each<[claim: string, stored: Partial<PullRequest>, ...states: PullRequest[]]>([
    ['of 2199 prevents no merge', WAS_MERGED, at(0, NOT_MERGED), at(FAR, NOT_MERGED, B), at(1_000, WAS_MERGED, A)],
    ['of 2199 does not replace a state with a plausible time', A, at(0, A), at(FAR, B)],
    ['of 2199 wins over another one by its arrival', B, at(FAR, A), at(FAR - 9_000, B)],
    ['of a clock that is ahead does not stop the updates', C, at(0, A), at(AHEAD, B), at(AHEAD + 1_000, C)],
    ['of a clock that was ahead lets no older state return', B, at(0, A), at(AHEAD, B), at(-1_000, C)],
  ])('%s', (_, expected, ...states) => {
    let stored: StoredItem | undefined;
    for (const [index, state] of states.entries()) {
      const item = clampTime(
        { ...state, updatedAt: RECEIVED + state.updatedAt },
        RECEIVED + index * 1_000,
        stored?.item,
      );
      const result = mergeNewest(stored, item, 'webhook');
      if (result.outcome === 'applied') stored = result.stored;
    }
    expect(stored?.item).toMatchObject(expected);
  });

  it('of 2199 among the content becomes the time of receipt, once', () => {
    const review = (time: string, state: Review['state']) => ({ 7: { reviewer: 'ben', state, at: time } });
    const far = '2199-01-01T00:00:00.000Z';
    const receipt = new Date(RECEIVED).toISOString();
    const first = at(RECEIVED, { ...A, closedAt: far, reviews: review(far, 'approved') });
    const stored = clampTime(first, RECEIVED);
    expect(stored).toMatchObject({ closedAt: receipt, reviews: { 7: { at: receipt } } });
    expect(clampTime(first, RECEIVED + 9_000, stored)).toEqual(stored);
    const decided = clampTime(at(RECEIVED, { reviewDecision: { state: 'approved', at: far } }), RECEIVED);
    expect(decided.reviewDecision).toEqual({ state: 'approved', at: receipt });
    const later = at(RECEIVED + 2_000, { reviews: review(new Date(RECEIVED + 1_000).toISOString(), 'changes') });
    expect(merge(stored, later).item.reviews).toEqual(later.reviews);
  });
});
