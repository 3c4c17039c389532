// Design: src/decisions/guard.md

import { debounceOf, dueAfter, EFFECTS, type Effect, type EntityKind, type Lane } from '../../model/change.ts';
import { type Item, type ItemKey, isFinished } from '../../model/item.ts';
import {
  applyGuard,
  countCreations,
  endExemption,
  type GuardTally,
  guardTally,
  passLive,
  type UndecidedChange,
  undecidedChanges,
} from '../../store/changes/held-changes.ts';
import { addDifference, dropDifference } from '../../store/changes/outbox-rows.ts';
import { isLiveAt, originsOf, type Webhook } from '../../store/deliveries/inbox.ts';
import { findItems, type ItemRow, readDeliveries, readFields } from '../../store/items/items.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { BatchContext, Evaluation, GuardLimits, LiveStatuses } from './context.ts';

/** The lanes of changes that neither a backfill nor a sweep caused. */
const LANES: Readonly<Record<EntityKind, Lane>> = {
  pull_request: 'mirror',
  link: 'link',
  document: 'link',
  read: 'link',
  task: 'triage',
  task_update: 'status',
};

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
  kind: EntityKind,
  name: string,
  { differs, ...details }: ChangeDetails & { readonly differs: boolean },
): Promise<void> {
  if (!differs) return dropDifference(evaluation.query, name);
  await enqueueChange(evaluation, kind, name, details);
}

/** The part of an evaluation that a change needs. `item` is absent if no item caused it. */
type ChangeCause = Pick<Evaluation, 'query' | 'cause' | 'usedShare' | 'visibility'> & {
  readonly item: Item | undefined;
};

/** Writes a change to the outbox, due after the debounce of its lane. */
export async function enqueueChange(
  { query, item, cause, usedShare, visibility }: ChangeCause,
  kind: EntityKind,
  name: string,
  details: ChangeDetails,
): Promise<void> {
  const lane = cause.isBackfill || cause.isSweep ? 'backfill' : LANES[kind];
  const debounce = debounceOf(lane, usedShare, visibility);
  await addDifference(query, {
    entity: name,
    kind,
    lane,
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

const GUARD_TEXTS: Readonly<Record<Effect, readonly [what: string, key: keyof GuardLimits]>> = {
  removal: ['removals or closings', 'removals'],
  creation: ['creations', 'creations'],
  repair: ['repairs', 'repairs'],
  status: ['status changes', 'statuses'],
};

/**
 * Holds the changes above the limits, the latest first. Counts the changes that wait together in the transaction that
 * adds to them, so that no surplus change can be sent first. Returns the limits that were exceeded just now, and how
 * many changes are held because of each.
 */
export async function guardChanges(query: Scope, limits: GuardLimits) {
  const tallies = await guardTally(query);
  const exceeded: { effect: Effect; held: number; reason: string }[] = [];
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
function surplusOf(limit: number, { fresh, ahead }: GuardTally): number {
  return Math.max(0, Math.min(fresh, fresh + ahead - limit));
}

/** The reasons for the evaluations of a batch. */
export interface EvaluationCauses {
  /** The live webhooks that caused evaluations, by item and by task. */
  readonly webhooks: ReadonlyMap<ItemKey, Webhook>;
  readonly webhooksOfTasks: ReadonlyMap<string, Webhook>;
  /** When the answers were wanted that caused evaluations of tasks, epoch milliseconds. */
  readonly answeredTasks: ReadonlyMap<string, number>;
}

/**
 * Exempts the new changes that live webhooks caused from the limits of the guard. The guard still decides on removals, on
 * creations by authors who are not trusted, and on the status changes of a delivery that causes too many.
 *
 * Must run before the guard decides. Returns how many new creations of each connection are sent after all other changes,
 * because it has too many at once.
 */
export async function passLiveChanges(
  query: Scope,
  causes: EvaluationCauses,
  guard: GuardLimits,
  { now, rules, liveStatuses }: BatchContext,
): Promise<readonly { connection: string; changes: number }[]> {
  if (causes.webhooks.size + causes.answeredTasks.size === 0) return [];
  const changes = await undecidedChanges(query);
  if (changes.length === 0) return [];
  const rows = await findItems(query, [...new Set(changes.flatMap(({ item_key }) => item_key ?? []))]);
  const items = new Map(rows.map((row) => [row.key, row]));
  const ofDeliveries = await statusesByDelivery(query, changes, { causes, items });
  const statuses = await withinLimit(query, ofDeliveries, liveStatuses, guard.statuses);
  const bursts: { connection: string; changes: number }[] = [];
  const late: UndecidedChange[] = [];
  const creations = changes.filter(({ effect, item_key }) => {
    const row = item_key !== null && causes.webhooks.has(item_key) ? items.get(item_key) : undefined;
    return effect === 'creation' && row && rules.isTrusted(readFields(row).item, row.connection);
  });
  const byConnection = Map.groupBy(creations, ({ item_key }) => items.get(item_key as ItemKey)?.connection as string);
  for (const [connection, own] of byConnection) {
    const above = own.slice(await countCreations(query, { connection, wanted: own.length, now }));
    if (above.length > 0) bursts.push({ connection, changes: above.length });
    late.push(...above);
  }
  await passLive(query, [...creations, ...statuses], late);
  return bursts;
}

/** Number of deliveries whose status changes are remembered. */
const MAX_DELIVERIES = 200;

/**
 * Returns the status changes of deliveries that caused no more than the limit, in this batch and in earlier ones of this process: the
 * items of one delivery, its fetches and its answers may come in several batches. Once a delivery exceeds the limit, its earlier
 * changes that still wait are no longer exempt.
 */
async function withinLimit(
  query: Scope,
  byDelivery: ReadonlyMap<number, readonly UndecidedChange[]>,
  liveStatuses: LiveStatuses,
  limit: number,
): Promise<readonly UndecidedChange[]> {
  const exempt: UndecidedChange[] = [];
  for (const [delivery, changes] of byDelivery) {
    const earlier = liveStatuses.get(delivery) ?? new Set();
    const all = new Set([...earlier, ...changes.map(({ entity }) => entity)]);
    liveStatuses.delete(delivery);
    liveStatuses.set(delivery, all);
    if (all.size <= limit) exempt.push(...changes);
    else await endExemption(query, [...earlier]);
    if (liveStatuses.size > MAX_DELIVERIES) liveStatuses.delete([...liveStatuses.keys()][0] as number);
  }
  return exempt;
}

/** Returns the status changes that live webhooks caused, by delivery. */
async function statusesByDelivery(
  query: Scope,
  changes: readonly UndecidedChange[],
  { causes, items }: { readonly causes: EvaluationCauses; readonly items: ReadonlyMap<ItemKey, ItemRow> },
): Promise<ReadonlyMap<number, readonly UndecidedChange[]>> {
  const { webhooksOfTasks, answeredTasks } = causes;
  const statuses = changes.filter(({ effect }) => effect === 'status');
  const wantedAt = new Map<ItemKey, number>();
  for (const { task_id, item_key } of statuses) {
    const time = webhooksOfTasks.has(task_id ?? '') ? undefined : answeredTasks.get(task_id ?? '');
    if (item_key !== null && time !== undefined) wantedAt.set(item_key, Math.min(time, wantedAt.get(item_key) ?? time));
  }
  const deciders = [...wantedAt.keys()].flatMap((key) => items.get(key) ?? []);
  const ofDeciders = await webhooksOfItems(query, deciders, wantedAt);
  const byDelivery = Map.groupBy(statuses, ({ task_id, item_key }) => {
    return (webhooksOfTasks.get(task_id ?? '') ?? ofDeciders.get(item_key ?? ''))?.delivery;
  });
  byDelivery.delete(undefined);
  return byDelivery as ReadonlyMap<number, readonly UndecidedChange[]>;
}

/**
 * Returns the webhooks that brought the present content of these items, if they were live when an answer was wanted.
 *
 * @param wantedAt when the answer was wanted, by item, epoch milliseconds. The answer may come much later, for example after
 * an outage of the workspace.
 */
export async function webhooksOfItems(
  query: Scope,
  rows: readonly ItemRow[],
  wantedAt: ReadonlyMap<ItemKey, number | undefined>,
): Promise<ReadonlyMap<ItemKey, Webhook>> {
  const answered = rows.filter(({ key }) => wantedAt.get(key) !== undefined);
  const lastDelivery = (row: ItemRow) => readDeliveries(row).at(-1) ?? 0;
  const origins = await originsOf(query, [...new Set(answered.map(lastDelivery))]);
  const webhooks = new Map<ItemKey, Webhook>();
  for (const row of answered) {
    const webhook = origins.get(lastDelivery(row))?.webhook;
    if (webhook && isLiveAt(webhook, wantedAt.get(row.key) as number)) webhooks.set(row.key, webhook);
  }
  return webhooks;
}
