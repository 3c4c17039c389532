import type { Grammar } from '../../model/link.ts';

/** `Fixes MYAPP-317, MYAPP-318` in a commit, a title or a description (SE4). */
export const grammar: Grammar = {
  closing: ['fix', 'fixes', 'fixed', 'close', 'closes', 'closed', 'resolve', 'resolves', 'resolved'],
  closes: 'list',
  names: ['short-id'],
  needsWord: true,
  addresses: [
    [
      '//{organization}.sentry.io/issues/{number}',
      '//{organization}.sentry.io/issues/{number}/…',
      '//sentry.io/organizations/{organization}/issues/{number}/…',
    ],
    [
      '//{host}/organizations/{organization}/issues/{number}',
      '//{host}/organizations/{organization}/issues/{number}/…',
    ],
  ],
};
