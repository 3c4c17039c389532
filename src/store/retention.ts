import type { Scope } from './scope.ts';

/**
 * Empties the bodies of deliveries that were settled before `before`, at most `most` of them; returns how many.
 * Pending bodies are still to be read, and quarantined ones wait for a person: both stay.
 */
export async function purgeBodies(query: Scope, before: number, most: number): Promise<number> {
  const { numUpdatedRows } = await query
    .updateTable('inbox')
    .set({ body: null, unpacked_length: null })
    .where(
      'id',
      'in',
      query
        .selectFrom('inbox')
        .select('id')
        // Word for word the condition of the index `inbox_bodies`, which would not serve otherwise.
        .where('settled_at', 'is not', null)
        .where('body', 'is not', null)
        .where('settled_at', '<', before)
        .where('state', 'in', ['applied', 'superseded', 'ignored'])
        .orderBy('settled_at')
        .limit(most),
    )
    .executeTakeFirst();
  return Number(numUpdatedRows);
}

/** Deletes deliveries received before `before` that are no longer pending, at most `most`; returns how many. */
export async function deleteDeliveries(query: Scope, before: number, most: number): Promise<number> {
  const { numDeletedRows } = await query
    .deleteFrom('inbox')
    .where(
      'id',
      'in',
      query
        .selectFrom('inbox')
        .select('id')
        .where('received_at', '<', before)
        .where('state', '!=', 'pending')
        .orderBy('received_at')
        .limit(most),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}
