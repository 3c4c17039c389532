import type { Grammar } from '../../model/link.ts';

/**
 * The words that Redmine understands by default: `refs #12`, `references #12, #13`, `IssueID #12` (RM3). Numbers are unique over
 * all projects, but other systems use the same sign, so a number alone names nothing. Closing words differ by site, and there are
 * none by default.
 */
export const grammar: Grammar = {
  closing: [],
  mentioning: ['refs', 'references', 'issueid'],
  closes: 'list',
  names: ['host-number'],
  needsWord: true,
  addresses: [['//{host}/issues/{number}']],
};
