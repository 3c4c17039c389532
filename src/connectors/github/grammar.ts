import type { Grammar } from '../../model/link.ts';

/** The keyword must be repeated for each issue: `Resolves #1, resolves #2` (GH8). The forms of names are those of GH15. */
export const grammar: Grammar = {
  closing: ['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  closes: 'next',
  names: ['number', 'GH-'],
  addresses: [['//{host}/{path}/issues/{number}']],
};
