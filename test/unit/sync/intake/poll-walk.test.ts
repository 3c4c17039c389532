import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PollPage } from '../../../../src/connectors/connector.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import type { Store } from '../../../../src/store/database.ts';
import type { PollState, Walk } from '../../../../src/store/poll-states.ts';
import {
  afterPage,
  afterUnchanged,
  faultAfter,
  isSamePage,
  positionOf,
  walkOf,
  walkUnit,
} from '../../../../src/sync/intake/poll-walk.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/harness/intake.ts';

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
      'becomes the highest time of all pages',
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
    ['stays after an empty page without a time', { watermark: at(-9) }, fresh, page(), { watermark: at(-9) }],
    ['may be a little ahead of the local clock', {}, fresh, page({ newest: at(5) }), { watermark: at(5) }],
    ['is limited to the local clock if it is far ahead', {}, fresh, page({ newest: at(5.1) }), { watermark: at(0) }],
    [
      'is not moved by text that is no time',
      { watermark: at(-9) },
      fresh,
      page({ newest: 'soon' }),
      { watermark: at(-9) },
    ],
  ])('%s', (_name, state, walk, given, expected) => {
    expect(afterPage(state, walk, given, 'digest', NOW)).toMatchObject(expected);
  });

  test('moves only with a last page, and never back, for any sequence of pages', () => {
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
  test('of the first page is stored only when the walk is complete', () => {
    const old: PollState = { etag: 'old' };
    const first = afterPage(old, fresh, page({ etag: 'new', next: '2' }), 'digest', NOW);
    expect(first.etag).toBe('old');
    const last = afterPage(first, first.walk as Walk, page({ etag: 'of page 2' }), 'digest', NOW);
    expect(last.etag).toBe('new');
  });

  test('is sent with the first page only', () => {
    const state: PollState = { etag: 'old', watermark: at(-1) };
    expect(positionOf('u', state, fresh)).toEqual({ unit: 'u', startedAt: at(0), watermark: at(-1), etag: 'old' });
    expect(positionOf('u', state, { ...fresh, page: '2' })).toEqual({
      unit: 'u',
      startedAt: at(0),
      watermark: at(-1),
      page: '2',
    });
  });

  test('of an earlier walk is removed if the last walk had none', () => {
    expect(afterPage({ etag: 'old' }, fresh, page(), 'digest', NOW).etag).toBeUndefined();
  });
});

describe('unchanged', () => {
  test('ends the walk and keeps everything else', () => {
    const state: PollState = { watermark: at(-1), etag: 'e', digest: 'd' };
    expect(afterUnchanged(state, fresh)).toEqual({ ...state, walk: undefined });
  });

  test('as the answer to a later page is an error, because that page was not read', () => {
    expect(() => afterUnchanged({}, { ...fresh, page: '2' })).toThrow(
      expect.objectContaining({ code: 'answer_malformed' }),
    );
  });

  test.each<[string, PollState, Walk, Page, boolean]>([
    ['the same single page', { digest: 'same' }, fresh, page(), true],
    ['another page', { digest: 'other' }, fresh, page(), false],
    ['no earlier walk', {}, fresh, page(), false],
    ['another page follows', { digest: 'same' }, fresh, page({ next: '2' }), false],
    ['not the first page', { digest: 'same' }, { ...fresh, page: '2' }, page(), false],
  ])('without a validator: %s', (_name, state, walk, given, expected) => {
    expect(isSamePage(state, walk, given, 'same')).toBe(expected);
  });

  test('a walk of several pages stores no digest', () => {
    expect(afterPage({ digest: 'd' }, { ...fresh, page: '2' }, page(), 'same', NOW).digest).toBeUndefined();
  });
});

describe('the walk', () => {
  test.each<[string, number, boolean]>([
    ['continues after a restart', -10, true],
    ['continues after the longest pause that a vendor may impose', -60, true],
    ['begins again after two hours without a page', -121, false],
    ['begins again if the clock was set back', 10, false],
  ])('%s', (_name, readAt, goesOn) => {
    const walk: Walk = { page: '7', startedAt: at(-10_000), readAt: at(readAt), candidate: at(-1) };
    const found = walkOf({ walk, watermark: at(-20_000) }, NOW);
    expect(found).toEqual(goesOn ? walk : { startedAt: at(0), readAt: at(0) });
  });

  test.each<[string, number, string]>([
    ['keeps its start time if it is the first walk, because an open item may be closed since', -10_000, at(-10_000)],
    ['starts no later than now', 10, at(0)],
  ])('that begins again %s', (_name, startedAt, expected) => {
    const walk: Walk = { page: '7', startedAt: at(startedAt), readAt: at(-121) };
    expect(walkOf({ walk }, NOW)).toEqual({ startedAt: expected, readAt: at(0) });
  });

  test('begins again after a circle of pages, and a first walk keeps its start time', () => {
    const walk: Walk = { page: '2', startedAt: at(-30), readAt: at(-1), trail: { pages: 1, empty: 0, mark: '2' } };
    const given = page({ next: '2' });
    expect(faultAfter(walk, given)?.code).toBe('list_endless');
    const after = afterPage({}, walk, given, 'digest', NOW);
    expect(walkOf(after, NOW)).toEqual({ startedAt: at(-30), readAt: at(0) });
  });

  test('continues after too many empty pages, with a new count', () => {
    const walk: Walk = { page: '7', startedAt: at(-30), readAt: at(-1), trail: { pages: 150, empty: 99, mark: '1' } };
    const given = page({ next: '8', isEmpty: true });
    expect(faultAfter(walk, given)?.code).toBe('list_endless');
    const after = afterPage({}, walk, given, 'digest', NOW);
    expect(walkOf(after, NOW)).toMatchObject({ page: '8', trail: { pages: 151, empty: 0 } });
    expect(faultAfter(after.walk as Walk, page({ next: '9', isEmpty: true }))).toBeUndefined();
  });
});

const PAGE: PollPage = { outcome: 'page', event: 'list', body: Buffer.from('one'), newest: '2026-01-05T08:00:00Z' };

/** @param onPoll called while a page is read; it may replace it */
function walker(store: Store, onPoll: (page: PollPage) => PollPage = (page) => page, version = () => 0) {
  const pages: (string | undefined)[] = [];
  const names = { version } as NonNullable<ReturnType<typeof activeWith>['names']>;
  const active = activeWith({
    connection: {
      async poll({ page }) {
        pages.push(page);
        return onPoll(PAGE);
      },
    },
  });
  let notified = 0;
  const inbox = { ...createWakeSignal(), notify: () => void notified++ };
  const deps = { store, clock: createTravellingClock(), random: systemRandom(), inbox };
  const walk = (signal = new AbortController().signal) => walkUnit(deps, { ...active, names }, 'unit', signal);
  return { walk, pages, notifications: () => notified };
}

const watermarks = async ({ query }: Store) =>
  (await query.selectFrom('polls').select('watermark').execute()).map(({ watermark }) => watermark);

describe('a walk without an end', () => {
  const endless = (store: Store, nameOf: (count: number) => string, isEmpty = false) => {
    let count = 0;
    return walker(
      store,
      (page) => ({ ...page, body: Buffer.from(`page ${count}`), next: nameOf(count++), isEmpty }) as PollPage,
    );
  };

  test.each([1, 2, 3, 7, 100])('over a circle of %i pages ends with an error, and keeps the pages', async (length) => {
    const store = await openTestStore();
    const { walk, pages } = endless(store, (count) => `token-${count % length}`);
    await expect(walk()).rejects.toMatchObject({ code: 'list_endless' });
    expect(pages.length).toBeLessThanOrEqual(3 * length + 2);
    expect(await inboxOf(store)).toHaveLength(pages.length);
    expect(await watermarks(store)).toEqual([null]);
    const before = pages.length;
    await expect(walk()).rejects.toMatchObject({ code: 'list_endless' });
    expect(pages[before]).toBeUndefined();
  });

  test('over empty pages with new names stops after 100, and continues there', async () => {
    const store = await openTestStore();
    const { walk, pages } = endless(store, (count) => `token-${count}`, true);
    await expect(walk()).rejects.toMatchObject({ code: 'list_endless' });
    expect(pages).toHaveLength(100);
    await expect(walk()).rejects.toMatchObject({ code: 'list_endless' });
    expect(pages).toHaveLength(200);
    expect(pages[100]).toBe('token-99');
  });
});

describe('a page that was read', () => {
  test('is stored together with the position after it', async () => {
    expect(await remainsOf(async (store) => walker(store).walk)).toEqual([]);
  });

  test('is not stored if any statement fails, and the walk rejects', async () => {
    expect(await wrongWhereStatementsFail(async (store) => walker(store).walk)).toEqual([]);
  });

  test('is stored once if it is the last, and the inbox is notified', async () => {
    const store = await openTestStore();
    const { walk, notifications } = walker(store);
    expect(await walk()).toBe('complete');
    expect((await inboxOf(store)).map(({ body }) => body)).toEqual(['one']);
    expect(notifications()).toBe(1);
  });

  test('without a change stores only the time, and notifies nothing', async () => {
    const store = await openTestStore();
    const { walk, notifications } = walker(store, () => ({ outcome: 'unchanged' }));
    expect(await walk()).toBe('unchanged');
    expect([await inboxOf(store), notifications()]).toEqual([[], 0]);
    const [row] = await store.query.selectFrom('polls').select('completed_at').execute();
    expect(row?.completed_at).not.toBeNull();
  });

  test('while a name was bound again is discarded with its position, and requested again', async () => {
    const store = await openTestStore();
    let version = 0;
    let polls = 0;
    const rebinds = (page: PollPage): PollPage => {
      polls++;
      if (polls > 1) return page;
      version++;
      return { ...page, newest: '2026-01-09T08:00:00Z', body: Buffer.from('of another repository') } as PollPage;
    };
    const { walk, pages } = walker(store, rebinds, () => version);
    await walk();
    expect(pages).toEqual([undefined, undefined]);
    expect((await inboxOf(store)).map(({ body }) => body)).toEqual(['one']);
    expect(await watermarks(store)).toEqual(['2026-01-05T08:00:00Z']);
  });

  test('is stored if the walk is aborted meanwhile, and is the last request', async () => {
    const store = await openTestStore();
    const stopping = new AbortController();
    const { walk, pages } = walker(store, (page) => {
      stopping.abort(new Error('stopping'));
      return { ...page, next: '2' } as PollPage;
    });
    await expect(walk(stopping.signal)).rejects.toThrow('stopping');
    expect(pages).toEqual([undefined]);
    expect(await inboxOf(store)).toHaveLength(1);
  });
});
