import type { Grammar } from '../../model/grammar.ts';

/** Issues of Bitbucket's own tracker are not read: only the words count, before what other trackers name. */
export const grammar: Grammar = {
  closing: [
    ...['close', 'closes', 'closed', 'closing'],
    ...['fix', 'fixes', 'fixed', 'fixing'],
    ...['resolve', 'resolves', 'resolved', 'resolving'],
  ],
  closes: 'next',
  names: [],
};
