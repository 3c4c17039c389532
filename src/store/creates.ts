import { entity } from '../model/change.ts';
import type { ItemKey } from '../model/item.ts';
import { findChanges, type OutboxRow } from './outbox-rows.ts';
import type { Scope } from './workspace-scope.ts';

/** A task list that does not come for so long is waited for no longer, milliseconds. */
const LONGEST_HOLD = 900_000;

/**
 * Tasks that are to be made of these items wait for the next list of tasks: they name one that may have been made by
 * hand, and then need none. They are due no earlier, so that they delay nobody meanwhile.
 *
 * @returns whether there are any
 */
export async function holdCreates(query: Scope, items: readonly ItemKey[], now: number): Promise<boolean> {
  const { numUpdatedRows } = await waitingCreates(query)
    .set({ not_before: now + LONGEST_HOLD, due: now + LONGEST_HOLD })
    .where('entity', 'in', items.map(entity.task))
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** A list has come: tasks that waited since before it was requested wait no longer. */
export async function releaseCreates(query: Scope, sentAt: number): Promise<void> {
  await waitingCreates(query)
    .set(({ ref }) => ({ not_before: 0, due: ref('since') }))
    .where('not_before', '>', 0)
    .where('not_before', '<=', sentAt + LONGEST_HOLD)
    .execute();
}

/** Creates with unknown outcome. */
export async function unknownCreates(query: Scope): Promise<readonly OutboxRow[]> {
  const rows = await query
    .selectFrom('outbox')
    .select('entity')
    .where('kind', '=', 'task')
    .where('state', '=', 'unknown')
    .execute();
  return findChanges(
    query,
    rows.map((row) => row.entity),
  );
}

/** Never tried: those that failed have pauses of their own. */
function waitingCreates(query: Scope) {
  return query
    .updateTable('outbox')
    .where('kind', '=', 'task')
    .where('state', '=', 'pending')
    .where('attempts', '=', 0)
    .where('sent', 'is', null);
}
