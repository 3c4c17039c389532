import { BURST, type Effect, type HeldClass } from '../../model/change.ts';
import { SyncError } from '../../model/errors.ts';
import { chunksOf } from '../../platform/lib/concurrency.ts';
import { readMeta, writeMeta } from '../meta.ts';
import { type Counts, readCounts, sumOf } from '../status/counts.ts';
import { flushRows } from '../unit-of-work/unit-of-work.ts';
import {
  CHUNK_SIZE,
  changedRows,
  changeInChunks,
  changeKeysInChunks,
  countRows,
  type Scope,
  type Store,
} from '../workspace-scope.ts';
import type { OutboxRow } from './outbox-rows.ts';

/** The number of unsettled changes of one effect, without those that a person confirmed or a live webhook caused. */
export interface GuardTally {
  /** Writes on which the guard has not decided yet. */
  readonly fresh: number;
  /** Writes that passed and are not settled, held writes, and reads that lead to such writes. */
  readonly ahead: number;
}

/** Counts the changes of each effect for the mass-change guard. Changes that the workspace refused do not count. */
export async function guardTally(query: Scope): Promise<Record<Effect, GuardTally>> {
  const { changes } = await readCounts(query);
  const isRefused = ({ state, guard }: ChangeCount) => state === 'held' && guard !== 'held';
  const isExempt = ({ guard }: ChangeCount) => guard === 'confirmed' || guard === 'live';
  const waiting = changes.filter((each) => !isExempt(each) && !isRefused(each));
  const isFresh = ({ state, guard, kind }: ChangeCount) => state === 'pending' && guard === null && kind !== 'read';
  const tally = (effect: Effect): GuardTally => {
    const own = waiting.filter((each) => each.effect === effect);
    const fresh = sumOf(own, isFresh);
    return { fresh, ahead: sumOf(own) - fresh };
  };
  return Object.fromEntries(Object.values(EFFECT_OF).map((effect) => [effect, tally(effect)])) as Record<
    Effect,
    GuardTally
  >;
}

type ChangeCount = Counts['changes'][number];

/** Decides on the undecided writes of an effect: holds the latest `hold` of them, and passes the others. */
export async function applyGuard(query: Scope, effect: Effect, hold: number, error: string): Promise<void> {
  const fresh = query
    .selectFrom('outbox')
    .select('entity')
    .where('effect', '=', effect)
    .where('state', '=', 'pending')
    .where('guard', 'is', null)
    .where('kind', '!=', 'read');
  const latest = fresh.orderBy('due', 'desc').orderBy('entity', 'desc').limit(hold);
  const held = { state: 'held', guard: 'held', error } as const;
  if (hold > 0) await query.updateTable('outbox').set(held).where('entity', 'in', latest).execute();
  await query.updateTable('outbox').set({ guard: 'passed' }).where('entity', 'in', fresh).execute();
}

const EFFECT_OF = { removals: 'removal', creations: 'creation', repairs: 'repair', statuses: 'status' } as const;

type HeldChange = Pick<OutboxRow, 'entity' | 'since' | 'error'>;

export type HeldChanges = Readonly<
  Record<HeldClass, { readonly count: number; readonly samples: readonly HeldChange[] }>
>;

/** Returns the held changes by class: their number, and those that have waited longest. */
export async function heldChanges(query: Scope, samples: number): Promise<HeldChanges> {
  const read = async (heldClass: HeldClass) => {
    const held = heldOf(query, heldClass);
    const first = held.select(['entity', 'since', 'error']).orderBy('due').orderBy('entity').limit(samples);
    return { count: await countRows(held), samples: await first.execute() };
  };
  return {
    removals: await read('removals'),
    creations: await read('creations'),
    repairs: await read('repairs'),
    statuses: await read('statuses'),
    refused: await read('refused'),
  };
}

function heldOf(query: Scope, heldClass: HeldClass) {
  const held = query.selectFrom('outbox').where('state', '=', 'held');
  if (heldClass === 'refused')
    return held.where(({ or, eb }) => or([eb('guard', 'is', null), eb('guard', '!=', 'held')]));
  return held.where('guard', '=', 'held').where('effect', '=', EFFECT_OF[heldClass]);
}

function entitiesOfHeld(query: Scope, heldClass: HeldClass, most: number) {
  return heldOf(query, heldClass).select('entity').limit(most);
}

/**
 * Releases the held changes of these classes, and those of these entities.
 *
 * @returns how many; throws `not_found` and releases nothing if a named entity has no held change
 */
export async function releaseHeld(
  store: Pick<Store, 'query' | 'commit'>,
  { classes = [], entities = [] }: { readonly classes?: readonly HeldClass[]; readonly entities?: readonly string[] },
): Promise<number> {
  await assertHeld(store, entities);
  let released = 0;
  for (const heldClass of classes)
    released += await changeInChunks(store, (query, most) => release(query, entitiesOfHeld(query, heldClass, most)));
  return released + (await changeKeysInChunks(store, entities, release));
}

/** Throws `not_found` if one of these entities has no held change. */
async function assertHeld({ query }: Pick<Store, 'query'>, entities: readonly string[]): Promise<void> {
  const held = new Set<string>();
  for (const some of chunksOf(entities, CHUNK_SIZE)) {
    const named = query.selectFrom('outbox').select('entity').where('state', '=', 'held').where('entity', 'in', some);
    for (const { entity } of await named.execute()) held.add(entity);
  }
  const unheld = entities.filter((entity) => !held.has(entity));
  const [first] = unheld;
  if (first === undefined) return;
  const more = unheld.length > 1 ? `, and ${unheld.length - 1} more of those named` : '';
  const hint = 'Name the item of the change, as "worksync held" shows it. Nothing was released.';
  throw new SyncError('not_found', `no change of ${first} is held${more}`, { hint });
}

async function release(query: Scope, entities: readonly string[] | ReturnType<typeof entitiesOfHeld>): Promise<number> {
  const anew = { state: 'pending', guard: 'confirmed', error: null, attempts: 0, not_before: 0, awaits: null } as const;
  const released = query.updateTable('outbox').set(({ eb }) => ({
    ...anew,
    // By releasing a creation with unknown outcome, a person states that it was not carried out.
    sent: eb.case().when('kind', '=', 'task').then(null).else(eb.ref('sent')).end(),
  }));
  return changedRows(released.where('state', '=', 'held').where('entity', 'in', entities));
}

export type UndecidedChange = Awaited<ReturnType<typeof undecidedChanges>>[number];

/**
 * Returns the creations and status changes on which the guard has not decided yet, due first. They are few, because each batch
 * decides on all of its own.
 */
export async function undecidedChanges(query: Scope) {
  return query
    .selectJoined(['outbox', 'entity'], ['entities', 'entity'])
    .select(['outbox.entity', 'outbox.effect', 'entities.item_key', 'entities.task_id'])
    .where('outbox.effect', 'in', ['creation', 'status'])
    .where('outbox.state', '=', 'pending')
    .where('outbox.guard', 'is', null)
    .where('outbox.kind', '!=', 'read')
    .orderBy('outbox.due')
    .orderBy('outbox.entity')
    .execute();
}

/** Exempts the changes of live webhooks from the guard. @param late those of them that move to the lane of backfills */
export async function passLive(
  query: Scope,
  changes: readonly Pick<UndecidedChange, 'entity'>[],
  late: readonly Pick<UndecidedChange, 'entity'>[],
): Promise<void> {
  const update = async (rows: typeof changes, set: { readonly guard: 'live' } | { readonly lane: 'backfill' }) => {
    for (const some of chunksOf(rows, CHUNK_SIZE)) {
      const names = some.map(({ entity }) => entity);
      await query.updateTable('outbox').set(set).where('entity', 'in', names).execute();
    }
  };
  await update(changes, { guard: 'live' });
  await update(late, { lane: 'backfill' });
}

/** Has the guard decide on exempt changes that still wait. */
export async function endExemption(query: Scope, names: readonly string[]): Promise<void> {
  for (const some of chunksOf(names, CHUNK_SIZE))
    await query
      .updateTable('outbox')
      .set({ guard: null })
      .where('entity', 'in', some)
      .where('guard', '=', 'live')
      .where('state', '=', 'pending')
      .execute();
}

/** Prefix of the facts that count the creations of a connection in the live lanes. */
const CREATIONS = 'creations.live.';

/** Numbers of creations by the second in which they were added, the oldest first. */
type CreationTimes = readonly (readonly [second: number, count: number])[];

/** Counts creations of a connection in the live lanes. Returns how many of them are within the limit of `BURST`. */
export async function countCreations(
  query: Scope,
  { connection, wanted, now }: { readonly connection: string; readonly wanted: number; readonly now: number },
): Promise<number> {
  const second = Math.floor(now / 1_000);
  const stored = JSON.parse((await readMeta(query, CREATIONS + connection)) ?? '[]') as CreationTimes;
  // Times in the future are from before the clock was set back.
  const recent = stored.filter(([at]) => at > second - BURST.seconds && at <= second);
  const used = recent.reduce((sum, [, count]) => sum + count, 0);
  const counted = Math.min(wanted, Math.max(0, BURST.creations - used));
  if (counted === 0) return 0;
  const others = recent.filter(([at]) => at !== second);
  const own = counted + recent.reduce((sum, [at, count]) => (at === second ? sum + count : sum), 0);
  await writeMeta(query, CREATIONS + connection, JSON.stringify([...others, [second, own]]));
  await flushRows(query);
  return counted;
}
