import { z } from 'zod';
import { DOCUMENT_STATUSES, DOCUMENT_TYPES } from './field-values.ts';
import { answered, asked, ID_PATTERN, LIMITS, listOf, openEnum, type Route, sent } from './route.ts';

/** W45. Lists leave `content` out, which reads as null, unless `includeContent` asks for it. */
const documentFields = z.looseObject({
  documentId: answered.id,
  workspaceId: answered.string,
  title: answered.string,
  type: openEnum(DOCUMENT_TYPES, 'requirement'),
  status: openEnum(DOCUMENT_STATUSES, 'draft'),
  taskId: answered.text.describe('the one task that the document is attached to'),
  excerpt: answered.string.describe('the beginning of the content'),
  content: answered.text,
  createdByUserId: answered.text,
  updatedByUserId: answered.text,
  createdAt: answered.time,
  updatedAt: answered.time,
});
const listedDocument = documentFields.meta({ id: 'ListedDocument' });
const document = documentFields.extend({ content: answered.string }).meta({ id: 'Document' });

/** Half a surrogate pair cannot be stored as UTF-8: what is read would differ from what was written. */
const wellFormed = <Text extends z.ZodType<string>>(text: Text) =>
  text.refine((given) => given.isWellFormed(), 'must not hold half a surrogate pair');

const title = wellFormed(sent.title);
const content = wellFormed(z.string().max(LIMITS.text));
/** A place in the running text: it must occur there exactly once (W49). */
const place = wellFormed(z.string().min(1).max(LIMITS.text));

/** Any case is accepted, lower case is kept (W45). */
const type = z.string().toLowerCase().pipe(z.enum(DOCUMENT_TYPES));
const status = z.string().toLowerCase().pipe(z.enum(DOCUMENT_STATUSES));

/** Title alone is required: content starts empty, type is `requirement`, status `draft`, attached to no task. */
const newDocument = z.object({
  title,
  content: content.optional(),
  type: type.optional(),
  status: status.optional(),
  taskId: z.string().regex(ID_PATTERN).nullish(),
});

/** W48. An absent status is kept. */
const documentReplacement = z.object({ title, content, status: status.optional() });

/** W49. */
const textOperation = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('replace_text'), target: place, replacement: content }),
  z.object({ kind: z.literal('delete_text'), target: place }),
  z.object({ kind: z.literal('insert_before'), anchor: place, text: content }),
  z.object({ kind: z.literal('insert_after'), anchor: place, text: content }),
]);

const documentPatch = z.object({ ops: z.array(textOperation).min(1).max(LIMITS.operations) });

/**
 * W44. Either an existing document, or a new one. A document belongs to one task at most, since it has one `taskId`:
 * attaching it to another task moves it there.
 */
const newAttachment = z.union([
  z.object({ documentId: z.string().regex(ID_PATTERN) }),
  newDocument.omit({ taskId: true }).extend({ documentId: z.never().optional() }),
]);

/** W47. `title` is contained in any case. */
const documentQuery = z.object({
  title: asked.text.optional(),
  type: asked.list.pipe(z.array(type)).optional(),
  status: asked.list.pipe(z.array(status)).optional(),
  taskId: asked.text.optional(),
  createdByUserId: asked.text.optional(),
  updatedByUserId: asked.text.optional(),
  includeContent: asked.flag.optional(),
  limit: asked.limit.optional(),
  cursor: asked.cursor.optional(),
});

export const documentRoutes = {
  /** W41, W47. `{documents, nextCursor}`, newest first, without content unless `includeContent`. */
  listDocuments: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/documents',
    summary: 'List documents',
    rules: 'W41, W47',
    query: documentQuery,
    response: listOf('documents', listedDocument, ['documentId'], { nextCursor: answered.cursor }),
  },
  /** W46. The created document. Not idempotent. Errors: 400 for an unknown `taskId`. */
  createDocument: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/documents',
    summary: 'Create a document',
    rules: 'W46',
    body: newDocument,
    response: document,
  },
  /** W41, W46. One document with its content. Errors: 404. */
  getDocument: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/documents/{documentId}',
    summary: 'Get a document',
    rules: 'W41, W46',
    response: document,
  },
  /** W42, W48. Replaces title and content, and the status where one is given. Errors: 404. */
  replaceDocument: {
    method: 'PUT',
    path: '/workspaces/{workspaceId}/documents/{documentId}',
    summary: "Replace a document's editable fields",
    rules: 'W42, W48',
    body: documentReplacement,
    response: document,
  },
  /**
   * W43, W49. Applies 1 to 100 operations in order to the running text, all or none. Each target or
   * anchor must occur in it exactly once; occurrences that overlap are several. Answers the whole updated document.
   * Errors: 409 `patch_target_not_found`, 409 `patch_target_ambiguous`, 400 when the result is over 200 000
   * characters (as when such a content is written), 404.
   */
  patchDocument: {
    method: 'PATCH',
    path: '/workspaces/{workspaceId}/documents/{documentId}',
    summary: "Change a document's content by text operations",
    rules: 'W43, W49',
    body: documentPatch,
    response: document,
  },
  /** W46. 204; 404 `not_found` when it is gone already. */
  deleteDocument: {
    method: 'DELETE',
    path: '/workspaces/{workspaceId}/documents/{documentId}',
    summary: 'Delete a document',
    rules: 'W46',
  },
  /** W40, W44. `{documents}` without content, newest first. */
  listTaskDocuments: {
    method: 'GET',
    path: '/tasks/{taskId}/documents',
    alsoAt: '/workspaces/{workspaceId}/tasks/{taskId}/documents',
    summary: "List a task's documents",
    rules: 'W40, W44',
    response: listOf('documents', listedDocument, ['documentId'], {}),
  },
  /**
   * W40, W44. 201 with the document, attached; 200 when it was attached to this
   * task already. Errors: 404 for an unknown task or document.
   */
  attachDocument: {
    method: 'POST',
    path: '/tasks/{taskId}/documents',
    alsoAt: '/workspaces/{workspaceId}/tasks/{taskId}/documents',
    summary: 'Attach a document to a task, or create one there',
    rules: 'W40, W44',
    body: newAttachment,
    response: document,
    success: [201, 200],
  },
  /** W44. 204; the document stays, attached to no task. Errors: 404 where it is not attached to this task. */
  detachDocument: {
    method: 'DELETE',
    path: '/tasks/{taskId}/documents/{documentId}',
    alsoAt: '/workspaces/{workspaceId}/tasks/{taskId}/documents/{documentId}',
    summary: 'Detach a document from a task',
    rules: 'W44',
  },
} as const satisfies Record<string, Route>;
