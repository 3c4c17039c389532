import type { Grammar } from '../../model/link.ts';

/**
 * What Redmine understands before anybody sets more words there: `refs #12`, `references #12, #13`, `IssueID #12`
 * (RM3). Numbers are counted over all projects, and other places count theirs with the same sign, so a number alone
 * names nothing. Words that fix are every site's own, and none at first.
 */
export const grammar: Grammar = {
  closing: [],
  mentioning: ['refs', 'references', 'issueid'],
  closes: 'list',
  names: ['host-number'],
  needsWord: true,
  addresses: [['//{host}/issues/{number}']],
};
