import type { Fields } from '../bench/quota/references/trace.ts';

/** Of a pull request of which nothing has been said yet. */
export const BLANK: Fields = {
  ...{ title: '', description: '', state: 'open', draft: false, head: 'abc' },
  ...{ reviewers: [], labels: [], assignees: [] },
};
