import type { Insertable, Selectable } from 'kysely';
import type { Tables } from '../schema/tables.ts';
import { compileInScope, type Scope, type Sql, workspacesWith } from '../workspace-scope.ts';

export type RequestRow = Omit<Selectable<Tables['requests']>, 'workspace'>;

/** Rows stored for each workspace, at most: about the number of requests that the quota allows in a day. */
const MOST_REQUESTS = 20_000;

/** Adds a completed request, in the transaction that settles it. Its id is one more than the last id. */
export const addRequest = compileInScope((query, row: Omit<Insertable<Tables['requests']>, 'id'>) => {
  const nextId = query
    .selectFrom('requests')
    .select(({ fn, eb }) => eb(fn.coalesce(fn.max('id'), eb.lit(0)), '+', 1).as('id'));
  return query.insertInto('requests').values({ ...row, id: nextId as unknown as number });
});

/** Returns the last requests for these items, the newest first. */
export async function requestsOfItems(query: Scope, items: readonly string[], most: number): Promise<RequestRow[]> {
  if (items.length === 0) return [];
  return query
    .selectFrom('requests')
    .selectAll()
    .where('item_key', 'in', items)
    .orderBy('id', 'desc')
    .limit(most)
    .execute();
}

/** Returns those of the workspaces in which `deleteRequests` would find a row. */
export function withOldRequests(query: Sql, workspaces: readonly number[], before: number): Promise<readonly number[]> {
  return workspacesWith(query, workspaces, ({ selectFrom }) => {
    const own = selectFrom('requests').whereRef('requests.workspace', '=', 'workspaces.id');
    const surplus = own.where('requests.id', '<=', ({ selectFrom: from }) =>
      from('requests as last')
        .whereRef('last.workspace', '=', 'workspaces.id')
        .select(({ fn, eb }) => eb(fn.max('last.id'), '-', MOST_REQUESTS).as('id')),
    );
    return [own.where('requests.completed_at', '<', before), surplus];
  });
}

/**
 * Deletes at most `most` requests that were completed before `before`, or that exceed the number of stored rows.
 *
 * @returns how many; 0 if none is left
 */
export async function deleteRequests(query: Scope, before: number, most: number): Promise<number> {
  const old = query.selectFrom('requests').select('id').where('completed_at', '<', before).orderBy('completed_at');
  const surplus = query
    .selectFrom('requests')
    .select('id')
    .where(
      'id',
      '<=',
      query.selectFrom('requests').select(({ fn, eb }) => eb(fn.max('id'), '-', MOST_REQUESTS).as('id')),
    )
    .orderBy('id');
  // A row may be old and surplus.
  const rows = [...(await old.limit(most).execute()), ...(await surplus.limit(most).execute())];
  const ids = [...new Set(rows.map(({ id }) => id))].slice(0, most);
  if (ids.length > 0) await query.deleteFrom('requests').where('id', 'in', ids).execute();
  return ids.length;
}
