import { expect, it } from 'vitest';
import type { Timeline } from '../../../src/admin/deliveries/timelines.ts';
import type { QuotaByCaller } from '../../../src/admin/quota/quota.ts';
import { waterfall } from '../../../src/web/deliveries/delivery-table.ts';
import { usageCard } from '../../../src/web/quota/quota-card.ts';
import { readDom } from '../../support/harness/dom.ts';
import { NOW } from '../../support/harness/web.ts';

const MINUTE = 60_000;
const QUARTER = 15 * MINUTE;

const usage = (use: Partial<QuotaByCaller>) => {
  const none = { at: NOW, window: QUARTER, cap: 200, callers: [], lastRefusal: null, series: [] };
  return readDom(usageCard({ ...none, ...use }).text);
};

it.each([
  [QUARTER, 200, 1],
  [QUARTER, null, 0],
  [QUARTER - 1, 200, 0],
  [2 * QUARTER, 200, 0],
])('draws the limit only if it is of a quarter of an hour: %d ms, %j', (window, cap, lines) => {
  expect(usage({ window, cap }).classed('cap-line')).toHaveLength(lines);
});

it('draws the lanes of the daemon as one, four callers beside it, and all others as one', () => {
  const used = { requests: 0, refused: 0 };
  const uses = { window: used, day: used, week: used, isEstimate: false };
  const people = ['ann', 'ben', 'cem', 'dan', 'eva', 'fay'].map((name) => ({
    ...{ caller: `token:${name}`, kind: 'token', name, ...uses },
  }));
  const daemon = ['link', 'read'].map((name) => ({ caller: `daemon:${name}`, kind: 'daemon', name, ...uses }));
  const callers = [...daemon, ...people] as QuotaByCaller['callers'];
  const series = [...callers, { caller: 'rest' }].map(({ caller }) => ({
    caller,
    since: NOW,
    requests: 3,
    refused: 0,
  }));
  const page = usage({ callers, series });
  const legend = page.classed('legend')[0];
  expect(legend && page.text(legend)).toBe('worksync itselfannbencemdanall others');
  expect(page.classed('num').map((each) => page.text(each))).toEqual(['27 requests, at most 27 in 15 min']);
});

it('draws each quarter of an hour of the last 24 hours in its column', () => {
  const at = (quarters: number) => ({ since: NOW - quarters * QUARTER, caller: 'a', requests: 1, refused: 0 });
  const page = usage({ series: [-1, 0, 1, 95].map(at) });
  const bars = page.classed('c6').filter(({ attribs }) => attribs['rx'] === undefined);
  expect(bars.map(({ attribs }) => Math.floor(Number(attribs['x'])))).toEqual([0, 94, 95]);
});

const TIMELINE: Timeline = {
  about: { entity: 'read:tasks', kind: 'read', item: null, task: null, label: 'read of tasks' },
  ...{ request: 1, action: null, lane: 'read', state: 'answered', status: null, error: null, attempt: 1 },
  times: { received: null, decided: null, due: null, asked: null, slot: null, sent: null, answered: NOW },
  ...{ phases: [], deliveries: [], served: 0 },
};

const words = (parts: Partial<Timeline>) => {
  const page = readDom(waterfall('acme', [{ ...TIMELINE, ...parts }], NOW).text);
  const [requests] = page.classed('falls');
  return requests ? page.text(requests) : '';
};

it.each([
  [0, 'no time was spent'],
  [1, 'request 1 ms'],
  [999, 'request 999 ms'],
  [1_000, 'request 1.0 s'],
  [59_900, 'request 59.9 s'],
  [60_000, 'request 1.0 min'],
])('tells %d ms as %j', (milliseconds, told) => {
  expect(words({ phases: [{ name: 'request', from: NOW - milliseconds, to: NOW }] })).toContain(told);
});

it.each([
  ['pending', 'waits', 'request 2.0 s'],
  ['sending', 'in flight', 'request 2.0 s'],
  ['held', 'needs approval', 'no time was spent'],
  ['unknown', 'outcome unknown', 'no time was spent'],
] as const)('counts an open phase up to now only while the request is under way: %s', (state, chip, told) => {
  const shown = words({ state, phases: [{ name: 'request', from: NOW - 2_000, to: null }] });
  expect(shown).toContain(`${chip}read of tasks`);
  expect(shown).toContain(told);
});

it.each<[Partial<Timeline>, string]>([
  [{}, '●answeredread of tasksjust now no time was spent'],
  [
    { status: 201, attempt: 2, action: 'read-tasks' },
    '●answered 201read of tasksjust now no time was spent · attempt 2 · read-tasks',
  ],
  [{ error: 'refused: no' }, '●answeredread of tasksjust now no time was spent refused: no'],
  [
    { times: { ...TIMELINE.times, answered: null, sent: NOW - MINUTE } },
    '●answeredread of tasks1 min ago no time was spent',
  ],
])('tells of a request only what is known of it: %j', (parts, told) => {
  expect(words(parts)).toBe(told);
});

it.each([
  [1, 'because of 1 delivery: push 1'],
  [5, 'because of 5 deliveries: push 1, push 2, push 3, push 4, push 5'],
  [6, 'because of 6 deliveries: push 1, push 2, push 3, push 4, push 5, …'],
])('names the first five of %d deliveries', (served, told) => {
  const deliveries = Array.from({ length: served }, (_, index) => ({ id: index + 1, event: 'push' }));
  expect(words({ served, deliveries: deliveries as unknown as Timeline['deliveries'] })).toMatch(
    new RegExp(`${told}$`),
  );
});
