export interface CommitCounter {
  saw(sql: string): void;
  count(): number;
}

/**
 * Counts durable commits from the statements that a connection runs, and from nothing else: each `commit`, and each
 * statement outside a transaction that changes something.
 */
export function countCommits(): CommitCounter {
  let inTransaction = false;
  let commits = 0;
  return {
    saw(sql) {
      const word = /^\s*(\w+)/.exec(sql)?.[1]?.toLowerCase() ?? '';
      const ends = word === 'commit' || word === 'rollback';
      if (word === 'commit' || (!inTransaction && CHANGES.has(word))) commits++;
      if (word === 'begin') inTransaction = true;
      if (ends) inTransaction = false;
    },
    count: () => commits,
  };
}

const CHANGES = new Set(['insert', 'update', 'delete', 'replace', 'create', 'alter', 'drop']);
