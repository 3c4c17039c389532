import type { Effect } from '../model/change.ts';
import { BURST } from '../model/lane.ts';
import { piecesOf } from '../platform/lib/yield.ts';
import { CHUNK_SIZE } from './in-chunks.ts';
import { readMeta, writeMeta } from './meta.ts';
import { flushRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

/** A creation or a status change on which the guard has not decided yet. */
export interface UndecidedChange {
  readonly entity: string;
  readonly effect: Effect | null;
  readonly item_key: string | null;
  readonly task_id: string | null;
}

/** Returns the undecided creations and status changes, due first. They are few, because each batch decides on all of its own. */
export async function undecidedChanges(query: Scope): Promise<readonly UndecidedChange[]> {
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
    for (const some of piecesOf(rows, CHUNK_SIZE)) {
      const names = some.map(({ entity }) => entity);
      await query.updateTable('outbox').set(set).where('entity', 'in', names).execute();
    }
  };
  await update(changes, { guard: 'live' });
  await update(late, { lane: 'backfill' });
}

/** Has the guard decide on exempt changes that still wait. */
export async function endExemption(query: Scope, names: readonly string[]): Promise<void> {
  for (const some of piecesOf(names, CHUNK_SIZE))
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
