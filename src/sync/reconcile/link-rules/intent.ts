import type { Grammar, Intent } from '../../../model/link.ts';

/** Where the word of a text stood before a name. */
export interface Word {
  readonly word: string;
  readonly isFirst: boolean;
}

/** What is understood of every item whose connector says no more, and of tasks. */
export const PLAIN: Grammar = {
  closing: ['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  closes: 'next',
  names: ['key'],
};

/** What a text wants of the thing that it names; undefined where by its grammar the text does not name it. */
export function intentOf(grammar: Grammar, words: readonly Word[]): Intent | undefined {
  const { closing, mentioning = [], suppressing = [], closes } = grammar;
  if (words.some(({ word }) => suppressing.includes(word))) return undefined;
  if (words.some(({ word, isFirst }) => closing.includes(word) && (isFirst || closes === 'list'))) return 'closes';
  const isNamed = words.some(({ word }) => closing.includes(word) || mentioning.includes(word));
  return isNamed || !grammar.needsWord ? 'mentions' : undefined;
}

export function wordsOf({ closing, mentioning = [], suppressing = [] }: Grammar): readonly string[] {
  return [...closing, ...mentioning, ...suppressing];
}
