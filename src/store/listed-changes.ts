import type { ChangeState } from '../model/change.ts';
import { findChanges, type OutboxRow, saveChange } from './outbox-rows.ts';
import { rowsWhere } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

/** Those of a state, due first. */
export async function changesIn(query: Scope, state: ChangeState, limit: number): Promise<readonly OutboxRow[]> {
  const due = query.selectFrom('outbox').select('entity').where('state', '=', state);
  const names = await due.orderBy('due').orderBy('entity').limit(limit).execute();
  const rows = await findChanges(
    query,
    names.map(({ entity }) => entity),
  );
  return rows.toSorted((a, b) => a.due - b.due || (a.entity < b.entity ? -1 : 1));
}

/** What waits to be written of these items: records, links, tasks and documents. */
export async function changesOfItems(query: Scope, keys: readonly string[]): Promise<readonly OutboxRow[]> {
  const entities = await rowsWhere(query, 'entities', 'item_key', keys);
  return findChanges(
    query,
    entities.map(({ entity }) => entity),
  );
}

/** Tries it again without the pause after its failures; a held one whatever the limits say. */
export async function retryChange(query: Scope, row: OutboxRow): Promise<void> {
  const anew = { ...row, error: null, attempts: 0, not_before: 0 };
  await saveChange(query, row.state === 'held' ? { ...anew, state: 'pending', guard: 'confirmed' } : anew);
}
