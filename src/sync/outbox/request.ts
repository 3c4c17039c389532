import { type Action, branchOfRecordsRead, entity as entityName, type RequestOutcome } from '../../model/change.ts';
import { DECISION, decisionOf, traceOf } from '../../model/delivery.ts';
import { itemLineIn, type TaskUpdate } from '../../model/task.ts';
import type { ObservedFields } from '../../model/written-task.ts';
import type { Span, SpanName } from '../../platform/lib/telemetry.ts';
import { type EntityRow, saveEntity } from '../../store/changes/entities.ts';
import type { OutboxRow } from '../../store/changes/outbox-rows.ts';
import type { addRequest } from '../../store/changes/requests.ts';
import { taskOfSource } from '../../store/tasks/stored-tasks.ts';
import { creationBody } from '../../store/tasks/task-creations.ts';
import { type OptionalRoute, routeOffUntil } from '../../store/workspace/server-capabilities.ts';
import { requestTaskList } from '../../store/workspace/workspace-reads.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import { ROUTES, type RouteName } from '../../workspace-api/contract.ts';
import type { ApiAnswer, SendContext, WorkspaceClient } from '../../workspace-api/typed-client.ts';

/** A claimed request. The outbox row stores it as JSON while it is in flight. */
export interface PreparedRequest {
  readonly action: Action;
  readonly entity: string;
  readonly kind: OutboxRow['kind'];
  readonly lane: OutboxRow['lane'];
  /** The request body; for a list read its position in the list; for a removal the ids. */
  readonly body: Readonly<Record<string, unknown>>;
  /** The known state after a success. Null: the workspace does not have the entity any more. */
  readonly known: string | null;
  readonly taskId: string | null;
  /** The number of deliveries that this request settles. Later ones wait for the next request. */
  readonly waiting: number;
  readonly attempts: number;
  /** This is a repetition: the outcome of an earlier attempt is unknown, and the server may have carried it out. A stored key. */
  readonly open: boolean;
  /** The last attempt was refused, and a read has been requested since that shows whether the refusal is right. A stored key. */
  readonly isChecked?: boolean;
  readonly sentAt: number;
  /** The position in the order of all requests, see `currentRevision` in `store/meta.ts`. */
  readonly revision: number;
  /** The request of an update that was sent last. A stored key. */
  readonly update?: SentUpdate | undefined;
  /** The synced fields of an update, as the read before it and its answer show them. */
  readonly observed?: ObservedFields;
  /** The read before an update showed another status than the one on which the decision was based. */
  readonly isOutdated?: boolean;
  /** Earlier updates of the task with another status, whose outcome is unknown. A stored key. */
  readonly attempted?: readonly TaskUpdate[];
  /** The one of them that has arrived, as the read before the update shows. */
  readonly arrived?: TaskUpdate | undefined;
  /** The last attempt ended with a conflict. A stored key. */
  readonly isConflicted?: boolean;
  /** For the history of requests. */
  readonly trace: RequestTrace;
}

/** The position of a list read. It is the body of the prepared request, and survives a crash in the outbox row. */
export interface ListPosition {
  readonly cursor?: string;
  /** Requests a longer page, because a first page may have been cut. */
  readonly limit?: number;
  /** The length of the first page, which may have been cut. */
  readonly first?: number;
  /** When the first page was requested, epoch milliseconds. */
  readonly began?: number;
  /** Digests of the cursors of this list so far. */
  readonly seen?: readonly string[];
  /** How often the list was restarted because a cursor was refused. */
  readonly restarts?: number;
}

/** The circumstances of a sent update, which decide what its refusal means. */
export interface SentUpdate {
  /** The task was read just before. */
  readonly hasRead: boolean;
  /** It was sent with `If-Match`. */
  readonly isConditional: boolean;
  /** The word of the server for the status that is set. */
  readonly word?: string;
}

/** The change and the deliveries that led to a request. Epoch milliseconds. */
export interface RequestTrace extends SlotTimes {
  readonly itemKey: string | null;
  /** The item's name for people, for logs; absent for a read. */
  readonly itemName?: string;
  readonly since: number;
  readonly due: number;
  /** The ids of the deliveries that the request settles. */
  readonly deliveries: readonly number[];
}

/** When a slot was requested, and when it was granted. Epoch milliseconds. */
export interface SlotTimes {
  readonly askedAt: number;
  readonly slotAt: number;
}

/** The part of a request that follows from desired and known state. */
export type RequestContent = Pick<PreparedRequest, 'action' | 'body' | 'known' | 'taskId'>;

/** The routes of reads that other work does not depend on. A server may lack them. */
export const OPTIONAL_READS: Readonly<Partial<Record<Action, OptionalRoute>>> = {
  'read-links': 'listWorkItems',
  'read-task': 'getTask',
  'read-document': 'getDocument',
};

/**
 * Computes the request for a change; undefined if nothing is to be sent.
 *
 * @param row the entity of a write; undefined for a read
 */
export async function requestFor(
  query: Scope,
  change: OutboxRow,
  row: EntityRow | undefined,
  now: number,
): Promise<RequestContent | undefined> {
  if (change.kind === 'read') return readUnlessOff(query, change, now);
  return row && writeUnlessExisting(query, change, row);
}

/** Returns the body without the fields that the server is known to refuse. */
export async function bodyToSend(query: Scope, entity: string, { action, body }: RequestContent, now: number) {
  return action === 'create-task' ? creationBody(query, entity, body, now) : body;
}

/** Returns the request of a read; undefined while its route is switched off. */
async function readUnlessOff(query: Scope, change: OutboxRow, now: number): Promise<RequestContent | undefined> {
  const request = readFor(change);
  const route = OPTIONAL_READS[request.action];
  if (route === undefined || (await routeOffUntil(query, route, now)) === undefined) return request;
  if (request.action === 'read-task') await requestTaskList(query, now);
  return undefined;
}

/** Returns the request of a write. If the workspace already has the task, from anyone, stores that instead. */
async function writeUnlessExisting(
  query: Scope,
  change: OutboxRow,
  row: EntityRow,
): Promise<RequestContent | undefined> {
  const line = itemLineIn(json<{ description?: string }>(row.desired)?.description);
  const existing = change.kind === 'task' && row.item_key ? await taskOfSource(query, row.item_key, line) : undefined;
  if (existing === undefined) return writeFor(change, row);
  await saveEntity(query, { ...row, known: row.desired ?? '{}', remote_id: existing.taskId });
  return undefined;
}

function readFor({ entity, sent }: OutboxRow): RequestContent {
  const none = { known: null, taskId: null };
  if (entity === entityName.readTasks) return { ...none, action: 'read-tasks', body: json(sent) ?? {} };
  const taskPrefix = entityName.readTask('');
  if (entity.startsWith(taskPrefix)) {
    return { ...none, action: 'read-task', body: {}, taskId: entity.slice(taskPrefix.length) };
  }
  if (entity === entityName.readPullRequests) {
    return { ...none, action: 'read-pull-requests', body: json(sent) ?? {} };
  }
  const branch = branchOfRecordsRead(entity);
  if (branch) return { ...none, action: 'read-records', body: branch };
  const documentPrefix = entityName.readDocument('');
  if (entity.startsWith(documentPrefix)) {
    return { ...none, action: 'read-document', body: { documentId: entity.slice(documentPrefix.length) } };
  }
  return { ...none, action: 'read-links', body: {}, taskId: entity.slice(entityName.readLinks('').length) };
}

/** Computes a write from desired and known state; undefined if there is no difference to send. */
export function writeFor(change: Pick<OutboxRow, 'kind' | 'sent'>, row: EntityRow): RequestContent | undefined {
  // Repeat a link whose outcome is unknown: only the answer shows whether it exists, and only then can it be undone.
  if (change.kind === 'link' && change.sent !== null) return repetitionOf(change.sent);
  const desired = json(row.desired);
  switch (change.kind) {
    case 'pull_request':
      return recordFor(row, desired);
    case 'task':
      return creationFor(row, desired);
    case 'task_update':
      return updateFor(row, desired);
    case 'document':
      return attachmentFor(row, desired);
    default:
      return linkFor(row, desired);
  }
}

type Desired = Readonly<Record<string, unknown>> | undefined;

function repetitionOf(sent: string): RequestContent {
  const { action, body, known, taskId } = JSON.parse(sent) as PreparedRequest;
  return { action, body, known, taskId };
}

function recordFor(row: EntityRow, desired: Desired): RequestContent | undefined {
  if (desired === undefined) return undefined;
  return { action: 'record-pull-request', body: desired, known: row.desired, taskId: null };
}

function creationFor(row: EntityRow, desired: Desired): RequestContent | undefined {
  if (desired === undefined || row.known !== null) return undefined;
  return { action: 'create-task', body: desired, known: row.desired, taskId: null };
}

function updateFor(row: EntityRow, desired: Desired): RequestContent | undefined {
  if (desired === undefined) return undefined;
  return { action: 'update-task', body: desired, known: row.desired, taskId: row.task_id };
}

/** Attaches a document only if it is known to belong to no task. Otherwise another task would lose it. */
function attachmentFor(row: EntityRow, desired: Desired): RequestContent | undefined {
  const known = json(row.known);
  const isFree = known !== undefined && known['taskId'] === null && row.hand !== 'removed';
  if (desired === undefined || !isFree) return undefined;
  const attached = JSON.stringify({ taskId: row.task_id, isMissing: false });
  return { action: 'attach-document', body: desired, known: attached, taskId: row.task_id };
}

/** Adds a link unless a person removed it. Removes a link unless a person wants it. */
function linkFor(row: EntityRow, desired: Desired): RequestContent | undefined {
  const taskId = row.task_id as string;
  if (desired !== undefined && row.known === null && row.hand !== 'removed') {
    const { reason: _, ...body } = desired;
    return { action: 'add-link', body, known: JSON.stringify(body), taskId };
  }
  if (desired === undefined && row.known !== null && row.remote_id !== null && row.hand === null) {
    return { action: 'remove-link', body: { workItemId: row.remote_id }, known: null, taskId };
  }
  return undefined;
}

/** The end of a request, for its row in the history. */
interface RequestEnd {
  /** Epoch milliseconds. */
  readonly now: number;
  readonly outcome: RequestOutcome;
  /** Status of the answer; absent if none came. */
  readonly status?: number;
  /** Code and message of the failure. */
  readonly error?: string;
  /** The id under which the answer was appended to the inbox. */
  readonly answer?: string;
}

/**
 * Returns the row of the history for a finished request: its entity, its deliveries, and the time of each step.
 * A request in flight has no row, because the state of its change shows it.
 */
export function historyRow(
  prepared: PreparedRequest,
  { now, outcome, status, error, answer }: RequestEnd,
): Parameters<typeof addRequest>[1] {
  const { entity, kind, action, lane, taskId, sentAt, attempts, trace } = prepared;
  return {
    entity,
    kind,
    action,
    lane,
    outcome,
    task_id: taskId,
    item_key: trace.itemKey,
    since: trace.since,
    due: trace.due,
    asked_at: trace.askedAt,
    slot_at: trace.slotAt,
    sent_at: sentAt,
    completed_at: now,
    status: status ?? null,
    error: error ?? null,
    attempt: attempts + 1,
    answer: answer ?? null,
    deliveries: JSON.stringify(trace.deliveries),
  };
}

/** The end of a request, for its spans. Epoch milliseconds. */
export interface SpanEnd {
  /** When the answer or the failure came. */
  readonly answeredAt: number;
  /** When it was stored. */
  readonly settledAt: number;
  readonly outcome: RequestOutcome;
  readonly status?: number;
  /** Code of the failure. */
  readonly error?: string;
}

/**
 * Returns the spans of a finished request: the wait for a slot, the sending and the settling, below one parent.
 * They belong to the trace of the first delivery that the request settles, and link to the decisions about the others.
 * A request without deliveries is a trace of its own.
 *
 * @param workspace the number of the workspace
 */
export function requestSpans(prepared: PreparedRequest, workspace: number, end: SpanEnd): readonly Span[] {
  const { trace, sentAt, action, lane, kind, attempts } = prepared;
  const { answeredAt, settledAt, outcome, status, error } = end;
  const [first, ...others] = trace.deliveries;
  const of = requestSpanName(prepared, workspace);
  const child = (span: string) => ({ of: { trace: of.trace, span: `${of.span} ${span}` }, parent: of.span });
  const { method, path } = ROUTES[routeOf(prepared)];
  const common = { 'worksync.action': action, 'worksync.lane': lane, 'worksync.attempt': attempts + 1 };
  return [
    {
      of,
      name: 'request',
      kind: 'internal',
      from: trace.askedAt,
      to: settledAt,
      error,
      parent: first === undefined ? undefined : DECISION,
      links: others.map(decisionOf),
      attributes: {
        ...common,
        'worksync.kind': kind,
        'worksync.outcome': outcome,
        'worksync.item': trace.itemKey ?? undefined,
        'worksync.deliveries': trace.deliveries.length,
      },
    },
    {
      ...child('slot'),
      name: 'wait for slot',
      kind: 'internal',
      from: trace.askedAt,
      to: trace.slotAt,
      attributes: common,
    },
    {
      parent: of.span,
      of: sendSpanName(prepared, workspace),
      name: 'send',
      kind: 'client',
      from: sentAt,
      to: answeredAt,
      error,
      attributes: {
        ...common,
        'http.request.method': method,
        'url.template': path,
        'http.response.status_code': status,
        'error.type': error,
        'http.request.resend_count': attempts > 0 ? attempts : undefined,
      },
    },
    { ...child('settle'), name: 'settle', kind: 'internal', from: answeredAt, to: settledAt, attributes: common },
  ];
}

/** Returns the name of the span that the workspace may use as the parent of its own spans. */
export function sendSpanName(prepared: PreparedRequest, workspace: number): SpanName {
  const { trace, span } = requestSpanName(prepared, workspace);
  return { trace, span: `${span} send` };
}

function requestSpanName({ trace, entity, sentAt }: PreparedRequest, workspace: number): SpanName {
  const span = `request ${workspace} ${entity} ${sentAt}`;
  const [first] = trace.deliveries;
  return { trace: first === undefined ? span : traceOf(first), span };
}

const ROUTE_OF: Readonly<Record<Exclude<Action, 'create-task'>, RouteName>> = {
  'read-tasks': 'listTasks',
  'read-task': 'getTask',
  'read-pull-requests': 'listPullRequestRecords',
  'read-records': 'listPullRequestRecords',
  'read-links': 'listWorkItems',
  'read-document': 'getDocument',
  'attach-document': 'attachDocument',
  'record-pull-request': 'recordPullRequest',
  'add-link': 'addWorkItem',
  'update-task': 'updateTask',
  'remove-link': 'removeWorkItem',
};

/** Returns the route of the workspace API that the request is for. */
function routeOf({ action, body }: PreparedRequest): RouteName {
  if (action !== 'create-task') return ROUTE_OF[action];
  return body['kind'] === 'idea' ? 'createIdea' : 'createBug';
}

/** The page length of the list of records. */
export const RECORDS_PER_PAGE = 100;

/** A request that takes one slot; see `update-task.ts` for the others. */
type PlainRequest = PreparedRequest & { readonly action: Exclude<Action, 'update-task'> };

export function isPlain(prepared: PreparedRequest): prepared is PlainRequest {
  return prepared.action !== 'update-task';
}

/** Sends a request through the client, apart from updates of tasks. Throws what the client throws. */
export function sendRequest(
  client: WorkspaceClient<SendContext>,
  prepared: PlainRequest,
  context: SendContext,
): Promise<ApiAnswer<unknown>> {
  // The body was built for exactly this route, and then stored in the outbox row as JSON.
  return client[routeOf(prepared)](parametersOf(prepared) as never, context);
}

function parametersOf({ action, taskId, body }: PlainRequest): object {
  const { cursor, limit } = body as ListPosition;
  const page = { ...(cursor !== undefined && { cursor }), ...(limit !== undefined && { limit }) };
  switch (action) {
    case 'read-tasks':
      return { query: { all: true, ...page } };
    case 'read-pull-requests':
      return { query: { limit: RECORDS_PER_PAGE, ...page } };
    case 'read-records':
      return { query: { limit: RECORDS_PER_PAGE, ...body } };
    case 'read-task':
    case 'read-links':
      return { taskId };
    case 'read-document':
    case 'remove-link':
      return { ...body, taskId };
    case 'create-task': {
      const { kind: _, ...task } = body;
      return { body: task };
    }
    default:
      return { taskId, body };
  }
}
