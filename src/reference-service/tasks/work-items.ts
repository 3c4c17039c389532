import { ROUTES } from '../../workspace-api/contract.ts';
import type { Caller } from '../access/caller-rights.ts';
import { notFound } from '../http/api-error.ts';
import { type Call, Existing, type Service } from '../http/call.ts';
import { findRow, newId, type Row, shownBy, timeNow } from '../storage/rows.ts';
import type { Write } from '../storage/transactions.ts';

type WorkItemRow = Omit<Row<'work_items'>, 'copy'>;

export const workItemHandlers = { listWorkItems, addWorkItem, removeWorkItem };

const workItemOf = shownBy(ROUTES.addWorkItem);

async function listWorkItems(service: Service, { workspaceId, ids }: Call<'listWorkItems'>) {
  await findRow(service.database.query, 'task', workspaceId, ids.taskId);
  const rows = await service.database.query
    .selectFrom('work_items')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('task_id', '=', ids.taskId)
    .orderBy('seq', 'desc')
    .execute();
  return { workItems: rows.map(workItemOf) };
}

/**
 * Idempotent by address: a second link with the same address returns the first, unchanged (W39). The literal service
 * adds another link, with the next `copy` number.
 */
async function addWorkItem(service: Service, { workspaceId, ids, body, caller }: Call<'addWorkItem'>) {
  const row: WorkItemRow = {
    work_item_id: newId(service.random, 'wi'),
    workspace_id: workspaceId,
    task_id: ids.taskId,
    url: body.url,
    title: body.title ?? null,
    external_id: body.externalId ?? null,
    provider: body.provider ?? null,
    created_at: timeNow(service.clock),
  };
  return service.commits.run(async (write) => {
    await findRow(write, 'task', workspaceId, ids.taskId);
    const existing = await write
      .selectFrom('work_items')
      .selectAll()
      .where('workspace_id', '=', workspaceId)
      .where('task_id', '=', ids.taskId)
      .where('url', '=', body.url)
      .orderBy('copy', 'desc')
      .executeTakeFirst();
    if (existing && !service.variant.isLiteral) return new Existing(workItemOf(existing));
    const copy = existing ? existing.copy + 1 : 0;
    await write
      .insertInto('work_items')
      .values({ ...row, copy })
      .execute();
    await recordWorkItem(service, write, caller, 'work_item.created', row);
    return workItemOf(row);
  });
}

function recordWorkItem(
  service: Service,
  write: Write,
  caller: Caller,
  type: 'work_item.created' | 'work_item.deleted',
  row: WorkItemRow,
): Promise<void> {
  const { workspace_id: workspaceId, work_item_id: id, task_id: taskId } = row;
  return service.events.record(write, { type, workspaceId, caller, resource: { id, taskId }, body: workItemOf(row) });
}

async function removeWorkItem(
  service: Service,
  { workspaceId, ids, caller }: Call<'removeWorkItem'>,
): Promise<undefined> {
  await service.commits.run(async (write) => {
    const removed = await write
      .deleteFrom('work_items')
      .where('workspace_id', '=', workspaceId)
      .where('task_id', '=', ids.taskId)
      .where('work_item_id', '=', ids.workItemId)
      .returningAll()
      .executeTakeFirst();
    if (removed === undefined) throw notFound('work item');
    await recordWorkItem(service, write, caller, 'work_item.deleted', removed);
  });
}
