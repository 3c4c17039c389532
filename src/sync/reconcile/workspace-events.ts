import { z } from 'zod';
import type { Delivery } from '../../model/delivery.ts';
import { SyncError } from '../../model/errors.ts';
import type { Answer } from '../../store/workspace/workspace-reads.ts';
import { linkShape, listedDocument, type NamedResources, recordShape, taskShape } from './answers/shapes.ts';

/** The content of a workspace event in the form of an answer, or the reason why the event has no effect. */
export type WorkspaceEvent =
  | { readonly outcome: 'answer'; readonly answer: Answer }
  | { readonly outcome: 'ignored'; readonly reason: string; readonly unknownType?: string };

/** Older events are ignored, because everything that they report has been read since. Milliseconds. */
const MAX_AGE_MS = 24 * 60 * 60_000;

/** Ids that are read from one event. Four tasks lead to one list read, which covers all others. */
const MAX_IDS = 100;

const ID = /^[A-Za-z0-9_-]{1,64}$/;
const id = z.string().regex(ID).optional().catch(undefined);

const eventShape = z.object({
  type: z.string(),
  time: z.string().optional().catch(undefined),
  data: z.looseObject({}).catch({}),
  workspaceid: z.string().optional().catch(undefined),
});

const resourceShape = z
  .object({
    type: z.string().optional().catch(undefined),
    id,
    taskId: id,
    taskIds: z.array(id).catch([]),
    workItemId: id,
    documentId: id,
  })
  .catch({ taskIds: [] });

/** The API key that caused an event. A user proves nothing, because the key may be theirs. */
const actorShape = z
  .object({
    type: z
      .string()
      .transform(nounOf)
      .pipe(z.enum(['apikey', 'key'])),
    id: z.string().regex(ID),
  })
  .optional()
  .catch(undefined);

const idsShape = z.object({ taskId: id, workItemId: id, documentId: id }).catch({});

/**
 * Reads a CloudEvent of the workspace (W65). The signed body decides its type, not the header. Content is accepted
 * under a camelCase or a snake_case name, flat or nested once more under its name. An event that names a resource
 * without carrying it whole becomes the answer `named`, which leads to a read. A time in the future is accepted,
 * because no order depends on it, and the events of a server with a wrong clock must not be lost.
 *
 * Throws `delivery_malformed` if the body is not JSON or has no type.
 */
export function translateEvent({ body, receivedAt }: Pick<Delivery, 'body' | 'receivedAt'>): WorkspaceEvent {
  const { type, time, data, workspaceid: workspaceId } = parse(eventShape, readJson(body));
  if (Date.parse(time ?? '') < receivedAt - MAX_AGE_MS)
    return { outcome: 'ignored', reason: 'the event is older than 24 hours' };
  const content = contentOfEvent(type, data);
  if (content === undefined) return { outcome: 'ignored', reason: 'unknown event type', unknownType: type };
  if (typeof content === 'string') return { outcome: 'ignored', reason: content };
  const [action, resource] = content;
  const key = actorShape.parse(data['actor']);
  const answer = {
    action,
    entity: '',
    sentAt: receivedAt,
    body: resource,
    ...(workspaceId && { workspaceId }),
    ...(key && { key: key.id }),
  };
  return { outcome: 'answer', answer };
}

type EventData = Readonly<Record<string, unknown>>;
type EventContent = readonly [action: Answer['action'], content: unknown];

/** Returns a reason if the event has no effect, and undefined for an unknown type. */
function contentOfEvent(type: string, data: EventData): EventContent | string | undefined {
  const dot = type.indexOf('.');
  const noun = nounOf(type.slice(0, Math.max(0, dot)));
  return READERS.get(noun)?.(type.slice(dot + 1).toLowerCase(), data);
}

/** The readers of events by the noun of their type. */
const READERS = new Map<string, (verb: string, data: EventData) => EventContent | string | undefined>([
  ['task', taskEvent],
  ['workitem', linkEvent],
  ['pullrequest', recordEvent],
  ['document', documentEvent],
]);

function nounOf(name: string): string {
  return name.replaceAll(/[_-]/g, '').toLowerCase();
}

/** Returns the ids that the event names. Its `id` counts only if it is of the given kind. */
function resourceOf(data: EventData, noun: string): z.infer<typeof resourceShape> {
  const { type, id: ownId, ...others } = resourceShape.parse(data['resource']);
  return { ...others, id: type === undefined || nounOf(type) === noun ? ownId : undefined };
}

/** Requests a read of the task after an unknown verb, because the task may be gone. */
function taskEvent(verb: string, data: EventData): EventContent | string {
  const content = contentOf(data, 'task');
  const resource = resourceOf(data, 'task');
  const taskIds = unique([...resource.taskIds, resource.taskId ?? idsShape.parse(content).taskId ?? resource.id]);
  const task = taskShape.safeParse(content);
  // A field that the event leaves out would overwrite the known value.
  const isWhole =
    task.success &&
    typeof content?.['title'] === 'string' &&
    typeof content['status'] === 'string' &&
    taskIds.every((taskId) => taskId === task.data.taskId);
  if (isWhole && ['created', 'updated'].includes(verb)) return ['saw-task', task.data];
  if (taskIds.length === 0) return 'the event names no task';
  return named({ taskIds, isNew: verb === 'created' });
}

function linkEvent(verb: string, data: EventData): EventContent | string {
  const content = contentOf(data, 'workItem');
  const resource = resourceOf(data, 'workitem');
  const ids = idsShape.parse(content);
  const taskId = ids.taskId ?? resource.taskId;
  const workItemId = ids.workItemId ?? resource.workItemId ?? resource.id;
  const link = linkShape.safeParse(content);
  if (verb === 'created' && link.success && taskId !== undefined) return ['saw-link', { ...link.data, taskId }];
  if (verb === 'deleted' && workItemId !== undefined && taskId !== undefined)
    return ['saw-link-removed', { taskId, workItemId }];
  const linkTaskIds = unique([...resource.taskIds, taskId]);
  if (linkTaskIds.length === 0) return 'the event does not name the task of the link';
  return named({ linkTaskIds, ...(verb === 'created' && { workItemId }) });
}

function recordEvent(verb: string, data: EventData): EventContent | string | undefined {
  if (!['created', 'updated'].includes(verb)) return undefined;
  const record = recordShape.safeParse(contentOf(data, 'pullRequest'));
  if (!record.success) return 'the event does not carry the pull request';
  // The list of tasks is as of the time of the event. Links have events of their own.
  const { taskIds: _, ...content } = record.data;
  return [verb === 'created' ? 'saw-record' : 'saw-record-edit', content];
}

function documentEvent(verb: string, data: EventData): EventContent | string {
  const content = contentOf(data, 'document');
  const resource = resourceOf(data, 'document');
  const documentId = idsShape.parse(content).documentId ?? resource.documentId ?? resource.id;
  if (documentId === undefined) return 'the event names no document';
  const document = listedDocument.safeParse(content);
  const isMissing = verb === 'deleted';
  // Without the field, the document would seem to be detached.
  const isWhole = document.success && content?.['taskId'] !== undefined && ['created', 'updated'].includes(verb);
  if (!isWhole && !isMissing) return named({ documentIds: [documentId] });
  const { taskId = null, updatedAt = null } = document.data ?? {};
  return ['saw-documents', { documents: [{ documentId, taskId, updatedAt, isMissing }] }];
}

function named(resources: NamedResources): EventContent {
  return ['named', resources];
}

/**
 * Returns the resource that the event carries, under its camelCase or snake_case name, perhaps nested once more under
 * that name.
 */
function contentOf(data: EventData, name: string): EventData | undefined {
  const names = [name, name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
  const outer = objectIn(data, names);
  return outer && (objectIn(outer, names) ?? outer);
}

function objectIn(data: EventData, names: readonly string[]): EventData | undefined {
  const values = names.filter((name) => Object.hasOwn(data, name)).map((name) => data[name]);
  return values.find(
    (value): value is EventData => typeof value === 'object' && value !== null && !Array.isArray(value),
  );
}

function unique(given: readonly (string | undefined)[]): string[] {
  return [...new Set(given.filter((each) => each !== undefined))].slice(0, MAX_IDS);
}

function readJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString());
  } catch (error) {
    throw new SyncError('delivery_malformed', 'the event is not JSON', { cause: error });
  }
}

function parse<Shape extends z.ZodType>(shape: Shape, value: unknown): z.output<Shape> {
  const { data, error } = shape.safeParse(value);
  if (error === undefined) return data as z.output<Shape>;
  const places = error.issues.map(({ path }) => path.join('.')).join(', ');
  throw new SyncError('delivery_malformed', `fields of the event are missing or invalid: ${places}`);
}
