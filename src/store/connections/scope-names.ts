import type { Scope } from '../workspace-scope.ts';

/** The vendor's object that a name in a connection's configuration refers to; see `model/names.ts`. */
export interface StoredName {
  readonly entry: string;
  readonly id: string;
  readonly called: string;
  readonly elsewhere: string | null;
  /** When the vendor was last asked for the object; null if it is known from deliveries only. */
  readonly askedAt: number | null;
}

/**
 * Returns the stored names of the configured entries, and deletes all others. A name that was removed from the configuration and
 * is added again is bound to the object that has the name then.
 */
export async function loadNames(
  query: Scope,
  connection: string,
  entries: readonly string[],
): Promise<readonly StoredName[]> {
  const others = query.deleteFrom('scope_names').where('connection', '=', connection);
  await others.where('entry', 'not in', ['', ...entries]).execute();
  const names = query.selectFrom('scope_names').select(['entry', 'id', 'called', 'elsewhere', 'asked_at as askedAt']);
  return names.where('connection', '=', connection).execute();
}

export async function saveName(query: Scope, connection: string, name: StoredName): Promise<void> {
  const { entry, askedAt, ...rest } = name;
  const row = { ...rest, asked_at: askedAt };
  await query
    .insertInto('scope_names')
    .values({ connection, entry, ...row })
    .onConflict((conflict) => conflict.columns(['workspace', 'connection', 'entry']).doUpdateSet(row))
    .execute();
}

/**
 * Restarts units whose names now refer to other objects: their polls and sweeps begin again, and their unfinished backfills end with
 * this reason.
 */
export async function restartUnits(
  query: Scope,
  connection: string,
  units: readonly string[],
  { now, reason }: { readonly now: number; readonly reason: string },
): Promise<void> {
  if (units.length === 0) return;
  await query.deleteFrom('polls').where('connection', '=', connection).where('unit', 'in', units).execute();
  await query.deleteFrom('sweeps').where('connection', '=', connection).where('unit', 'in', units).execute();
  await query
    .updateTable('backfills')
    .set({ finished_at: now, error: reason })
    .where('connection', '=', connection)
    .where('unit', 'in', units)
    .where('finished_at', 'is', null)
    .execute();
}

/** Returns the units of a connection that have rows of polls, sweeps or backfills. */
export async function storedUnits(query: Scope, connection: string): Promise<readonly string[]> {
  const rows = await Promise.all(
    (['polls', 'sweeps', 'backfills'] as const).map((table) =>
      query.selectFrom(table).select('unit').where('connection', '=', connection).execute(),
    ),
  );
  return [...new Set(rows.flat().map(({ unit }) => unit))];
}
