import { type Selectable, sql } from 'kysely';
import type { CheckedBody, CheckedQuery, Routes } from '../../workspace-api/contract.ts';
import type { Caller } from '../access/caller-rights.ts';
import { invalid, notFound } from '../http/api-error.ts';
import type { Call, Handlers, Service } from '../http/call.ts';
import { readPage } from '../http/paging.ts';
import { newId, timeNow } from '../storage/new-row.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import type { Write } from '../storage/transactions.ts';
import { applyOperations } from './document-operations.ts';

type Row = Omit<Selectable<ServiceTables['documents']>, 'seq'>;
type Query = Service['database']['query'] | Write;

export function documentHandlers(
  service: Service,
): Handlers<
  'listDocuments' | 'createDocument' | 'getDocument' | 'replaceDocument' | 'patchDocument' | 'deleteDocument'
> {
  return {
    listDocuments: async (call) => ({ status: 200, body: await listDocuments(service, call) }),
    createDocument: async (call) => ({ status: 201, body: await createDocument(service, call) }),
    getDocument: async ({ workspaceId, ids }) => {
      const row = await findDocument(service.database.query, workspaceId, ids.documentId);
      return { status: 200, body: documentOf(row) };
    },
    replaceDocument: async (call) => ({ status: 200, body: await replaceDocument(service, call) }),
    patchDocument: async (call) => ({ status: 200, body: await patchDocument(service, call) }),
    deleteDocument: async (call) => {
      await deleteDocument(service, call);
      return { status: 204, body: undefined };
    },
  };
}

/** Describes a document for lists, without content. */
export function listedDocumentOf(row: Omit<Row, 'content'>) {
  return {
    documentId: row.document_id,
    workspaceId: row.workspace_id,
    title: row.title,
    type: row.type,
    status: row.status,
    taskId: row.task_id,
    excerpt: row.excerpt,
    createdByUserId: row.created_by_user_id,
    updatedByUserId: row.updated_by_user_id,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export function documentOf(row: Row) {
  return { ...listedDocumentOf(row), content: row.content };
}

/** Selects the rows of a workspace for lists, newest first. */
export function selectListed(query: Query, workspaceId: string) {
  return query
    .selectFrom('documents')
    .select([
      'seq',
      'document_id',
      'workspace_id',
      'title',
      'title_folded',
      'type',
      'status',
      'task_id',
      'excerpt',
      'created_by_user_id',
      'updated_by_user_id',
      'created_at',
      'updated_at',
    ])
    .where('workspace_id', '=', workspaceId);
}

/** Throws 404. */
export async function findDocument(query: Query, workspaceId: string, documentId: string) {
  const row = await query
    .selectFrom('documents')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('document_id', '=', documentId)
    .executeTakeFirst();
  if (row === undefined) throw notFound('document');
  return row;
}

async function listDocuments(service: Service, { workspaceId, query }: Call<'listDocuments'>) {
  const rows = withFilters(selectListed(service.database.query, workspaceId), query);
  if (!query.includeContent) {
    const { given, nextCursor } = await readPage(rows, query);
    return { documents: given.map(listedDocumentOf), nextCursor };
  }
  const { given, nextCursor } = await readPage(rows.select('content'), query);
  return { documents: given.map(documentOf), nextCursor };
}

function withFilters(rows: ReturnType<typeof selectListed>, query: CheckedQuery<Routes['listDocuments']>) {
  let filtered = rows;
  if (query.title) filtered = filtered.where(sql<boolean>`instr(title_folded, ${foldCase(query.title)}) > 0`);
  if (query.type) filtered = filtered.where('type', 'in', query.type);
  if (query.status) filtered = filtered.where('status', 'in', query.status);
  if (query.taskId) filtered = filtered.where('task_id', '=', query.taskId);
  if (query.createdByUserId) filtered = filtered.where('created_by_user_id', '=', query.createdByUserId);
  if (query.updatedByUserId) filtered = filtered.where('updated_by_user_id', '=', query.updatedByUserId);
  return filtered;
}

/** Upper case, because a letter's lower case may depend on its neighbours (ς); SQLite itself folds ASCII only. */
function foldCase(title: string): string {
  return title.normalize('NFC').toUpperCase();
}

const EXCERPT_LENGTH = 200;

/** Values derived from the content are stored beside it, so that lists need not read the long text. */
function contentColumns(content: string): Pick<Row, 'content' | 'excerpt'> {
  // Leaves out a surrogate pair that the cut would halve.
  const excerpt = content.slice(0, EXCERPT_LENGTH).replace(/[\ud800-\udbff]$/, '');
  return { content, excerpt };
}

function titleColumns(title: string): Pick<Row, 'title' | 'title_folded'> {
  return { title, title_folded: foldCase(title) };
}

type NewDocument = Omit<CheckedBody<Routes['createDocument']>, 'taskId'>;

export function newDocumentRow(
  service: Service,
  { workspaceId, caller }: Pick<Call<'createDocument'>, 'workspaceId' | 'caller'>,
  given: NewDocument,
  taskId: string | null,
): Row {
  const now = timeNow(service.clock);
  return {
    document_id: newId(service.random, 'doc'),
    workspace_id: workspaceId,
    ...titleColumns(given.title),
    type: given.type ?? 'requirement',
    status: given.status ?? 'draft',
    task_id: taskId,
    ...contentColumns(given.content ?? ''),
    created_by_user_id: caller.userId,
    updated_by_user_id: caller.userId,
    created_at: now,
    updated_at: now,
  };
}

export async function insertDocument(write: Write, row: Row): Promise<void> {
  await write.insertInto('documents').values(row).execute();
}

async function createDocument(service: Service, call: Call<'createDocument'>) {
  const taskId = call.body.taskId ?? null;
  const row = newDocumentRow(service, call, call.body, taskId);
  await service.commits.run(async (write) => {
    if (taskId !== null) await refuseUnknownTask(write, call.workspaceId, taskId);
    await insertDocument(write, row);
    await recordDocument(service, write, call.caller, 'document.created', row);
  });
  return documentOf(row);
}

/** Records an event without the content, like in a list; receivers request the content. */
export function recordDocument(
  service: Service,
  write: Write,
  caller: Caller,
  type: 'document.created' | 'document.updated' | 'document.deleted',
  row: Row,
): Promise<void> {
  const { workspace_id: workspaceId, document_id: id, task_id: taskId } = row;
  const body = listedDocumentOf(row);
  return service.events.record(write, { type, workspaceId, caller, resource: { id, taskId }, body });
}

/** A task that a body names, unlike one that the path names, is part of the request: 400, like unknown users (W35). */
async function refuseUnknownTask(write: Write, workspaceId: string, taskId: string): Promise<void> {
  const known = await write
    .selectFrom('tasks')
    .select('seq')
    .where('workspace_id', '=', workspaceId)
    .where('task_id', '=', taskId)
    .executeTakeFirst();
  if (known === undefined) throw invalid(`unknown task ${taskId}`);
}

function replaceDocument(service: Service, call: Call<'replaceDocument'>) {
  const { title, content, status } = call.body;
  return changeDocument(service, call, (row) => ({
    ...titleColumns(title),
    ...contentColumns(content),
    status: status ?? row.status,
  }));
}

function patchDocument(service: Service, call: Call<'patchDocument'>) {
  return changeDocument(service, call, (row) => contentColumns(applyOperations(row.content, call.body.ops)));
}

/** `changes` is computed inside the transaction, from the row as it is there. */
async function changeDocument(
  service: Service,
  { workspaceId, ids, caller }: Pick<Call<'replaceDocument'>, 'workspaceId' | 'ids' | 'caller'>,
  changes: (row: Row) => Partial<Row>,
) {
  const now = timeNow(service.clock);
  return service.commits.run(async (write) => {
    const { seq, ...row } = await findDocument(write, workspaceId, ids.documentId);
    const changed = { ...changes(row), updated_by_user_id: caller.userId, updated_at: now };
    await write.updateTable('documents').set(changed).where('seq', '=', seq).execute();
    await recordDocument(service, write, caller, 'document.updated', { ...row, ...changed });
    return documentOf({ ...row, ...changed });
  });
}

async function deleteDocument(service: Service, { workspaceId, ids, caller }: Call<'deleteDocument'>): Promise<void> {
  await service.commits.run(async (write) => {
    const deleted = await write
      .deleteFrom('documents')
      .where('workspace_id', '=', workspaceId)
      .where('document_id', '=', ids.documentId)
      .returningAll()
      .executeTakeFirst();
    if (deleted === undefined) throw notFound('document');
    await recordDocument(service, write, caller, 'document.deleted', deleted);
  });
}
