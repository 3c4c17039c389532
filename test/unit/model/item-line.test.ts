import { expect, test } from 'vitest';
import { itemLine, itemLinesIn, lastLine, withItemLine } from '../../../src/model/task.ts';

const LINE = 'Source: https://example.com/1';

test('a line names the address of the item, or the item where it has none', () => {
  expect(itemLine({ url: 'https://example.com/1', connector: 'jira', identifier: 'ENG-1' })).toBe(LINE);
  expect(itemLine({ connector: 'jira', identifier: 'ENG-1' })).toBe('Source: jira ENG-1');
});

test('the description is cut, never the line', () => {
  const text = withItemLine('d'.repeat(100), LINE, 60);
  expect(text.length).toBeLessThanOrEqual(60);
  expect(lastLine(text)).toBe(LINE);
  expect(withItemLine('  ', LINE, 60)).toBe(LINE);
});

test.each<[what: string, text: string, lines: string]>([
  ['below the text', `A text.\n\n${LINE}`, LINE],
  ['above a text that a person added', `${LINE}\nMore.`, LINE],
  ['within markup', `<p>${LINE}</p>`, `${LINE}</p>`],
  ['twice', `${LINE}\n${LINE}2`, `${LINE}\n${LINE}2`],
  ['nowhere', 'A text.', ''],
])('finds the lines in a text: %s', (_what, text, lines) => {
  expect(itemLinesIn(text)).toBe(lines);
});

test('keeps few and short lines of a hostile text', () => {
  expect(itemLinesIn('Source: '.repeat(100_000)).length).toBeLessThan(20_000);
});
