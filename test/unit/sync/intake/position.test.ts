import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PollPage } from '../../../../src/connectors/connector.ts';
import type { PollState, Walk } from '../../../../src/store/poll-states.ts';
import {
  afterPage,
  afterUnchanged,
  faultAfter,
  isSamePage,
  positionOf,
  walkOf,
} from '../../../../src/sync/intake/poll-walk.ts';

type Page = Extract<PollPage, { outcome: 'page' }>;

const NOW = Date.parse('2026-03-01T12:00:00Z');
const at = (minutes: number) => new Date(NOW + minutes * 60_000).toISOString();
const fresh: Walk = { startedAt: at(0), readAt: at(0) };
const page = (parts: Partial<Page> = {}): Page => ({
  outcome: 'page',
  event: 'list',
  body: Buffer.from('[]'),
  ...parts,
});

describe('the watermark', () => {
  test.each<[string, PollState, Walk, Page, Partial<PollState>]>([
    ['moves with the last page', {}, fresh, page({ newest: at(-5) }), { watermark: at(-5) }],
    [
      'stays while pages are left, and the walk keeps the candidate',
      { watermark: at(-60) },
      fresh,
      page({ newest: at(-5), next: '2' }),
      { watermark: at(-60), walk: { page: '2', candidate: at(-5), startedAt: at(0), readAt: at(0), etag: undefined } },
    ],
    [
      'becomes the highest of all pages, whichever page it was on',
      { watermark: at(-60) },
      { ...fresh, page: '2', candidate: at(-5) },
      page({ newest: at(-30) }),
      { watermark: at(-5) },
    ],
    [
      'takes a higher time of a later page',
      {},
      { ...fresh, page: '2', candidate: at(-30) },
      page({ newest: at(-5) }),
      { watermark: at(-5) },
    ],
    ['never moves back', { watermark: at(-1) }, fresh, page({ newest: at(-50) }), { watermark: at(-1) }],
    ['stays where an empty page names no time', { watermark: at(-9) }, fresh, page(), { watermark: at(-9) }],
    ['may be a little ahead of our clock', {}, fresh, page({ newest: at(5) }), { watermark: at(5) }],
    ['is held at our clock where it is far ahead', {}, fresh, page({ newest: at(5.1) }), { watermark: at(0) }],
    ['is not moved by what is no time', { watermark: at(-9) }, fresh, page({ newest: 'soon' }), { watermark: at(-9) }],
  ])('%s', (_name, state, walk, given, expected) => {
    expect(afterPage(state, walk, given, 'digest', NOW)).toMatchObject(expected);
  });

  test('is never moved but by a last page, and never back, over any course of pages', () => {
    const minutes = fc.integer({ min: -1_000, max: 1_000 });
    const pages = fc.array(fc.record({ newest: fc.option(minutes), isLast: fc.boolean() }), { maxLength: 30 });
    fc.assert(
      fc.property(pages, (course) => {
        let state: PollState = { watermark: at(-500) };
        for (const [index, { newest, isLast }] of course.entries()) {
          const before = Date.parse(state.watermark as string);
          const given = page({
            ...(newest === null ? {} : { newest: at(newest) }),
            ...(isLast ? {} : { next: `page-${index}` }),
          });
          state = afterPage(state, walkOf(state, NOW), given, 'digest', NOW);
          const after = Date.parse(state.watermark as string);
          expect(after).toBeGreaterThanOrEqual(before);
          expect(after).toBeLessThanOrEqual(NOW + 300_000);
          expect(isLast || after === before).toBe(true);
          expect(state.walk === undefined).toBe(isLast);
        }
      }),
    );
  });
});

describe('the validator', () => {
  test('of the first page is kept only when the walk is complete', () => {
    const old: PollState = { etag: 'old' };
    const first = afterPage(old, fresh, page({ etag: 'new', next: '2' }), 'digest', NOW);
    expect(first.etag).toBe('old');
    const last = afterPage(first, first.walk as Walk, page({ etag: 'of page 2' }), 'digest', NOW);
    expect(last.etag).toBe('new');
  });

  test('goes out with the first page only', () => {
    const state: PollState = { etag: 'old', watermark: at(-1) };
    expect(positionOf('u', state, fresh)).toEqual({ unit: 'u', startedAt: at(0), watermark: at(-1), etag: 'old' });
    expect(positionOf('u', state, { ...fresh, page: '2' })).toEqual({
      unit: 'u',
      startedAt: at(0),
      watermark: at(-1),
      page: '2',
    });
  });

  test('of an earlier walk goes away where the last one brought none', () => {
    expect(afterPage({ etag: 'old' }, fresh, page(), 'digest', NOW).etag).toBeUndefined();
  });
});

describe('unchanged', () => {
  test('ends the walk and keeps everything else', () => {
    const state: PollState = { watermark: at(-1), etag: 'e', digest: 'd' };
    expect(afterUnchanged(state, fresh)).toEqual({ ...state, walk: undefined });
  });

  test('as the answer to a later page is an error: that page was not read', () => {
    expect(() => afterUnchanged({}, { ...fresh, page: '2' })).toThrow(
      expect.objectContaining({ code: 'answer_malformed' }),
    );
  });

  test.each<[string, PollState, Walk, Page, boolean]>([
    ['the very same single page', { digest: 'same' }, fresh, page(), true],
    ['another page', { digest: 'other' }, fresh, page(), false],
    ['no walk before', {}, fresh, page(), false],
    ['more pages to come', { digest: 'same' }, fresh, page({ next: '2' }), false],
    ['not the first page', { digest: 'same' }, { ...fresh, page: '2' }, page(), false],
  ])('without a validator: %s', (_name, state, walk, given, expected) => {
    expect(isSamePage(state, walk, given, 'same')).toBe(expected);
  });

  test('a walk of several pages leaves no digest to compare with', () => {
    expect(afterPage({ digest: 'd' }, { ...fresh, page: '2' }, page(), 'same', NOW).digest).toBeUndefined();
  });
});

describe('the walk', () => {
  test.each<[string, number, boolean]>([
    ['goes on after a restart', -10, true],
    ['goes on after the longest pause that a provider may impose', -60, true],
    ['begins anew after two hours without a page', -121, false],
    ['begins anew where the clock was set back', 10, false],
  ])('%s', (_name, readAt, goesOn) => {
    const walk: Walk = { page: '7', startedAt: at(-10_000), readAt: at(readAt), candidate: at(-1) };
    const found = walkOf({ walk, watermark: at(-20_000) }, NOW);
    expect(found).toEqual(goesOn ? walk : { startedAt: at(0), readAt: at(0) });
  });

  test.each<[string, number, string]>([
    ['keeps its begin where it is the first one: what was read as open may be done since', -10_000, at(-10_000)],
    ['begins no later than now', 10, at(0)],
  ])('that begins anew %s', (_name, startedAt, expected) => {
    const walk: Walk = { page: '7', startedAt: at(startedAt), readAt: at(-121) };
    expect(walkOf({ walk }, NOW)).toEqual({ startedAt: expected, readAt: at(0) });
  });

  test('that runs in a circle begins anew, and the first one keeps its begin', () => {
    const walk: Walk = { page: '2', startedAt: at(-30), readAt: at(-1), trail: { pages: 1, empty: 0, mark: '2' } };
    const given = page({ next: '2' });
    expect(faultAfter(walk, given)?.code).toBe('list_endless');
    const after = afterPage({}, walk, given, 'digest', NOW);
    expect(walkOf(after, NOW)).toEqual({ startedAt: at(-30), readAt: at(0) });
  });

  test('of which too many pages are empty goes on where it was, with a new count', () => {
    const walk: Walk = { page: '7', startedAt: at(-30), readAt: at(-1), trail: { pages: 150, empty: 99, mark: '1' } };
    const given = page({ next: '8', isEmpty: true });
    expect(faultAfter(walk, given)?.code).toBe('list_endless');
    const after = afterPage({}, walk, given, 'digest', NOW);
    expect(walkOf(after, NOW)).toMatchObject({ page: '8', trail: { pages: 151, empty: 0 } });
    expect(faultAfter(after.walk as Walk, page({ next: '9', isEmpty: true }))).toBeUndefined();
  });
});
