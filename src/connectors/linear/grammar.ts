import type { Grammar } from '../../model/link.ts';

/** One word covers a whole list, `Fixes ENG-1, DES-5 and ENG-6` (LI4). */
export const grammar: Grammar = {
  closing: [
    ...['close', 'closes', 'closed', 'closing'],
    ...['fix', 'fixes', 'fixed', 'fixing'],
    ...['resolve', 'resolves', 'resolved', 'resolving'],
    ...['complete', 'completes', 'completed', 'completing'],
    ...['implement', 'implements', 'implemented', 'implementing'],
    'linear issue',
  ],
  mentioning: [
    ...['ref', 'refs', 'references', 'part of', 'contributes to', 'toward', 'towards'],
    ...['relates to', 'related to'],
  ],
  suppressing: ['skip', 'ignore'],
  closes: 'list',
  names: ['key'],
  addresses: [['//linear.app/{workspace}/issue/{key}', '//linear.app/{workspace}/issue/{key}/{title}']],
};
