import type { Scope } from '../../../src/store/workspace-scope.ts';

export async function allTaskKeys(query: Scope): Promise<Map<string, string>> {
  const rows = await query.selectFrom('tasks').select(['task_id', 'key']).execute();
  return new Map(rows.map((row) => [row.task_id, row.key]));
}
