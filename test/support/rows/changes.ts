import { type EntityRow, saveEntity } from '../../../src/store/changes/entities.ts';
import { addDifference, type OutboxRow, updateChange } from '../../../src/store/changes/outbox-rows.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';

/** Epoch milliseconds: when the changes of `waits` came, and when they are due. */
export const CAME = 100;
export const DUE = 200;

/** A change that waits. @param row what is otherwise than with any change */
export async function waits(query: Scope, entity: string, row: Partial<OutboxRow> & Pick<OutboxRow, 'kind'>) {
  const { kind, lane = kind === 'read' ? 'read' : 'link', ...others } = row;
  const wish = { entity, kind, lane, since: CAME, due: DUE, weight: 1, waiting: [] };
  await addDifference(query, wish);
  if (Object.keys(others).length > 0) await updateChange(query, entity, others);
}

export async function differs(query: Scope, row: EntityRow, change: Partial<OutboxRow> = {}): Promise<void> {
  await saveEntity(query, row);
  await waits(query, row.entity, { kind: row.kind, ...change });
}
