import { expect, test } from 'vitest';
import { scan, wordPattern } from '../../../../../src/sync/reconcile/link-rules/scan.ts';

const words = wordPattern(['fixes', 'part of']);

/** The names with their keywords: `1` if the name is directly behind its keyword. */
const found = (text: string) =>
  scan(text, { words, shortIds: false }).map(
    ({ text: name, word = '-', isFirst }) => `${name} ${word} ${Number(isFirst)}`,
  );

const URL = 'https://a.example/browse/ENG-1';

test.each<[text: string, expected: string[]]>([
  ['Fixes BUG-1', ['BUG-1 fixes 1']],
  ['BUG-1', ['BUG-1 - 0']],
  ['Part  of BUG-1', ['BUG-1 part of 1']],
  ['prefixes BUG-1', ['BUG-1 - 0']],
  // The names of a list share its keyword.
  ['Fixes BUG-1, BUG-2 and #3', ['BUG-1 fixes 1', 'BUG-2 fixes 0', '#3 fixes 0']],
  ['Fixes BUG-1; BUG-2', ['BUG-1 fixes 1', 'BUG-2 - 0']],
  [`Fixes BUG-1,${' '.repeat(23)}BUG-2`, ['BUG-1 fixes 1', 'BUG-2 fixes 0']],
  [`Fixes BUG-1,${' '.repeat(24)}BUG-2`, ['BUG-1 fixes 1', 'BUG-2 - 0']],
  // The text and the address of a link share their keyword.
  [`Fixes [ENG-1](${URL})`, ['ENG-1 fixes 1', `${URL} fixes 1`]],
  [`[ENG-1](${URL})`, ['ENG-1 - 0', `${URL} - 0`]],
])('%j contains the names %j', (text, expected) => {
  expect(found(text)).toEqual(expected);
});
