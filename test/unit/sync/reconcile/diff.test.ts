import { describe, expect, it } from 'vitest';
import { differingFields, recordDiffers } from '../../../../src/sync/reconcile/diff.ts';

describe('fields that differ', () => {
  it.each<[what: string, desired: object, known: object, expected: string[]]>([
    ['equal', { title: 'a', draft: false }, { title: 'a', draft: false }, []],
    ['another value', { title: 'a' }, { title: 'b' }, ['title']],
    ['several', { title: 'a', state: 'open', url: 'u' }, { title: 'b', state: 'closed', url: 'u' }, ['title', 'state']],
    ['absent is never compared', {}, { title: 'b', labels: ['x'] }, []],
    ['known lacks it', { title: 'a' }, {}, ['title']],
    ['false is a value', { draft: false }, {}, ['draft']],
    ['empty text, null', { description: '' }, { description: null }, []],
    ['empty text, absent', { description: '' }, {}, []],
    ['null, empty text', { author: null }, { author: '' }, []],
    ['null, absent', { mergedAt: null }, {}, []],
    ['empty text, a text', { description: '' }, { description: 'x' }, ['description']],
    ['null, a text', { author: null }, { author: 'mona' }, ['author']],
    ['lists, equal', { labels: ['a', 'b'] }, { labels: ['a', 'b'] }, []],
    ['lists are sets: order', { labels: ['a', 'b'] }, { labels: ['b', 'a'] }, []],
    ['lists are sets: repeats', { labels: ['a', 'b'] }, { labels: ['b', 'a', 'b'] }, []],
    ['lists, one more', { labels: ['a', 'b'] }, { labels: ['a'] }, ['labels']],
    ['lists, one less', { labels: ['a'] }, { labels: ['a', 'b'] }, ['labels']],
    ['lists, another', { labels: ['a'] }, { labels: ['b'] }, ['labels']],
    ['an empty list, a list', { labels: [] }, { labels: ['a'] }, ['labels']],
    ['an empty list, none', { labels: [] }, { labels: null }, []],
    [
      'instants in another spelling',
      { mergedAt: '2026-01-05T09:00:00Z' },
      { mergedAt: '2026-01-05T09:00:00.000Z' },
      [],
    ],
    ['instants with an offset', { createdAt: '2026-01-05T09:00:00Z' }, { createdAt: '2026-01-05T10:00:00+01:00' }, []],
    ['other instants', { mergedAt: '2026-01-05T09:00:00Z' }, { mergedAt: '2026-01-05T09:00:01Z' }, ['mergedAt']],
    ['a text that looks like one', { title: '2026-01-05T09:00:00Z' }, { title: '2026-01-05T09:00:00.000Z' }, ['title']],
  ])('%s', (_, desired, known, expected) => {
    expect(differingFields(desired as never, known as never)).toEqual(expected);
  });
});

describe('whether a record is written', () => {
  const OPEN = { title: 'a', state: 'open' };
  const DECLINED = { title: 'a', state: 'declined' };
  it.each([
    ['none is known', OPEN, undefined, true, true],
    ['the same', OPEN, OPEN, true, false],
    ['changed', OPEN, { ...OPEN, title: 'b' }, true, true],
    ['declined for good', { ...OPEN, title: 'b' }, DECLINED, false, false],
    ['declined where it can be reopened', OPEN, DECLINED, true, true],
    ['about to be declined', DECLINED, OPEN, false, true],
    ['closed where it cannot be reopened', OPEN, { ...OPEN, state: 'closed' }, false, true],
    ['never recorded and declined already', DECLINED, undefined, false, true],
  ])('%s', (_, desired, known, reopensClosed, expected) => {
    expect(recordDiffers(desired, known, { reopensClosed })).toBe(expected);
  });
});
