import { expect, it } from 'vitest';
import {
  afterObservation,
  afterRelease,
  afterUpdate,
  isContested,
  type WrittenStatus,
} from '../../../src/model/written-task.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;
const NOW = 10 * DAY;
const OLD = NOW - DAY;
const times = (count: number, from = OLD + 1) => Array.from({ length: count }, (_, index) => from + index);

const MOVE = { status: 'review', from: 'open', rule: 'r' };
const OURS: WrittenStatus = { status: 'review', rule: 'r', previous: 'open', moves: [OLD + 1] };

it.each<[claim: string, written: WrittenStatus, update: Parameters<typeof afterUpdate>[1], expected: WrittenStatus]>([
  ['first move', {}, MOVE, { status: 'review', rule: 'r', previous: 'open', moves: [NOW] }],
  [
    'later move keeps the first status, and the moves of the last day',
    { ...OURS, moves: [OLD, OLD + 1] },
    { ...MOVE, status: 'completed', from: 'review' },
    { ...OURS, status: 'completed', moves: [OLD + 1, NOW] },
  ],
  ['move to the same status changes nothing', OURS, { ...MOVE, rule: 'other' }, OURS],
  ['update of labels is no move', OURS, { from: 'review', addLabels: ['a'] }, { ...OURS, labels: ['+a'] }],
  [
    'update adds to the labels, each once',
    { labels: ['+a', '-b'] },
    { from: 'open', addLabels: ['a', 'c'], removeLabels: ['b', 'd'] },
    { labels: ['+a', '-b', '+c', '-d'] },
  ],
])('the %s', (_claim, written, update, expected) => {
  expect(afterUpdate(written, update, NOW)).toEqual(expected);
});

const SEEN = { status: 'planned', setBefore: NOW, isReopened: false, isLower: true };
const LEFT: WrittenStatus = { previous: 'open', moves: [NOW - 2 * MINUTE] };
const WROTE = { ...LEFT, status: 'review', rule: 'r' };

it.each<[claim: string, written: WrittenStatus, seen: Partial<typeof SEEN>, expected: WrittenStatus]>([
  ['the written one is no edit', { ...WROTE, contested: [OLD] }, { status: 'review' }, { ...WROTE, contested: [OLD] }],
  ['a lower one within two minutes is a contest', WROTE, {}, { ...LEFT, contested: [NOW] }],
  ['a lower one later is an edit', WROTE, { setBefore: NOW + 1 }, LEFT],
  ['a higher one is an edit', WROTE, { isLower: false }, LEFT],
  ['a lower one without a move before is an edit', { status: 'review' }, {}, {}],
  [
    'earlier contests count for a day',
    { ...WROTE, contested: [OLD, OLD + 1] },
    { isLower: false },
    { ...LEFT, contested: [OLD + 1] },
  ],
  ['a reopened one begins an epoch', {}, { isReopened: true, isLower: false }, { epoch: NOW }],
  ['an epoch never ends earlier', { epoch: NOW + 1 }, { isReopened: true, isLower: false }, { epoch: NOW + 1 }],
  ['another one keeps the epoch', { epoch: OLD }, { isLower: false }, { epoch: OLD }],
])('of an observed status, %s', (_claim, written, seen, expected) => {
  expect(afterObservation(written, { ...SEEN, ...seen }, NOW)).toEqual(expected);
});

it.each<[isExpected: boolean, written: WrittenStatus]>([
  [false, {}],
  [false, { contested: times(2), moves: times(11) }],
  [true, { contested: times(3) }],
  [true, { moves: times(12) }],
  // One of them was a day ago.
  [false, { contested: times(3, OLD), moves: times(12, OLD) }],
])('a task is contested: %j', (isExpected, written) => {
  expect(isContested(written, NOW)).toBe(isExpected);
});

it.each<[claim: string, status: string, expected: WrittenStatus]>([
  ['of worksync keeps its rule', 'review', { ...OURS, moves: [OLD + 1] }],
  ['of a person counts as one of worksync', 'planned', { status: 'planned', previous: 'planned' }],
])('a released status %s, and no contest stays', (_claim, status, expected) => {
  expect(afterRelease({ ...OURS, moves: [OLD, OLD + 1], contested: [NOW] }, status)).toEqual(expected);
});
