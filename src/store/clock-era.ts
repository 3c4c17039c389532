import type { Installation } from './installation.ts';
import type { Sql } from './workspace-scope.ts';

/** Name of the fact that counts how often the clock of the database was set. Times from before tell nothing of times after it. */
const ERA = 'clock.era';

export async function readClockEra(query: Sql): Promise<number> {
  const row = await query.selectFrom('installation').select('value').where('name', '=', ERA).executeTakeFirst();
  return Number(row?.value ?? 0);
}

/** Each process that detects it counts: more is no harm. */
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
