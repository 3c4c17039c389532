// Design: src/decisions/changes.md

import { EFFECTS, type Effect, type EntityKind } from '../../model/change.ts';
import { type Item, isFinished } from '../../model/item.ts';
import { debounceOf, dueAfter, type Lane } from '../../model/lane.ts';
import { applyGuard, type GuardTally, guardTally } from '../../store/held-changes.ts';
import { addDifference, dropDifference } from '../../store/outbox-rows.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { Evaluation, GuardLimits } from './context.ts';

/** The entity that a change is about, and its place in the outbox. */
interface ChangeTarget {
  readonly name: string;
  readonly kind: EntityKind;
  readonly lane: Lane;
}

interface ChangeDetails {
  /** The request to send is another one than at the last evaluation. */
  readonly renewed: boolean;
  readonly effect: Effect | null;
  /** The change has no lasting effect if it is sent earlier; epoch milliseconds. */
  readonly notBefore?: number;
}

/** Enqueues a change if desired and known state differ. Otherwise removes the change that may be waiting. */
export async function enqueueDifference(
  evaluation: Evaluation,
  target: ChangeTarget,
  { differs, ...details }: ChangeDetails & { readonly differs: boolean },
): Promise<void> {
  if (!differs) return dropDifference(evaluation.query, target.name);
  await enqueueChange(evaluation, target, details);
}

/** The part of an evaluation that a change needs. `item` is absent if no item caused it. */
type ChangeCause = Pick<Evaluation, 'query' | 'cause' | 'usedShare' | 'visibility'> & {
  readonly item: Item | undefined;
};

/** Writes a change to the outbox, due after the debounce of its lane. */
export async function enqueueChange(
  { query, item, cause, usedShare, visibility }: ChangeCause,
  { name, kind, lane }: ChangeTarget,
  details: ChangeDetails,
): Promise<void> {
  const ownLane = cause.isBackfill || cause.isSweep ? 'backfill' : lane;
  const debounce = debounceOf(ownLane, usedShare, visibility);
  await addDifference(query, {
    entity: name,
    kind,
    lane: ownLane,
    since: cause.since,
    // One millisecond apart, because changes with the same due time are sent in the order of their names.
    due: dueAfter(cause.since, cause.latest ?? cause.since, debounce) + (cause.place ?? 0),
    maxWait: debounce.maxWait,
    weight: item && isFinished(item) ? 2 : 1,
    // A person who requests old items does not request new tasks: the guard counts new tasks of every cause.
    confirmed: cause.isBackfill === true && kind !== 'task',
    ...details,
    waiting: cause.waiting,
    isLive: cause.webhook !== undefined,
  });
}

/** A limit that was exceeded. */
interface ExceededLimit {
  readonly effect: Effect;
  /** How many changes are held because of it. */
  readonly held: number;
  readonly reason: string;
}

const GUARD_TEXTS: Readonly<Record<Effect, readonly [what: string, key: keyof GuardLimits]>> = {
  removal: ['removals or closings', 'removals'],
  creation: ['creations', 'creations'],
  repair: ['repairs', 'repairs'],
  status: ['status changes', 'statuses'],
};

/**
 * Holds the changes above the limits, the latest first. Counts the changes that wait together in the transaction that
 * adds to them, so that no surplus change can be sent first. Returns the limits that were exceeded just now.
 */
export async function guardChanges(query: Scope, limits: GuardLimits): Promise<ExceededLimit[]> {
  const tallies = await guardTally(query);
  const exceeded: ExceededLimit[] = [];
  for (const effect of EFFECTS) {
    if (tallies[effect].fresh === 0) continue;
    const [what, key] = GUARD_TEXTS[effect];
    const surplus = surplusOf(limits[key], tallies[effect]);
    // All batches use one text, so that the status can count the changes together.
    const reason = `more than ${limits[key]} ${what} wait together (guard.${key})`;
    await applyGuard(query, effect, surplus, `guard_held: ${reason}`);
    if (surplus > 0) exceeded.push({ effect, held: surplus, reason });
  }
  return exceeded;
}

/**
 * Returns how many of the fresh changes exceed the limit. Changes ahead of them count first, held ones too, so that the
 * guard treats a mass that arrives in pieces like one that arrives at once. A change that has passed the guard is not
 * held later.
 */
export function surplusOf(limit: number, { fresh, ahead }: GuardTally): number {
  return Math.max(0, Math.min(fresh, fresh + ahead - limit));
}
