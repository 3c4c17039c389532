import type { Grammar } from '../../model/link.ts';

/** `Fixes MYAPP-317` in a commit, a title or a description (SE4). */
export const grammar: Grammar = {
  closing: ['fix', 'fixes', 'fixed'],
  closes: 'next',
  names: ['short-id'],
  needsWord: true,
};
