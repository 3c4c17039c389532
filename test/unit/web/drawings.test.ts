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
  [999, 'request 999 ms'],
  [1_000, 'request 1.0 s'],
  [60_000, 'request 1.0 min'],
])('tells %d ms as %j', (milliseconds, told) => {
  expect(words({ phases: [{ name: 'request', from: NOW - milliseconds, to: NOW }] })).toContain(told);
});
