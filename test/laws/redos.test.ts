import { analyse } from 'scslre';
import { describe, expect, it } from 'vitest';
import { createPattern, patternText } from '../../src/platform/lib/pattern.ts';
import { quickestOf } from '../support/cost/cpu-time.ts';
import { READERS, SINGLE, textOf } from '../support/faults/stranger-texts.ts';

/**
 * Law: no pattern of a configuration and no reader of ours takes more than 10 ms for a text of a thousand signs, whatever the text.
 * Longer texts: `linear-cost.deep.test.ts`.
 */
const MOST = 10;
const LENGTH = 1_000;
const TRIES = 8;

/** Patterns that stopped servers, or that are taught as such, each with a text that they would go back over. */
const CORPUS: readonly (readonly [pattern: string, repeated: string, end: string])[] = [
  ['(a+)+$', 'a', '!'],
  ['([a-zA-Z]+)*$', 'a', '!'],
  ['(a|aa)+$', 'a', '!'],
  ['(a|a?)+$', 'a', '!'],
  ['(.*a){8}$', 'a', '!'],
  ['(?:a|b|ab)*c', 'ab', '!'],
  ['^(([a-z])+.)+[A-Z]([a-z])+$', 'a', '!'],
  ['(x+x+)+y', 'x', '!'],
  ['^(\\w+\\s?)+$', 'aa ', '!'],
  ['\\s+$', ' ', 'x'],
  ['(?:(?:"|\'|\\]|\\}|\\\\|\\d|(?:nan|infinity|true|false|null|undefined)|[-+.e])*)=.*(?:.*=.*)', 'x=', 'x'],
  ['^([a-z0-9]([._-]?[a-z0-9]+)*)+@', 'a', '!'],
  ['(?:\\.{1,2}/)*(?:[a-z]*/)*[a-z]*$', 'a/', '!'],
  ['((a*)*)*b', 'a', '!'],
];

describe('a pattern of a configuration', () => {
  it.each(CORPUS)('takes no time over what it would go back over: %s [A8]', (pattern, repeated, end) => {
    // It is one of those: in JavaScript's own syntax it goes back.
    expect(analyse(new RegExp(pattern)).reports.length).toBeGreaterThan(0);
    const compiled = createPattern(patternText(pattern));
    const text = textOf({ repeated: [repeated], end }, LENGTH);
    expect(quickestOf(TRIES, () => compiled.test(text))).toBeLessThan(MOST);
  });

  it('would take longer where it went back', () => {
    const text = `${'a'.repeat(20)}!`;
    expect(quickestOf(1, () => /(a+)+$/.test(text))).toBeGreaterThan(MOST);
  });
});

it.each(Object.entries(READERS))('%s: no text of strangers takes long [A8]', (_, read) => {
  const slow = SINGLE.filter((each) => {
    const text = textOf(each, LENGTH);
    return quickestOf(1, () => read(text)) >= MOST && quickestOf(TRIES, () => read(text)) >= MOST;
  });
  expect(slow).toEqual([]);
});
