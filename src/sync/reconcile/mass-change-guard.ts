import { EFFECTS, type Effect } from '../../model/change.ts';
import { applyGuard, type GuardTally, guardTally } from '../../store/held-changes.ts';
import type { Scope } from '../../store/workspace-scope.ts';

/** How many removals or closings, creations, and repairs may wait together. Infinity: any number. */
export interface GuardLimits {
  readonly removals: number;
  readonly creations: number;
  readonly repairs: number;
}

/**
 * How many of the fresh changes exceed the limit. Changes ahead of them count first, also held ones: so the guard holds a mass
 * that comes in pieces like one that comes at once. A change that has passed once is not held later.
 */
export function surplusOf(limit: number, { fresh, ahead }: GuardTally): number {
  return Math.max(0, Math.min(fresh, fresh + ahead - limit));
}

const WORDS: Readonly<Record<Effect, readonly [what: string, key: keyof GuardLimits]>> = {
  removal: ['removals or closings', 'removals'],
  creation: ['creations', 'creations'],
  repair: ['repairs', 'repairs'],
};

/** A limit that holds changes back. */
interface Passed {
  readonly effect: Effect;
  readonly held: number;
  readonly reason: string;
}

/**
 * Holds the changes above the limits, the latest first. Counted over the changes that wait together, in the transaction that
 * adds to them, so that none of the surplus can be sent before.
 *
 * @returns each limit that was passed just now
 */
export async function guardChanges(query: Scope, limits: GuardLimits): Promise<Passed[]> {
  const tallies = await guardTally(query);
  const passed: Passed[] = [];
  for (const effect of EFFECTS) {
    const { fresh, ahead } = tallies[effect];
    if (fresh === 0) continue;
    const [what, key] = WORDS[effect];
    const surplus = surplusOf(limits[key], tallies[effect]);
    const reason = `${fresh + ahead} ${what} wait together, and guard.${key} allows ${limits[key]}`;
    await applyGuard(query, effect, surplus, `guard_held: ${reason}`);
    if (surplus > 0) passed.push({ effect, held: surplus, reason });
  }
  return passed;
}
