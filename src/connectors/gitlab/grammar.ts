import type { Grammar } from '../../model/link.ts';

/** GitLab's default pattern: one word closes a whole list, `Closes #4, #6 and group/project#7` (GL12). The forms of names are those of GL18. */
export const grammar: Grammar = {
  closing: [
    ...['close', 'closes', 'closed', 'closing'],
    ...['fix', 'fixes', 'fixed', 'fixing'],
    ...['resolve', 'resolves', 'resolved', 'resolving'],
    ...['implement', 'implements', 'implemented', 'implementing'],
  ],
  mentioning: ['related to'],
  closes: 'list',
  names: ['number', 'GL-'],
  addresses: [
    ['//{host}/{path}/-/issues/{number}', '//{host}/{path}/-/work_items/{number}', '//{host}/{path}/issues/{number}'],
  ],
  branchNumbers: true,
};
