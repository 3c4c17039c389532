import { type Selectable, sql } from 'kysely';
import { type CheckedBody, type CheckedQuery, LIMITS, type Routes } from '../../workspace-api/contract.ts';
import type { Caller } from '../access/caller-rights.ts';
import { ApiError, invalid, notFound } from '../http/api-error.ts';
import type { Call, Handlers, Service } from '../http/call.ts';
import { readPage } from '../http/paging.ts';
import { newId, timeNow } from '../storage/new-row.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import type { Write } from '../storage/transactions.ts';

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
