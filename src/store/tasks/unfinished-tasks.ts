import { dialectOf } from '../../platform/database/dialect.ts';
import type { ByWorkspace } from '../by-workspace.ts';
import { reasonUnfinished } from '../schema/column-expressions.ts';
import type { Scope, Sql } from '../workspace-scope.ts';

/** Numbers of unfinished tasks whose work was merged, by the reason: `{ "not-closing": 8, "base": 4 }`. */
export type UnfinishedTasks = Readonly<Record<string, number>>;

/** Counts the unfinished tasks whose work was merged and that are cached. Reads the index, and nothing of other tasks. */
export async function unfinishedTasksOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<ByWorkspace<UnfinishedTasks>> {
  const reason = reasonUnfinished(dialectOf(query));
  const rows = await query
    .selectFrom('entities')
    .select(['workspace', reason.as('reason')])
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('workspace', 'in', workspaces)
    .where(reason, 'is not', null)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('tasks')
          .select('tasks.task_id')
          .whereRef('tasks.workspace', '=', 'entities.workspace')
          .whereRef('tasks.task_id', '=', 'entities.task_id'),
      ),
    )
    .groupBy(['workspace', reason])
    .execute();
  const byWorkspace = Map.groupBy(rows, ({ workspace }) => workspace);
  return (workspace) =>
    Object.fromEntries((byWorkspace.get(workspace) ?? []).map(({ reason: why, count }) => [why, Number(count)]));
}

/** Returns some of the unfinished tasks whose work was merged, with the reason. */
export async function listUnfinishedTasks(
  query: Scope,
  limit: number,
): Promise<readonly { readonly taskId: string; readonly reason: string }[]> {
  const reason = reasonUnfinished(dialectOf(query.whole));
  const rows = await query
    .selectFrom('entities')
    .select(['task_id', reason.as('reason')])
    .where(reason, 'is not', null)
    .orderBy(reason)
    .limit(limit)
    .execute();
  return rows.flatMap(({ task_id, reason: why }) =>
    task_id === null || why === null ? [] : [{ taskId: task_id, reason: why }],
  );
}
