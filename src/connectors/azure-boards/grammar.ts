import type { Grammar } from '../../model/link.ts';

/** In a list behind one word only the first is closed (AZ4). */
export const grammar: Grammar = {
  closing: ['fix', 'fixes', 'fixed'],
  closes: 'next',
  names: ['AB#'],
};
