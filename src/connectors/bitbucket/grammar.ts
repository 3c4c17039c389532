import type { Grammar } from '../../model/link.ts';

/** The words that close an item of another tracker. worksync does not read the issues of Bitbucket's own tracker. */
export const grammar: Grammar = {
  closing: [
    ...['close', 'closes', 'closed', 'closing'],
    ...['fix', 'fixes', 'fixed', 'fixing'],
    ...['resolve', 'resolves', 'resolved', 'resolving'],
  ],
  closes: 'next',
  names: [],
};
