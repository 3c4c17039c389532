import type { Grammar } from '../../model/link.ts';

/** `[sc-318]`, `[Finishes sc-318]`, and addresses with the title at their end (SH4). */
export const grammar: Grammar = {
  closing: [
    ...['finish', 'finishes', 'finished', 'complete', 'completes', 'completed'],
    ...['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  ],
  closes: 'list',
  names: ['sc-'],
  addresses: [
    ['//app.shortcut.com/{workspace}/story/{number}', '//app.shortcut.com/{workspace}/story/{number}/{title}'],
  ],
};
