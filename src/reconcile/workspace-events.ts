import { z } from 'zod';
import { SyncError } from '../errors/sync-error.ts';
import type { Delivery } from '../model/delivery.ts';
import type { Answer } from '../store/workspace-answers.ts';
import { linkShape, recordShape, standingDocument, taskShape } from './answers/shapes.ts';

/** What a webhook of the workspace says, in the words of an answer; or why it says nothing of interest. */
export type Told =
  | { readonly outcome: 'answer'; readonly answer: Answer }
  | { readonly outcome: 'ignored'; readonly reason: string };

const dataShapes = {
  'task.created': z.object({ task: taskShape }),
  'task.updated': z.object({ task: taskShape }),
  'work_item.created': z.object({ work_item: linkShape.extend({ taskId: z.string() }) }),
  'work_item.deleted': z.object({ work_item: linkShape.extend({ taskId: z.string() }) }),
  'pull_request.created': z.object({ pull_request: recordShape }),
  'pull_request.updated': z.object({ pull_request: recordShape }),
  'document.created': z.object({ document: standingDocument }),
  'document.updated': z.object({ document: standingDocument }),
  'document.deleted': z.object({ document: standingDocument }),
};

const eventShape = z.object({
  type: z.string(),
  data: z.unknown().optional(),
  workspaceid: z.string().optional().catch(undefined),
});

/**
 * Reads a CloudEvent of the workspace (W65). The signed body says its type, not the header. The payload
 * is whole, so nothing need be read. Throws `delivery_malformed`.
 */
export function translateEvent({ body, receivedAt }: Pick<Delivery, 'body' | 'receivedAt'>): Told {
  const { type, data, workspaceid: workspaceId } = parse(eventShape, readJson(body));
  const told = (action: Answer['action'], content: unknown): Told => ({
    outcome: 'answer',
    answer: { action, entity: '', sentAt: receivedAt, body: content, ...(workspaceId && { workspaceId }) },
  });
  switch (type) {
    case 'task.created':
    case 'task.updated':
      return told('saw-task', parse(dataShapes[type], data).task);
    case 'work_item.created':
      return told('saw-link', parse(dataShapes[type], data).work_item);
    case 'work_item.deleted':
      return told('saw-link-removed', parse(dataShapes[type], data).work_item);
    case 'pull_request.created':
    case 'pull_request.updated': {
      // Its tasks are those of the moment of the event. Links have events of their own.
      const { taskIds: _, ...record } = parse(dataShapes[type], data).pull_request;
      return told(type === 'pull_request.created' ? 'saw-record' : 'saw-record-edit', record);
    }
    case 'document.created':
    case 'document.updated':
    case 'document.deleted': {
      const { documentId, taskId, updatedAt } = parse(dataShapes[type], data).document;
      const isMissing = type === 'document.deleted';
      return told('saw-documents', { documents: [{ documentId, taskId, updatedAt, isMissing }] });
    }
    default:
      return { outcome: 'ignored', reason: 'unknown event type' };
  }
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
