import type { Grammar } from '../../model/link.ts';

/** Jira only reads its keys (JI10). The words are those that people write in front of them at every forge. */
export const grammar: Grammar = {
  closing: ['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  closes: 'next',
  names: ['key'],
  addresses: [
    [
      '//{site}/browse/{key}',
      '//{site}/jira/…/{key}',
      '//{site}/projects/{project}/issues/{key}',
      '//{site}/…?selectedIssue={key}',
    ],
  ],
};
