import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  hasItemLine,
  itemLine,
  itemLinesIn,
  lastLine,
  taskName,
  withItemLine,
  withKey,
} from '../../../src/model/task.ts';
import { cut } from '../../../src/model/text-limits.ts';

it.each([
  [{ taskId: 'tsk_1', key: 'BUG-1', title: 'Door' }, 'BUG-1'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: 'Door' }, '"Door" (tsk_1)'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: '' }, 'tsk_1'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: 'x'.repeat(99) }, `"${'x'.repeat(59)}…" (tsk_1)`],
])('names %j as %s', (task, name) => {
  expect(taskName(task)).toBe(name);
});

it.each([[undefined], [null], [''], [5]])('gives a task with the key %j its id as key', (key) => {
  expect(withKey({ taskId: 'tsk_1', key })).toEqual({ taskId: 'tsk_1', key: 'tsk_1' });
});

it('keeps a key, and returns other values unchanged', () => {
  expect(withKey({ taskId: 'tsk_1', key: 'BUG-1' })).toEqual({ taskId: 'tsk_1', key: 'BUG-1' });
  expect(withKey('tsk_1')).toBe('tsk_1');
});

const LINE = 'Source: https://example.com/1';

it('an item line names the address of the item, or its connector and name', () => {
  expect(itemLine({ url: 'https://example.com/1', connector: 'jira', identifier: 'ENG-1' })).toBe(LINE);
  expect(itemLine({ connector: 'jira', identifier: 'ENG-1' })).toBe('Source: jira ENG-1');
});

it('cuts the description, but never the item line', () => {
  const text = withItemLine('d'.repeat(100), LINE, 60);
  expect(text.length).toBeLessThanOrEqual(60);
  expect(lastLine(text)).toBe(LINE);
  expect(withItemLine('  ', LINE, 60)).toBe(LINE);
});

it.each<[what: string, text: string, lines: string]>([
  ['below the text', `A text.\n\n${LINE}`, LINE],
  ['above a text that a person added', `${LINE}\nMore.`, LINE],
  ['within markup', `<p>${LINE}</p>`, `${LINE}</p>`],
  ['twice', `${LINE}\n${LINE}2`, `${LINE}\n${LINE}2`],
  ['nowhere', 'A text.', ''],
])('finds item lines %s', (_what, text, lines) => {
  expect(itemLinesIn(text)).toBe(lines);
});

it.each<[text: string | null, isFound: boolean]>([
  [`A text.\n\n${LINE}`, true],
  [`<p>${LINE}</p>`, true],
  [`${LINE}2`, false],
  [`${LINE}/files`, false],
  [`${LINE}2\n${LINE}`, true],
  [null, false],
])('%j contains the item line: %s', (text, isFound) => {
  expect(hasItemLine(text, LINE)).toBe(isFound);
});

it('finds only a few short lines in a hostile text', () => {
  expect(itemLinesIn('Source: '.repeat(100_000)).length).toBeLessThan(20_000);
});

describe('cut', () => {
  it.each([
    ['abc', 3, 'abc'],
    ['abcd', 3, 'ab…'],
    ['abcd', 1, '…'],
    ['', 1, ''],
    ['🐛🐛', 3, '🐛…'],
    ['a🐛🐛', 3, 'a…'],
    ['🐛🐛', 2, '…'],
  ])('cuts %j to %i', (text, longest, expected) => {
    expect(cut(text, longest)).toBe(expected);
  });

  it('keeps the length, splits no surrogate pair, and leaves short texts unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.integer({ min: 1, max: 40 }), (text, longest) => {
        const short = cut(text, longest);
        expect(short.length).toBeLessThanOrEqual(longest);
        expect(short.isWellFormed()).toBe(true);
        expect(short === text || text.startsWith(short.slice(0, -1))).toBe(true);
        expect(short === text).toBe(text.length <= longest || text === short);
        expect(Math.min(text.length, longest) - short.length).toBeLessThanOrEqual(1);
      }),
    );
  });
});
