import type { BrokenWorkspace, ElsewhereWorkspace } from './status.ts';
import type { Verdict } from './verdict.ts';

/** A workspace in a list of many. */
export interface ListedWorkspace {
  readonly name: string;
  readonly verdict: Verdict;
  readonly summary: string;
  /** Changes that wait, and those that need approval. */
  readonly waiting: number;
  readonly held: number;
  /** The long window; null where the state is unknown. */
  readonly quota: { readonly used: number; readonly cap: number | null } | null;
}

const RANKS: Readonly<Record<Verdict, number>> = { blocked: 0, degraded: 1, ok: 2 };

/** One whose state is unknown. */
export function listBroken({ name, code, message }: BrokenWorkspace): ListedWorkspace {
  return { name, verdict: 'blocked', summary: `${code}: ${message}`, waiting: 0, held: 0, quota: null };
}

/** One that another process works on, which did not answer; or nobody, for longer than a move takes. */
export function listElsewhere({ name, address }: ElsewhereWorkspace, isUnheld: boolean): ListedWorkspace {
  const [verdict, summary] = isUnheld
    ? (['blocked', 'no replica works on it'] as const)
    : address === null
      ? (['ok', 'moves from one replica to another'] as const)
      : (['degraded', `another replica works on it (${address}), and did not answer`] as const);
  return { name, verdict, summary, waiting: 0, held: 0, quota: null };
}

/** Then by what waits, then by name. */
export function worstFirst(all: readonly ListedWorkspace[]): ListedWorkspace[] {
  return all.toSorted(
    (a, b) =>
      RANKS[a.verdict] - RANKS[b.verdict] || b.held - a.held || b.waiting - a.waiting || (a.name < b.name ? -1 : 1),
  );
}

/** Those whose names contain the words, in the same order. */
export function searchWorkspaces(all: readonly ListedWorkspace[], search: string): readonly ListedWorkspace[] {
  const words = search.trim().toLowerCase();
  return words === '' ? all : all.filter(({ name }) => name.toLowerCase().includes(words));
}
