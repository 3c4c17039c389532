import type { Fields, Line } from './references/trace.ts';

/** So many pull requests opened at the same moment: distinct changes, each of one write. */
export function atOnce(count: number): Line[] {
  const fields: Fields = {
    ...{ title: 'Title 1', description: 'Description 1', state: 'open' as const, draft: false, head: '0' },
    ...{ reviewers: [], labels: [], assignees: [] },
  };
  return Array.from({ length: count }, (_, index) => {
    return { at: 0, updated: 0, connection: 'github', event: 'opened', item: `1/${index + 1}`, fields };
  });
}
