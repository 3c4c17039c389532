import type { Query } from './database.ts';

/** Name of a fact: the workspace's id, as it told the daemon's key. */
export const WORKSPACE_ID = 'workspace_id';

/** A single fact by its name, or undefined where it was never written. */
export async function readMeta(query: Query, name: string): Promise<string | undefined> {
  const row = await query.selectFrom('meta').select('value').where('name', '=', name).executeTakeFirst();
  return row?.value;
}

/** Writes a single fact over the one before. */
export async function writeMeta(query: Query, name: string, value: string): Promise<void> {
  await query
    .insertInto('meta')
    .values({ name, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}
