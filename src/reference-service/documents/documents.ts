import { sql } from 'kysely';
import { type CheckedBody, type CheckedQuery, LIMITS, ROUTES, type Routes } from '../../workspace-api/contract.ts';
import type { Caller } from '../access/caller-rights.ts';
import { ApiError, invalid, notFound } from '../http/api-error.ts';
import { type Call, Existing, type Service } from '../http/call.ts';
import { findRow, newId, type Row, readPage, refuseUnknownTask, shownBy, timeNow } from '../storage/rows.ts';
import type { Query, Write } from '../storage/transactions.ts';

type DocumentRow = Row<'documents'>;

export const documentHandlers = {
  listDocuments,
  createDocument,
  getDocument: async (service: Service, { workspaceId, ids }: Call<'getDocument'>) =>
    documentOf(await findRow(service.database.query, 'document', workspaceId, ids.documentId)),
  replaceDocument,
  patchDocument,
  deleteDocument,
  listTaskDocuments,
  attachDocument,
  detachDocument,
};

/** Describes a document for lists, without content. */
const listedDocumentOf = shownBy(ROUTES.getDocument, 'content');

function documentOf(row: DocumentRow) {
  return { ...listedDocumentOf(row), content: row.content };
}

/** Selects the rows of a workspace for lists, newest first. */
function selectListed(query: Query, workspaceId: string) {
  return query
    .selectFrom('documents')
    .select(['seq', 'document_id', 'workspace_id', 'title', 'title_folded', 'type', 'status', 'task_id', 'excerpt'])
    .select(['created_by_user_id', 'updated_by_user_id', 'created_at', 'updated_at'])
    .where('workspace_id', '=', workspaceId);
}

async function listDocuments(service: Service, { workspaceId, query }: Call<'listDocuments'>) {
  const rows = withFilters(selectListed(service.database.query, workspaceId), query);
  if (!query.includeContent) {
    const { given, nextCursor } = await readPage(rows, query);
    return { documents: given.map((row) => listedDocumentOf(row)), nextCursor };
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
function contentColumns(content: string): Pick<DocumentRow, 'content' | 'excerpt'> {
  // Leaves out a surrogate pair that the cut would halve.
  const excerpt = content.slice(0, EXCERPT_LENGTH).replace(/[\ud800-\udbff]$/, '');
  return { content, excerpt };
}

function titleColumns(title: string): Pick<DocumentRow, 'title' | 'title_folded'> {
  return { title, title_folded: foldCase(title) };
}

type NewDocument = Omit<CheckedBody<Routes['createDocument']>, 'taskId'>;

function newDocumentRow(
  service: Service,
  { workspaceId, caller }: Pick<Call<'createDocument'>, 'workspaceId' | 'caller'>,
  given: NewDocument,
  taskId: string | null,
): DocumentRow {
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

async function createDocument(service: Service, call: Call<'createDocument'>) {
  const taskId = call.body.taskId ?? null;
  return insertDocument(service, call, newDocumentRow(service, call, call.body, taskId), async (write) => {
    if (taskId !== null) await refuseUnknownTask(write, call.workspaceId, taskId);
  });
}

async function insertDocument(
  service: Service,
  { caller }: { caller: Caller },
  row: DocumentRow,
  check: (write: Write) => Promise<unknown>,
) {
  await service.commits.run(async (write) => {
    await check(write);
    await write.insertInto('documents').values(row).execute();
    await recordDocument(service, write, caller, 'document.created', row);
  });
  return documentOf(row);
}

/** Records an event without the content, like in a list; receivers request the content. */
function recordDocument(
  service: Service,
  write: Write,
  caller: Caller,
  type: 'document.created' | 'document.updated' | 'document.deleted',
  row: DocumentRow,
): Promise<void> {
  const { workspace_id: workspaceId, document_id: id, task_id: taskId } = row;
  const body = listedDocumentOf(row);
  return service.events.record(write, { type, workspaceId, caller, resource: { id, taskId }, body });
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
  changes: (row: DocumentRow) => Partial<DocumentRow>,
) {
  const now = timeNow(service.clock);
  return service.commits.run(async (write) => {
    const { seq, ...row } = await findRow(write, 'document', workspaceId, ids.documentId);
    const changed = { ...changes(row), updated_by_user_id: caller.userId, updated_at: now };
    await write.updateTable('documents').set(changed).where('seq', '=', seq).execute();
    await recordDocument(service, write, caller, 'document.updated', { ...row, ...changed });
    return documentOf({ ...row, ...changed });
  });
}

async function deleteDocument(
  service: Service,
  { workspaceId, ids, caller }: Call<'deleteDocument'>,
): Promise<undefined> {
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

async function listTaskDocuments(service: Service, { workspaceId, ids }: Call<'listTaskDocuments'>) {
  await findRow(service.database.query, 'task', workspaceId, ids.taskId);
  const rows = await selectListed(service.database.query, workspaceId)
    .where('task_id', '=', ids.taskId)
    .orderBy('seq', 'desc')
    .execute();
  return { documents: rows.map((row) => listedDocumentOf(row)) };
}

/**
 * Documents of a task (W40, W44). A document says in `taskId` to which one task it is attached, so there is no row for an attachment:
 * attaching sets it, and moves the document away from another task. If it is attached here already, nothing is written.
 */
async function attachDocument(service: Service, call: Call<'attachDocument'>) {
  const { workspaceId, ids, caller, body } = call;
  if (body.documentId === undefined)
    return insertDocument(service, call, newDocumentRow(service, call, body, ids.taskId), (write) =>
      findRow(write, 'task', workspaceId, ids.taskId),
    );
  const now = timeNow(service.clock);
  return service.commits.run(async (write) => {
    await findRow(write, 'task', workspaceId, ids.taskId);
    const { seq, ...row } = await findRow(write, 'document', workspaceId, body.documentId);
    if (row.task_id === ids.taskId) return new Existing(documentOf(row));
    const attached = { task_id: ids.taskId, updated_by_user_id: caller.userId, updated_at: now };
    await write.updateTable('documents').set(attached).where('seq', '=', seq).execute();
    await recordDocument(service, write, caller, 'document.updated', { ...row, ...attached });
    return documentOf({ ...row, ...attached });
  });
}

async function detachDocument(
  service: Service,
  { workspaceId, ids, caller }: Call<'detachDocument'>,
): Promise<undefined> {
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
}

export type TextOperation = CheckedBody<Routes['patchDocument']>['ops'][number];

/**
 * Applies operations in order, each to the text that the ones before it have made (W43, W49).
 * Pure, and all or nothing: the text is returned only when every operation found its one place. Nothing but the
 * places named is touched: line ends stay as they are, and since texts are well-formed no surrogate pair is cut.
 * The running text may be longer than a document in between; only the result counts.
 *
 * Throws 409 `patch_target_not_found`, 409 `patch_target_ambiguous`, 400 for a result over 200 000 characters.
 */
export function applyOperations(text: string, operations: readonly TextOperation[]): string {
  const result = operations.reduce(applyOperation, text);
  if (result.length > LIMITS.text) throw invalid(`ops: the content would be over ${LIMITS.text} characters`);
  return result;
}

function applyOperation(text: string, operation: TextOperation, index: number): string {
  const place = 'target' in operation ? operation.target : operation.anchor;
  const start = onlyPlace(text, place, index);
  const end = start + place.length;
  switch (operation.kind) {
    case 'replace_text':
      return splice(text, start, end, operation.replacement);
    case 'delete_text':
      return splice(text, start, end, '');
    case 'insert_before':
      return splice(text, start, start, operation.text);
    case 'insert_after':
      return splice(text, end, end, operation.text);
  }
}

function splice(text: string, start: number, end: number, inserted: string): string {
  return text.slice(0, start) + inserted + text.slice(end);
}

function onlyPlace(text: string, place: string, index: number): number {
  const [first, second] = placesOf(text, place);
  if (first === undefined) throw new ApiError('patch_target_not_found', `ops.${index}: the text does not occur`);
  if (second === undefined) return first;
  throw new ApiError('patch_target_ambiguous', `ops.${index}: the text occurs more than once`);
}

/**
 * Longest text that is given to `indexOf`: its search is linear up to about this length, and for longer ones takes
 * product time on texts that repeat themselves (measured: 0.3 s for one search of 10 000 in 200 000 characters).
 */
const LONGEST_PROBE = 200;

/**
 * The first two places where `wanted` occurs, overlapping ones included: `aa` occurs twice in `aaa`.
 * Takes time linear in both lengths, whatever they hold; `wanted` is not empty.
 */
export function placesOf(text: string, wanted: string): number[] {
  const probe = wanted.slice(0, LONGEST_PROBE);
  const places: number[] = [];
  let effort = 0;
  for (let at = text.indexOf(probe); at !== -1; at = text.indexOf(probe, at + 1)) {
    if (text.startsWith(wanted, at) && places.push(at) === 2) break;
    effort += wanted.length;
    if (effort > text.length + wanted.length) return placesByBorders(text, wanted);
  }
  return places;
}

/** Knuth, Morris and Pratt: never looks at a character of the text twice, so that no text makes it slow. */
function placesByBorders(text: string, wanted: string): number[] {
  const borders = bordersOf(wanted);
  const places: number[] = [];
  let matched = 0;
  for (let at = 0; at < text.length && places.length < 2; at++) {
    matched = extend(wanted, borders, matched, text.charCodeAt(at));
    if (matched < wanted.length) continue;
    places.push(at + 1 - matched);
    matched = borders[matched - 1]!;
  }
  return places;
}

/** For each prefix the length of its longest proper prefix that is also its suffix. */
function bordersOf(wanted: string): Int32Array {
  const borders = new Int32Array(wanted.length);
  for (let at = 1; at < wanted.length; at++)
    borders[at] = extend(wanted, borders, borders[at - 1]!, wanted.charCodeAt(at));
  return borders;
}

/** The longest prefix that ends with the next character, given the one that ended before it. */
function extend(wanted: string, borders: Int32Array, matched: number, next: number): number {
  let length = matched;
  while (length > 0 && wanted.charCodeAt(length) !== next) length = borders[length - 1]!;
  return wanted.charCodeAt(length) === next ? length + 1 : length;
}
