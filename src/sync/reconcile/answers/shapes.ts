import { z } from 'zod';
import { withKey } from '../../../model/task.ts';
import { identifiedOnly, idText, timeText } from '../../../platform/lib/shape.ts';

// The fields of the workspace's answers that worksync reads; it ignores all others. A field that does not identify its
// thing never fails an answer: if it is missing or of another type, its default is used.

const id = z.preprocess(idText, z.string());
const optionalId = z.preprocess(idText, z.string().optional());
const text = (otherwise = '') => z.string().catch(otherwise);
const time = z.preprocess(timeText, z.string().nullable());
/** A task without a time has an empty text. */
const timeOfTask = z.preprocess((value) => timeText(value) ?? '', z.string());

export const taskShape = z.preprocess(
  withKey,
  z.looseObject({
    taskId: id,
    key: z.string(),
    title: text(),
    status: text(),
    kind: z.string().optional().catch(undefined),
    workspaceId: z.string().optional().catch(undefined),
    source: text('api'),
    createdAt: timeOfTask,
    updatedAt: timeOfTask,
    description: z.string().nullish().catch(undefined),
    reporterUserId: z.string().nullish().catch(undefined),
  }),
);

export type ListedTask = z.infer<typeof taskShape>;

export const recordShape = z.looseObject({
  provider: id,
  repoId: id,
  identifier: id,
  url: z.string().nullish().catch(null),
  updatedAt: time,
  /** Absent: the answer contains nothing about links. */
  taskIds: z.array(z.string()).optional().catch(undefined),
});

export type ListedRecord = z.infer<typeof recordShape>;

/** The number of elements without an id, which were dropped. Unless it is 0, the list does not prove absence. */
const unreadable = z.number().catch(0);

function listOf<const Name extends string, Element extends z.ZodType, More extends z.ZodRawShape>(
  name: Name,
  element: Element,
  identity: readonly string[],
  more: More,
) {
  const shape = { [name]: z.array(element), unreadable, ...more } as {
    readonly [Key in Name]: z.ZodArray<Element>;
  } & { readonly unreadable: typeof unreadable } & More;
  return z.preprocess((value) => identifiedOnly(value, name, identity), z.object(shape));
}

export const recordPage = listOf('pullRequests', recordShape, ['provider', 'repoId', 'identifier'], {
  nextCursor: z.string().nullish(),
});

export const linkShape = z.looseObject({
  taskId: optionalId,
  workItemId: id,
  url: z.string(),
  externalId: z.string().nullish().catch(null),
});

export type ListedLink = z.infer<typeof linkShape>;

export const taskList = listOf('tasks', taskShape, ['taskId'], {});

export const linkList = listOf('workItems', linkShape, ['workItemId', 'url'], {
  isLast: z.boolean().nullish().catch(null),
});

/** The task that a document is attached to; null: none. */
const attachedTo = z.string().nullish().catch(null);

export const documentShape = z.looseObject({ taskId: attachedTo, updatedAt: time }).nullable();

export const listedDocument = z.object({
  documentId: id,
  taskId: attachedTo.default(null),
  isMissing: z.boolean().catch(false),
  updatedAt: time,
});

export const listedDocuments = listOf('documents', listedDocument, ['documentId'], {});

const ids = z.array(z.string()).default([]);

/** Resources that an event names without carrying them. */
export const namedResources = z.object({
  taskIds: ids,
  /** The tasks were created: tasks that are already known need no read. */
  isNew: z.boolean().default(false),
  /** Tasks whose links changed. */
  linkTaskIds: ids,
  /** The link that was created. */
  workItemId: z.string().optional(),
  documentIds: ids,
});

export type NamedResources = z.input<typeof namedResources>;
