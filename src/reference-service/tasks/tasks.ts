import type { Selectable } from 'kysely';
import type { CheckedBody, CheckedQuery, Routes } from '../../workspace-api/contract.ts';
import { ApiError, invalid, notFound } from '../http/api-error.ts';
import type { Call, Handlers, Service } from '../http/call.ts';
import { etagOf, isChanged } from '../http/etag.ts';
import { readPage } from '../http/paging.ts';
import { isFinished, requireStatus, type Variant, withoutKey } from '../http/variant.ts';
import { newId, timeNow } from '../storage/new-row.ts';
import { type Prepared, prepared } from '../storage/prepared.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import { readStrings, writeStrings } from '../storage/string-lists.ts';
import type { Write } from '../storage/transactions.ts';

type TaskRow = Omit<Selectable<ServiceTables['tasks']>, 'seq'>;
type NewTask = CheckedBody<Routes['createBug']>;
type TaskUpdate = CheckedBody<Routes['updateTask']>;

const KINDS = { bug: { prefix: 'BUG', status: 'open' }, idea: { prefix: 'IDEA', status: 'idea' } } as const;

export function taskHandlers(
  service: Service,
): Handlers<'listTasks' | 'getTask' | 'updateTask' | 'createBug' | 'createIdea'> {
  const statements = prepareStatements(service.database.query);
  return {
    listTasks: async ({ workspaceId, query }) => ({ status: 200, body: await listTasks(service, workspaceId, query) }),
    getTask: async ({ workspaceId, ids }) => {
      const row = await findTask(service.database.query, workspaceId, ids.taskId);
      return { status: 200, body: taskOf(row, service.variant) };
    },
    updateTask: async (call) => ({ status: 200, body: await updateTask(service, call) }),
    createBug: async (call) => ({ status: 201, body: await createTask(service, statements, call, 'bug') }),
    createIdea: async (call) => ({ status: 201, body: await createTask(service, statements, call, 'idea') }),
  };
}

function taskOf(row: TaskRow, variant: Variant) {
  return withoutKey(variant, {
    taskId: row.task_id,
    key: row.key,
    workspaceId: row.workspace_id,
    kind: row.kind,
    title: row.title,
    description: row.description,
    status: row.status,
    priority: row.priority,
    source: row.source,
    reporterUserId: row.reporter_user_id,
    reportedAt: row.reported_at,
    teamIds: readStrings(row.team_ids),
    assigneeIds: readStrings(row.assignee_ids),
    labels: readStrings(row.labels),
    userId: row.user_id,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    completedAt: row.completed_at,
  });
}

type Query = Service['database']['query'] | Write;

/** Throws 404. */
export async function findTask(query: Query, workspaceId: string, taskId: string) {
  const row = await query
    .selectFrom('tasks')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('task_id', '=', taskId)
    .executeTakeFirst();
  if (row === undefined) throw notFound('task');
  return row;
}

/** `all=true` gives every status in one answer; otherwise open work, unless `status` names what is wanted (W36). */
async function listTasks(service: Service, workspaceId: string, query: CheckedQuery<Routes['listTasks']>) {
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

/** The statements of a creation, which many clients ask for at once. */
interface Statements {
  readonly nextNumber: Prepared<{ value: number }>;
  readonly insertTask: Prepared<unknown>;
}

const COLUMNS = Object.keys({
  task_id: true,
  workspace_id: true,
  key: true,
  kind: true,
  title: true,
  description: true,
  status: true,
  open: true,
  priority: true,
  source: true,
  reporter_user_id: true,
  reported_at: true,
  team_ids: true,
  assignee_ids: true,
  labels: true,
  user_id: true,
  created_at: true,
  updated_at: true,
  completed_at: true,
} satisfies Record<keyof TaskRow, true>) as readonly (keyof TaskRow)[];

function prepareStatements(query: Service['database']['query']): Statements {
  const blank = Object.fromEntries(COLUMNS.map((name) => [name, ''])) as unknown as TaskRow;
  return {
    insertTask: prepared(query.insertInto('tasks').values(blank)),
    nextNumber: prepared(
      query
        .insertInto('counters')
        .values({ workspace_id: '', prefix: '', value: 1 })
        .onConflict((conflict) =>
          conflict
            .columns(['workspace_id', 'prefix'])
            .doUpdateSet((update) => ({ value: update('counters.value', '+', 1) })),
        )
        .returning('value'),
    ),
  };
}

async function createTask(
  service: Service,
  statements: Statements,
  call: Call<'createBug' | 'createIdea'>,
  kind: keyof typeof KINDS,
) {
  const row = newRow(service, call, kind);
  const number = await service.commits.run(async (write) => {
    await checkReferences(write, call.workspaceId, call.body);
    const next = await nextNumber(write, statements, call.workspaceId, KINDS[kind].prefix);
    const numbered = { ...row, key: `${KINDS[kind].prefix}-${next}` };
    await insertTask(write, statements, numbered, call.body);
    await recordTask(service, write, call, 'task.created', numbered);
    return next;
  });
  return taskOf({ ...row, key: `${KINDS[kind].prefix}-${number}` }, service.variant);
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

async function insertTask(
  write: Write,
  { insertTask: insert }: Statements,
  row: TaskRow,
  refs: Pick<NewTask, 'teamIds' | 'assigneeIds'>,
): Promise<void> {
  const { insertId } = await insert(
    write,
    COLUMNS.map((name) => row[name]),
  );
  await insertRefs(write, row.workspace_id, Number(insertId), refs);
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

async function nextNumber(write: Write, statements: Statements, workspaceId: string, prefix: string): Promise<number> {
  const { rows } = await statements.nextNumber(write, [workspaceId, prefix, 1, 1]);
  return rows[0]!.value;
}

/** Unknown users and teams are refused (W35). */
async function checkReferences(
  write: Write,
  workspaceId: string,
  refs: Pick<NewTask, 'reporterUserId' | 'teamIds' | 'assigneeIds'>,
): Promise<void> {
  const users = [...new Set([refs.reporterUserId ?? [], refs.assigneeIds ?? []].flat())];
  if (users.length > 0) {
    const known = await write
      .selectFrom('members')
      .select('user_id as id')
      .where('workspace_id', '=', workspaceId)
      .where('user_id', 'in', users)
      .execute();
    refuseUnknown('user', users, known);
  }
  const teams = [...new Set(refs.teamIds)];
  if (teams.length > 0) {
    const known = await write
      .selectFrom('teams')
      .select('team_id as id')
      .where('workspace_id', '=', workspaceId)
      .where('team_id', 'in', teams)
      .execute();
    refuseUnknown('team', teams, known);
  }
}

function refuseUnknown(what: string, wanted: readonly string[], known: readonly { id: string }[]): void {
  const ids = new Set(known.map((row) => row.id));
  const unknown = wanted.find((id) => !ids.has(id));
  if (unknown !== undefined) throw invalid(`unknown ${what} ${unknown}`);
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
    const { seq, ...row } = await findTask(write, workspaceId, ids.taskId);
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
