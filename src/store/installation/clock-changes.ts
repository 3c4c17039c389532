import { clampKnownTimes } from '../changes/entities.ts';
import { clampChangeTimes } from '../changes/next-change.ts';
import { clampUnverifiedSince } from '../tasks/task-creations.ts';
import type { Scope, Sql } from '../workspace-scope.ts';
import type { Installation } from './installation.ts';

/**
 * Replaces times in the future by now. They come from a clock that has since been set back. Otherwise changes would wait until the
 * old time comes again, and known states would count as newer than everything that is read until then.
 */
export async function clampFutureTimestamps(query: Scope, now: number): Promise<void> {
  await clampChangeTimes(query, now);
  await clampKnownTimes(query, now);
  await clampUnverifiedSince(query, now);
}

/**
 * The name of the fact that counts how often the clock of the database server was set. Times of different eras cannot be compared.
 */
const ERA = 'clock.era';

export async function readClockEra(query: Sql): Promise<number> {
  const row = await query.selectFrom('installation').select('value').where('name', '=', ERA).executeTakeFirst();
  return Number(row?.value ?? 0);
}

/** Begins a new era. Each process that detects the change does this; counting one change twice is harmless. */
export async function bumpClockEra({ commit }: Pick<Installation, 'commit'>): Promise<void> {
  await commit(async (transaction) => {
    const value = String((await readClockEra(transaction)) + 1);
    await transaction
      .insertInto('installation')
      .values({ name: ERA, value })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
      .execute();
  });
}
