import { type CheckedBody, ROUTES, type Routes } from '../../workspace-api/contract.ts';
import type { Caller } from '../access/caller-rights.ts';
import { ApiError, etagOf, invalid, isChanged, notFound } from '../http/api-error.ts';
import { type Call, Existing, type Service } from '../http/call.ts';
import { isFinished, requireStatus, type Variant, withoutKey } from '../http/variant.ts';
import { findRow, newId, prepared, type Row, readPage, shownBy, timeNow, writeStrings } from '../storage/rows.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import type { Write } from '../storage/transactions.ts';

type TaskRow = Row<'tasks'>;
type NewTask = CheckedBody<Routes['createBug']>;
type TaskUpdate = CheckedBody<Routes['updateTask']>;

const KINDS = { bug: { prefix: 'BUG', status: 'open' }, idea: { prefix: 'IDEA', status: 'idea' } } as const;

export const taskHandlers = {
  listTasks,
  getTask: async (service: Service, { workspaceId, ids }: Call<'getTask'>) =>
    taskOf(await findRow(service.database.query, 'task', workspaceId, ids.taskId), service.variant),
  updateTask,
  createBug: (service: Service, call: Call<'createBug'>) => createTask(service, call, 'bug'),
  createIdea: (service: Service, call: Call<'createIdea'>) => createTask(service, call, 'idea'),
};

const shown = shownBy(ROUTES.getTask);

function taskOf(row: TaskRow, variant: Variant) {
  return withoutKey(variant, shown(row));
}

/** `all=true` gives every status in one answer; otherwise open work, unless `status` names what is wanted (W36). */
async function listTasks(service: Service, { workspaceId, query }: Call<'listTasks'>) {
  let rows = service.database.query.selectFrom('tasks').selectAll().where('workspace_id', '=', workspaceId);
  for (const status of query.status ?? []) requireStatus(service.variant, status);
  if (query.status) rows = rows.where('status', 'in', query.status);
  else if (!query.all) rows = rows.where('open', '=', 1);
  if (query.kind) rows = rows.where('kind', 'in', query.kind);
  for (const [kind, id] of [
    ['team', query.teamId],
    ['assignee', query.assigneeId],
  ] as const) {
    if (id === undefined) continue;
    rows = rows.where('seq', 'in', (refs) =>
      refs
        .selectFrom('task_refs')
        .select('task_seq')
        .where('task_refs.workspace_id', '=', workspaceId)
        .where('task_refs.kind', '=', kind)
        .where('ref_id', '=', id),
    );
  }
  const show = (row: TaskRow) => taskOf(row, service.variant);
  if (query.all) return { tasks: (await rows.orderBy('seq', 'desc').execute()).map(show), nextCursor: null };
  const { given, nextCursor } = await readPage(rows, query);
  return { tasks: given.map(show), nextCursor };
}

const insertRow = prepared((write, row: TaskRow) => write.insertInto('tasks').values(row));

const countUp = prepared(
  (write, row: ServiceTables['counters']) =>
    write
      .insertInto('counters')
      .values(row)
      .onConflict((conflict) =>
        conflict
          .columns(['workspace_id', 'prefix'])
          .doUpdateSet((update) => ({ value: update('counters.value', '+', 1) })),
      )
      .returning('value'),
  [1],
);

async function createTask(service: Service, call: Call<'createBug' | 'createIdea'>, kind: keyof typeof KINDS) {
  const { prefix } = KINDS[kind];
  const unnumbered = newRow(service, call, kind);
  const row = await service.commits.run(async (write) => {
    await checkReferences(write, call.workspaceId, call.body);
    const { rows } = await countUp(write, { workspace_id: call.workspaceId, prefix, value: 1 });
    const numbered: TaskRow = { ...unnumbered, key: `${prefix}-${rows[0]!.value}` };
    const { insertId } = await insertRow(write, numbered);
    await insertRefs(write, call.workspaceId, Number(insertId), call.body);
    await recordTask(service, write, call, 'task.created', numbered);
    return numbered;
  });
  return taskOf(row, service.variant);
}

function newRow(service: Service, call: Call<'createBug'>, kind: keyof typeof KINDS): Omit<TaskRow, 'key'> {
  const { body, caller } = call;
  const now = timeNow(service.clock);
  return {
    task_id: newId(service.random, 'tsk'),
    workspace_id: call.workspaceId,
    kind,
    title: body.title,
    description: body.description ?? null,
    status: KINDS[kind].status,
    open: 1,
    priority: body.priority ?? 'none',
    source: body.source ?? 'api',
    reporter_user_id: body.reporterUserId ?? caller.userId,
    reported_at: body.reportedAt ?? now,
    team_ids: writeStrings(body.teamIds),
    assignee_ids: writeStrings(body.assigneeIds),
    labels: writeStrings(body.labels),
    user_id: caller.userId,
    created_at: now,
    updated_at: now,
    completed_at: null,
  };
}

async function insertRefs(
  write: Write,
  workspaceId: string,
  taskSeq: number,
  refs: Pick<NewTask, 'teamIds' | 'assigneeIds'>,
): Promise<void> {
  const row = (kind: 'team' | 'assignee') => (id: string) => ({
    workspace_id: workspaceId,
    kind,
    ref_id: id,
    task_seq: taskSeq,
  });
  const rows = [...(refs.teamIds ?? []).map(row('team')), ...(refs.assigneeIds ?? []).map(row('assignee'))];
  if (rows.length === 0) return;
  await write
    .insertInto('task_refs')
    .values(rows)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Unknown users and teams are refused (W35). */
async function checkReferences(
  write: Write,
  workspaceId: string,
  refs: Pick<NewTask, 'reporterUserId' | 'teamIds' | 'assigneeIds'>,
): Promise<void> {
  const users = [...new Set([refs.reporterUserId ?? [], refs.assigneeIds ?? []].flat())];
  await refuseUnknown(write, workspaceId, ['members', 'user'], users);
  await refuseUnknown(write, workspaceId, ['teams', 'team'], [...new Set(refs.teamIds)]);
}

async function refuseUnknown(
  write: Write,
  workspaceId: string,
  [table, noun]: readonly ['members', 'user'] | readonly ['teams', 'team'],
  wanted: readonly string[],
): Promise<void> {
  if (wanted.length === 0) return;
  const column = `${noun}_id` as 'user_id';
  const known = await write
    .selectFrom(table as 'members')
    .select(column)
    .where('workspace_id', '=', workspaceId)
    .where(column, 'in', wanted)
    .execute();
  const ids = new Set(known.map((row) => row[column]));
  const unknown = wanted.find((id) => !ids.has(id));
  if (unknown !== undefined) throw invalid(`unknown ${noun} ${unknown}`);
}

function recordTask(
  service: Service,
  write: Write,
  { caller }: Pick<Call<'getTask'>, 'caller'>,
  type: 'task.created' | 'task.updated',
  row: TaskRow,
): Promise<void> {
  const { workspace_id: workspaceId, task_id: id, key } = row;
  return service.events.record(write, {
    type,
    workspaceId,
    caller,
    resource: withoutKey(service.variant, { id, key }),
    body: taskOf(row, service.variant),
  });
}

async function updateTask(service: Service, call: Call<'updateTask'>) {
  const { workspaceId, ids, body, ifMatch } = call;
  if (body.status !== undefined) requireStatus(service.variant, body.status);
  return service.commits.run(async (write) => {
    const { seq, ...row } = await findRow(write, 'task', workspaceId, ids.taskId);
    if (isChanged(ifMatch, etagOf(JSON.stringify(taskOf(row, service.variant)))))
      throw new ApiError('precondition_failed', 'the task has changed since it was read');
    await checkReferences(write, workspaceId, body);
    const updated = { ...row, ...changedColumns(service, row, body) };
    await write.updateTable('tasks').set(updated).where('seq', '=', seq).execute();
    await replaceRefs(write, workspaceId, seq, body);
    await recordTask(service, write, call, 'task.updated', updated);
    return taskOf(updated, service.variant);
  });
}

function changedColumns({ variant, clock }: Service, row: TaskRow, body: TaskUpdate): Partial<TaskRow> {
  const now = timeNow(clock);
  const status = body.status ?? row.status;
  const finished = isFinished(variant, status);
  return {
    title: body.title ?? row.title,
    description: body.description === undefined ? row.description : body.description,
    status,
    open: finished ? 0 : 1,
    completed_at: finished ? (row.completed_at ?? now) : null,
    priority: body.priority ?? row.priority,
    team_ids: body.teamIds ? writeStrings(body.teamIds) : row.team_ids,
    assignee_ids: body.assigneeIds ? writeStrings(body.assigneeIds) : row.assignee_ids,
    labels: body.labels ? writeStrings(body.labels) : row.labels,
    updated_at: now,
  };
}

async function replaceRefs(write: Write, workspaceId: string, seq: number, body: TaskUpdate): Promise<void> {
  const replaced = [...(body.teamIds ? ['team' as const] : []), ...(body.assigneeIds ? ['assignee' as const] : [])];
  if (replaced.length === 0) return;
  await write.deleteFrom('task_refs').where('task_seq', '=', seq).where('kind', 'in', replaced).execute();
  await insertRefs(write, workspaceId, seq, body);
}

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
