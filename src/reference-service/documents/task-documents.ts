import type { CheckedBody, Routes } from '../../workspace-api/contract.ts';
import { notFound } from '../http/api-error.ts';
import type { Call, Handlers, Service } from '../http/call.ts';
import { timeNow } from '../storage/new-row.ts';
import { findTask } from '../tasks/tasks.ts';
import {
  documentOf,
  findDocument,
  insertDocument,
  listedDocumentOf,
  newDocumentRow,
  recordDocument,
  selectListed,
} from './documents.ts';

type Attachment = CheckedBody<Routes['attachDocument']>;

/**
 * Documents of a task (W40, W44). A document says in `taskId` to which one task it is
 * attached, so there is no row for an attachment: attaching sets it, and moves the document away from another task.
 */
export function taskDocumentHandlers(
  service: Service,
): Handlers<'listTaskDocuments' | 'attachDocument' | 'detachDocument'> {
  return {
    listTaskDocuments: (call) => listTaskDocuments(service, call),
    attachDocument: ({ body, ...call }) =>
      body.documentId === undefined
        ? createAttached(service, call, body)
        : attachExisting(service, call, body.documentId),
    detachDocument: (call) => detachDocument(service, call),
  };
}

type Target = Omit<Call<'attachDocument'>, 'body'>;

async function listTaskDocuments(service: Service, { workspaceId, ids }: Call<'listTaskDocuments'>) {
  await findTask(service.database.query, workspaceId, ids.taskId);
  const rows = await selectListed(service.database.query, workspaceId)
    .where('task_id', '=', ids.taskId)
    .orderBy('seq', 'desc')
    .execute();
  return { status: 200, body: { documents: rows.map(listedDocumentOf) } };
}

async function createAttached(service: Service, call: Target, given: Extract<Attachment, { title: string }>) {
  const row = newDocumentRow(service, call, given, call.ids.taskId);
  await service.commits.run(async (write) => {
    await findTask(write, call.workspaceId, call.ids.taskId);
    await insertDocument(write, row);
    await recordDocument(service, write, call.caller, 'document.created', row);
  });
  return { status: 201, body: documentOf(row) };
}

/** Attached here already: 200, and nothing is written. */
async function attachExisting(service: Service, { workspaceId, ids, caller }: Target, documentId: string) {
  const now = timeNow(service.clock);
  return service.commits.run(async (write) => {
    await findTask(write, workspaceId, ids.taskId);
    const { seq, ...row } = await findDocument(write, workspaceId, documentId);
    if (row.task_id === ids.taskId) return { status: 200, body: documentOf(row) };
    const attached = { task_id: ids.taskId, updated_by_user_id: caller.userId, updated_at: now };
    await write.updateTable('documents').set(attached).where('seq', '=', seq).execute();
    await recordDocument(service, write, caller, 'document.updated', { ...row, ...attached });
    return { status: 201, body: documentOf({ ...row, ...attached }) };
  });
}

async function detachDocument(service: Service, { workspaceId, ids, caller }: Call<'detachDocument'>) {
  const now = timeNow(service.clock);
  await service.commits.run(async (write) => {
    const detached = await write
      .updateTable('documents')
      .set({ task_id: null, updated_by_user_id: caller.userId, updated_at: now })
      .where('workspace_id', '=', workspaceId)
      .where('document_id', '=', ids.documentId)
      .where('task_id', '=', ids.taskId)
      .returningAll()
      .executeTakeFirst();
    if (detached === undefined) throw notFound('document of this task');
    await recordDocument(service, write, caller, 'document.updated', detached);
  });
  return { status: 204, body: undefined };
}
