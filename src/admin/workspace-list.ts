import type { BrokenWorkspace, ElsewhereWorkspace } from './status.ts';
import type { Verdict } from './verdict.ts';

/** A workspace in a list of many. */
export interface ListedWorkspace {
  readonly name: string;
  readonly verdict: Verdict;
  readonly summary: string;
  /** Pending changes, and changes that need approval. */
  readonly waiting: number;
  readonly held: number;
  /** The long window; null if the state is unknown. */
  readonly quota: { readonly used: number; readonly cap: number | null } | null;
}

const RANKS: Readonly<Record<Verdict, number>> = { blocked: 0, degraded: 1, ok: 2 };

/** Returns the entry of a workspace whose state is unknown. */
export function listBroken({ name, code, message }: BrokenWorkspace): ListedWorkspace {
  return { name, verdict: 'blocked', summary: `${code}: ${message}`, waiting: 0, held: 0, quota: null };
}

/** Returns the entry of a workspace that its owner did not report, or that has no owner for longer than a move takes. */
export function listElsewhere({ name, address }: ElsewhereWorkspace, isUnheld: boolean): ListedWorkspace {
  const [verdict, summary] = isUnheld
    ? (['blocked', 'no replica works on it'] as const)
    : address === null
      ? (['ok', 'moves from one replica to another'] as const)
      : (['degraded', `another replica works on it (${address}), and did not answer`] as const);
  return { name, verdict, summary, waiting: 0, held: 0, quota: null };
}

/** Sorts by verdict, then by pending work, then by name. */
export function worstFirst(all: readonly ListedWorkspace[]): ListedWorkspace[] {
  return all.toSorted(
    (a, b) =>
      RANKS[a.verdict] - RANKS[b.verdict] || b.held - a.held || b.waiting - a.waiting || (a.name < b.name ? -1 : 1),
  );
}

/** Returns the workspaces whose names contain the text, in the same order. */
export function searchWorkspaces(all: readonly ListedWorkspace[], search: string): readonly ListedWorkspace[] {
  const words = search.trim().toLowerCase();
  return words === '' ? all : all.filter(({ name }) => name.toLowerCase().includes(words));
}
