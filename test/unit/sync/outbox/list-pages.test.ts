import { describe, expect, it, test } from 'vitest';
import { type ListAnswer, type ListPosition, nextListStep } from '../../../../src/sync/outbox/list-pages.ts';

const SENT_AT = 1_000;
const page = (answer: ListAnswer, length: number, place: ListPosition = {}) =>
  nextListStep({ body: { ...place }, sentAt: SENT_AT }, answer, length);

const ended = (isComplete: boolean, began = SENT_AT) => ({ page: { began, isEnd: true, isComplete } });
const notLast = { began: SENT_AT, isEnd: false, isComplete: false };
const SECOND = { limit: 5_000, first: 50, began: 500 };

describe('a page without a cursor', () => {
  it.each<[what: string, answer: ListAnswer, length: number, place: ListPosition, expected: object]>([
    ['of an unusual length is complete', {}, 7, {}, ended(true)],
    ['that says that it is the last is complete, whatever its length', { isLast: true }, 50, {}, ended(true)],
    ['that says that it is not the last is incomplete', { isLast: false }, 7, {}, ended(false)],
    ['with an unreadable element is incomplete', { isLast: true, unreadable: 1 }, 7, {}, ended(false)],
    [
      'of exactly 50 that does not say that it is the last is read a second time with a limit',
      { isLast: null },
      50,
      {},
      { page: notLast, next: { limit: 5_000, first: 50, began: SENT_AT } },
    ],
    ['read a second time with as many elements is complete', {}, 50, SECOND, ended(true, 500)],
    ['read a second time with more elements is complete', {}, 73, SECOND, ended(true, 500)],
    ['read a second time and cut at another limit is incomplete', {}, 1_000, SECOND, ended(false, 500)],
    ['at the end of several pages is complete', { nextCursor: null }, 3, { cursor: 'b', began: 500 }, ended(true, 500)],
    [
      'at the end of several pages that may be cut itself is incomplete',
      {},
      50,
      { cursor: 'b', began: 500 },
      ended(false, 500),
    ],
  ])('%s', (_what, answer, length, place, expected) => {
    expect(page(answer, length, place)).toEqual(expected);
  });
});

test('continues with the cursor, and keeps the start and the restarts of the list', () => {
  const first = page({ nextCursor: 'b' }, 50, { restarts: 1 });
  expect(first).toMatchObject({ page: notLast, next: { cursor: 'b', began: SENT_AT, restarts: 1 } });
  const second = nextListStep({ body: { ...first.next }, sentAt: 2_000 }, { nextCursor: 'c' }, 50);
  expect(second).toMatchObject({ page: notLast, next: { cursor: 'c', began: SENT_AT, restarts: 1 } });
  expect(second.next?.seen).toHaveLength(2);
});

test('ends as incomplete at a repeated cursor', () => {
  const first = page({ nextCursor: 'b' }, 50);
  const second = page({ nextCursor: 'c' }, 50, first.next);
  expect(page({ nextCursor: 'b' }, 50, second.next)).toEqual(ended(false));
});

test('ends as incomplete after 500 pages', () => {
  let place: ListPosition | undefined = {};
  let pages = 0;
  for (; place !== undefined; pages++) place = page({ nextCursor: `c${pages}` }, 1, place).next;
  expect(pages).toBe(501);
});
