// Design: src/decisions/changes.md

import type { Effect, EntityKind } from '../../model/change.ts';
import { type Item, isFinished } from '../../model/item.ts';
import { debounceOf, dueAfter, type Lane } from '../../model/lane.ts';
import { addDifference, dropDifference, type WaitingDelivery } from '../../store/outbox-rows.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { EvaluationContext, Source, Sources } from './context.ts';
import type { Rules } from './item-rules.ts';

/** Why an item is looked at: the deliveries that changed it, and since when. */
export interface Cause {
  readonly since: number;
  /** When the last of them came; absent: `since`. */
  readonly latest?: number;
  readonly waiting: readonly WaitingDelivery[];
  /** Nothing but a backfill brought it: it waits behind everything else, and a person has asked for it. */
  readonly isBackfill?: boolean;
  /** A round of the workspace sweep found it: it waits behind everything else, and nobody has asked for it. */
  readonly isSweep?: boolean;
  /** The delivery that brought what the item says now. */
  readonly delivery?: number;
}

/** One item that is looked at, and all that is needed for it. */
export interface Work {
  readonly query: Scope;
  readonly item: Item;
  readonly source: Source;
  readonly cause: Cause;
  readonly moment: EvaluationContext;
  readonly rules: Rules;
  readonly sources: Sources;
}

interface Outcome {
  /** What would be sent is something else than before. */
  readonly renewed: boolean;
  readonly effect: Effect | null;
  /** Earlier it would do no good; epoch milliseconds. */
  readonly notBefore?: number;
}

interface Target {
  readonly name: string;
  readonly kind: EntityKind;
  readonly lane: Lane;
}

export async function setDifference(
  work: Work,
  target: Target,
  { differs, ...outcome }: Outcome & { readonly differs: boolean },
): Promise<void> {
  if (!differs) return dropDifference(work.query, target.name);
  await addChange(work, target, outcome);
}

export async function addChange(work: Work, { name, kind, lane }: Target, outcome: Outcome): Promise<void> {
  const { query, item, cause, moment } = work;
  const own = cause.isBackfill || cause.isSweep ? 'backfill' : lane;
  const wait = debounceOf(own, moment.usedShare, moment.visibility);
  await addDifference(query, {
    entity: name,
    kind,
    lane: own,
    since: cause.since,
    due: dueAfter(cause.since, cause.latest ?? cause.since, wait),
    maxWait: wait.maxWait,
    weight: isFinished(item) ? 2 : 1,
    // A request for old items is no request for new tasks: the guard counts new tasks whatever brought them.
    confirmed: cause.isBackfill === true && kind !== 'task',
    ...outcome,
    waiting: cause.waiting,
  });
}
