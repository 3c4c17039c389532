import type { Scope } from './workspace-scope.ts';

/** What a name of a connection's configuration leads to, as `model/names.ts` says it. */
export interface StoredName {
  readonly entry: string;
  readonly id: string;
  readonly called: string;
  readonly elsewhere: string | null;
  /** When the vendor was last asked for it; null: it is known from deliveries only. */
  readonly askedAt: number | null;
}

/**
 * What is known of the names that are configured. A name that was taken out of the configuration is forgotten: put back, it
 * is bound to what it leads to then.
 */
export async function loadNames(
  query: Scope,
  connection: string,
  entries: readonly string[],
): Promise<readonly StoredName[]> {
  await query
    .deleteFrom('scope_names')
    .where('connection', '=', connection)
    .where('entry', 'not in', ['', ...entries])
    .execute();
  return query
    .selectFrom('scope_names')
    .select(['entry', 'id', 'called', 'elsewhere', 'asked_at as askedAt'])
    .where('connection', '=', connection)
    .execute();
}

export async function saveName(
  query: Scope,
  connection: string,
  { entry, askedAt, ...rest }: StoredName,
): Promise<void> {
  const row = { ...rest, asked_at: askedAt };
  await query
    .insertInto('scope_names')
    .values({ connection, entry, ...row })
    .onConflict((conflict) => conflict.columns(['workspace', 'connection', 'entry']).doUpdateSet(row))
    .execute();
}

/**
 * Rows read under these names belong to other things from now on: polls and sweeps of these units begin again, and
 * unfinished backfills of them end.
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

/** Every unit of a connection of which something is kept. */
export async function storedUnits(query: Scope, connection: string): Promise<readonly string[]> {
  const kept = await Promise.all(
    (['polls', 'sweeps', 'backfills'] as const).map((table) =>
      query.selectFrom(table).select('unit').where('connection', '=', connection).execute(),
    ),
  );
  return [...new Set(kept.flat().map(({ unit }) => unit))];
}
