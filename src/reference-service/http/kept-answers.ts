import type { RouteName } from '../../workspace-api/contract.ts';

/** An answer to a read as it goes out. */
export interface KeptAnswer {
  readonly body: string;
  readonly etag: string;
}

/**
 * Answers to reads, kept in memory until the next commit of anything. Clients that poll what has not changed cost no
 * look at the rows. One process holds the file, and all writes go through `commits`, so what was read since the last
 * commit is what a read now would find.
 */
export interface KeptAnswers {
  find(key: string): KeptAnswer | undefined;
  /** @param commits how many commits there were before the read began; one since then makes the answer worthless */
  keep(key: string, commits: number, answer: KeptAnswer): void;
}

/** Reads of one resource that depend on rows alone: not on the time, the caller or another server. */
export const KEPT_ROUTES: ReadonlySet<RouteName> = new Set(['getTask', 'getDocument', 'listWorkItems']);

/** Bounds the memory: answers of at most 64 KiB, 512 of them. */
const LARGEST = 65_536;
const MOST = 512;

export function createKeptAnswers(commits: () => number): KeptAnswers {
  const kept = new Map<string, KeptAnswer>();
  let valid = commits();
  const dropOutdated = () => {
    if (valid === commits()) return;
    kept.clear();
    valid = commits();
  };
  return {
    find(key) {
      dropOutdated();
      return kept.get(key);
    },
    keep(key, before, answer) {
      dropOutdated();
      if (before === valid && answer.body.length <= LARGEST && kept.size < MOST) kept.set(key, answer);
    },
  };
}
