import { entity as entityName, type RequestOutcome } from '../../model/change.ts';
import type { ListPage } from '../../model/delivery.ts';
import type { SyncError } from '../../model/errors/sync-error.ts';
import type { TaskUpdate } from '../../model/task.ts';
import { isTaskCached } from '../../store/cached-tasks.ts';
import { findEntity, json, linksOfTask, saveEntity } from '../../store/entities.ts';
import { findChange, findChanges, removeChange, updateChange } from '../../store/outbox-rows.ts';
import {
  noteListRefused,
  noteRecordRefused,
  noteRouteRefused,
  type OptionalRoute,
  type RouteRefusal,
  readRecordsRoute,
  routeOffUntil,
  wasAnsweredRecently,
} from '../../store/server-capabilities.ts';
import { noteCreationRefused, resumeAfterCreation } from '../../store/task-creations.ts';
import { noteStatusRefused, readTaskUpdateFacts, suspectForm } from '../../store/task-update-facts.ts';
import { appendAnswer } from '../../store/workspace-answers.ts';
import { enqueueReads, enqueueTaskListRead, tasksWereRead } from '../../store/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { isCredentialRefused, PROBE_EVERY } from './breaker.ts';
import { MAX_BLOCK } from './claim.ts';
import { LISTS, type ListPosition } from './list-pages.ts';
import { OPTIONAL_READS, type PreparedRequest } from './request.ts';
import { closeRecords, NOT_SENT, pendingAgain, type SettleContext, settleAnswer } from './settle.ts';

/** A change is held when it is refused for good, or after this many attempts while other writes succeed. */
export const MAX_ATTEMPTS = 5;

export interface FailureContext extends SettleContext {
  /** No request succeeds at present, so no single change is at fault. */
  readonly outage: boolean;
  /** Other writes succeeded since the previous failure of this one, and none of them had failed too. */
  readonly atFault: boolean;
  /** The workspace answered other requests while this one failed. */
  readonly othersAnswered?: boolean;
}

/** The outcome of a request that was not answered with a success. */
export type FailureOutcome = Exclude<RequestOutcome, 'answered'>;

/** Settles a refusal that has a meaning for this kind of request; undefined if it has none. */
export async function settleRefusal(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  context: FailureContext,
): Promise<FailureOutcome | undefined> {
  return (
    (await settleRefusedUpdate(query, prepared, error, context)) ??
    (await settleRefusedList(query, prepared, error, context)) ??
    (await settleRefusedRead(query, prepared, error, context)) ??
    (await settleRefusedLink(query, prepared, error, context)) ??
    (await settleRefusedCreation(query, prepared, error, context)) ??
    (await settleRefusedRecord(query, prepared, error, context))
  );
}

/** Whether the status is a client error that does not end by itself, whichever server answered. */
export function isLastingClientError({ status = 0 }: SyncError): boolean {
  return status >= 400 && status < 500 && ![401, 408, 425, 429].includes(status);
}

/** Whether the server may have carried out the write: no answer came, or one that does not show it. */
export function isOutcomeUnknown({ code }: SyncError): boolean {
  return ['outcome_unknown', 'server_failed', 'answer_malformed', 'answer_too_large'].includes(code);
}

/** Returns code and message of a failure, as they are stored. */
export function errorText({ code, message }: SyncError): string {
  return `${code}: ${message}`.slice(0, 500);
}

/** Holds a refused change. If its desired state changed while the request was in flight, it is pending instead. */
export async function holdUnlessChanged(
  query: Scope,
  prepared: PreparedRequest,
  error: string,
): Promise<FailureOutcome> {
  const change = await findChange(query, prepared.entity);
  const hasChanged = change?.next_since != null;
  await updateChange(query, prepared.entity, {
    ...pendingAgain(prepared),
    state: hasChanged ? 'pending' : 'held',
    attempts: 0,
    next_since: null,
    error,
  });
  return hasChanged ? 'again' : 'held';
}

/** Settles a request as if this had been its answer. */
async function settleAs(
  query: Scope,
  prepared: PreparedRequest,
  answer: { readonly body: unknown; readonly page?: ListPage },
  context: SettleContext,
): Promise<FailureOutcome> {
  await settleAnswer(query, prepared, { id: context.random.uuid(), ...answer }, context);
  return 'settled';
}

/** Statuses with which servers refuse a route. */
const ROUTE_REFUSALS: ReadonlySet<number> = new Set([404, 405, 501]);

/**
 * Settles the refused update of a task, or the refused read before it. A refused form is replaced by another one first,
 * because the refusal does not show which field is at fault. Then the status is: it is switched off.
 */
async function settleRefusedUpdate(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  context: FailureContext,
): Promise<FailureOutcome | undefined> {
  if (prepared.kind !== 'task_update' || isCredentialRefused(prepared, error)) return undefined;
  if (prepared.action === 'read-task') return settleRefusedUpdateRead(query, prepared, error, context);
  const { now } = context;
  const { entity, attempts, update } = prepared;
  const { status = 0 } = error;
  if (error.code === 'status_unknown') return switchStatusOff(query, prepared, error);
  // The task has changed since it was read, or it is gone.
  if (status === 412 || (status === 404 && !update?.hasRead)) return repeatUpdate(query, prepared, error, context);
  if (ROUTE_REFUSALS.has(status) && error.own) {
    await noteRouteRefused(query, 'updateTask', { status, resource: entity, isCertain: true }, now);
    await updateChange(query, entity, {
      ...pendingAgain(prepared),
      not_before: now + MAX_BLOCK,
      error: errorText(error),
    });
    return 'again';
  }
  if (!isContentRefused(status) || update === undefined) return undefined;
  const { verified = {}, readOnly } = await readTaskUpdateFacts(query);
  const isFormAccepted = verified[update.form] !== undefined;
  if (update.form === 'fields' && !isFormAccepted) await suspectForm(query, 'fieldsOff');
  else if (update.form === 'whole' && !isFormAccepted && readOnly === undefined) await suspectForm(query, 'readOnly');
  else if (!update.fields.includes('status')) return undefined;
  else if (prepared.observed !== undefined) await leaveFieldsOut(query, prepared);
  else return switchStatusOff(query, prepared, error);
  await updateChange(query, entity, { ...pendingAgain(prepared), attempts, not_before: now, error: errorText(error) });
  return 'again';
}

/** Leaves out the fields of a refused update, so that they do not delay its status. The next evaluation wants them alone. */
async function leaveFieldsOut(query: Scope, { entity }: PreparedRequest): Promise<void> {
  const row = await findEntity(query, entity);
  const wanted = json<TaskUpdate>(row?.desired ?? null);
  if (row === undefined || wanted === undefined) return;
  const { fields: _, expected: _expected, itemLabels: _itemLabels, ...others } = wanted;
  await saveEntity(query, { ...row, desired: JSON.stringify(others) });
}

async function repeatUpdate(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  { now }: FailureContext,
): Promise<FailureOutcome> {
  const attempts = prepared.attempts + 1;
  await updateChange(query, prepared.entity, {
    ...pendingAgain(prepared),
    attempts,
    not_before: attempts < MAX_ATTEMPTS - 1 ? now : now + PROBE_EVERY,
    error: errorText(error),
  });
  return 'again';
}

async function switchStatusOff(
  query: Scope,
  prepared: PreparedRequest,
  { message }: SyncError,
): Promise<FailureOutcome> {
  const { status = '' } = prepared.body as unknown as TaskUpdate;
  const error = `status_unknown: ${message}`.slice(0, 500);
  await noteStatusRefused(query, status, { word: prepared.update?.word ?? status, error });
  return holdUnlessChanged(query, prepared, error);
}

/**
 * Settles the refusal of the read before an update. "Not found" means that the task is gone if the route is known to
 * work, or if no list contains the task. A second refusal after a list with the task concerns the route: updates wait.
 */
async function settleRefusedUpdateRead(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  context: FailureContext,
): Promise<FailureOutcome | undefined> {
  const { status = 0 } = error;
  const { entity, taskId, attempts, isChecked = false } = prepared;
  const { now, usedShare } = context;
  const isAbsent = error.own && error.code === 'not_found';
  if (isAbsent && (await isAbsenceCertain(query, 'getTask', taskId, now))) {
    const gone = { action: 'update-task', entity, sentAt: prepared.sentAt, body: null } as const;
    await appendAnswer(query, gone, context.random.uuid(), now);
    await removeChange(query, entity);
    return 'settled';
  }
  if (!isLastingClientError(error) && status !== 501) return undefined;
  const isOff = await noteRouteRefused(query, 'getTask', { status, resource: entity, isCertain: isChecked }, now);
  // The refused reads of other work say nothing about updates; this one does.
  if (isOff) await noteRouteRefused(query, 'updateTask', { status, resource: entity, isCertain: true }, now);
  if (isAbsent && !isOff) await enqueueTaskListRead(query, { now, usedShare, lane: 'read', notBefore: 0 });
  await updateChange(query, entity, {
    ...pendingAgain(prepared),
    attempts: isOff ? 0 : attempts + 1,
    awaits: isOff ? null : 'check',
    not_before: now + (isOff ? MAX_BLOCK : PROBE_EVERY),
    error: errorText(error),
  });
  return 'again';
}

/** How often a list is restarted before it ends as incomplete. */
const MAX_RESTARTS = 2;

/**
 * Restarts a list whose cursor is refused, because a server that has forgotten a cursor never accepts it again.
 * A refused first page of the records may show that the server has no route for records.
 */
async function settleRefusedList(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  context: FailureContext,
): Promise<FailureOutcome | undefined> {
  const name = LISTS[prepared.action];
  if (name === undefined) return undefined;
  const { cursor, limit, restarts = 0, began = prepared.sentAt } = prepared.body as ListPosition;
  const isPositionRefused = (cursor ?? limit) !== undefined && isLastingClientError(error);
  if (isPositionRefused && cursor !== undefined && restarts < MAX_RESTARTS) {
    await updateChange(query, prepared.entity, {
      ...pendingAgain(prepared),
      sent: JSON.stringify({ restarts: restarts + 1 } satisfies ListPosition),
      not_before: context.now,
      error: errorText(error),
    });
    return 'again';
  }
  if (isPositionRefused) {
    const page = { began, isEnd: true, isComplete: false };
    return settleAs(query, prepared, { body: { [name]: [] }, page }, context);
  }
  if (prepared.action !== 'read-pull-requests' || error.code === 'unauthorized') return undefined;
  // The list of tasks shows whether the workspace accepts our requests at all.
  const isWorkspaceRead = await tasksWereRead(query);
  const isClosed = await noteListRefused(query, refusalOf(error), { now: context.now, isWorkspaceRead });
  if (!isClosed) return undefined;
  await closeRecords(query, context.now);
  return 'settled';
}

function refusalOf(error: SyncError): RouteRefusal {
  return { status: error.status, own: error.own, error: errorText(error) };
}

/**
 * Settles the refusal of a read that other work does not depend on. "Not found" is an answer only if it certainly
 * concerns this one thing. Otherwise the list of tasks shows whether the task still exists.
 */
async function settleRefusedRead(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  context: FailureContext,
): Promise<FailureOutcome | undefined> {
  const route = prepared.kind === 'read' ? OPTIONAL_READS[prepared.action] : undefined;
  if (route === undefined || error.status === undefined || isCredentialRefused(prepared, error)) return undefined;
  const { action, entity, taskId } = prepared;
  const { now, usedShare } = context;
  const isAbsent = error.own && error.code === 'not_found';
  if (isAbsent && (await isAbsenceCertain(query, route, taskId, now)))
    return settleAs(query, prepared, { body: absenceOf(prepared) }, context);
  const isOff = await noteRouteRefused(query, route, { status: error.status, resource: entity }, now);
  // An empty answer requests the list of tasks, which contains the task too.
  if (action === 'read-task' && (isLastingClientError(error) || error.code === 'answer_malformed'))
    return settleAs(query, prepared, { body: null }, context);
  if (isOff) {
    await endUntilRouteIsOn(query, entity, now);
    return 'settled';
  }
  if (!isLastingClientError(error)) return undefined;
  if (prepared.isChecked) return giveUpRead(query, prepared, errorText(error));
  if (isAbsent && taskId !== null) await enqueueTaskListRead(query, { now, usedShare, lane: 'read', notBefore: 0 });
  await updateChange(query, entity, {
    ...pendingAgain(prepared),
    attempts: prepared.attempts + 1,
    awaits: 'check',
    not_before: now + PROBE_EVERY,
    error: errorText(error),
  });
  return 'again';
}

/** Whether the route works, or the task is known to be gone: then "not found" concerns this one thing. */
async function isAbsenceCertain(
  query: Scope,
  route: OptionalRoute,
  taskId: string | null,
  now: number,
): Promise<boolean> {
  if (await wasAnsweredRecently(query, route, now)) return true;
  return taskId !== null && !(await isTaskCached(query, taskId));
}

/** Returns the answer that an absent thing stands for: a task that is gone has no links, and a document is missing. */
function absenceOf({ action }: PreparedRequest): unknown {
  return action === 'read-links' ? { workItems: [] } : null;
}

/** Removes a read whose route is switched off. A read that a removal depends on waits for the route instead. */
async function endUntilRouteIsOn(query: Scope, entity: string, now: number): Promise<void> {
  const change = await findChange(query, entity);
  if (change?.effect !== 'removal') return removeChange(query, entity);
  await updateChange(query, entity, { ...NOT_SENT, state: 'pending', not_before: now + MAX_BLOCK });
}

/** Holds the links that wait for a read of their task: links that cannot be checked need approval. */
async function giveUpRead(query: Scope, { entity, taskId }: PreparedRequest, error: string): Promise<FailureOutcome> {
  await removeChange(query, entity);
  const links = taskId === null ? [] : (await linksOfTask(query, taskId)).map((row) => row.entity);
  for (const change of await findChanges(query, links))
    if (change.state === 'pending' && change.awaits !== null)
      await updateChange(query, change.entity, { state: 'held', error });
  return 'settled';
}

/**
 * Settles the removal of a link that is gone already, or the addition of a link that exists already. The links of the
 * task show whether that is so. If they cannot be read, the refusal of the workspace is believed.
 */
async function settleRefusedLink(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  context: FailureContext,
): Promise<FailureOutcome | undefined> {
  const { action, entity, attempts, taskId, isChecked } = prepared;
  const isGone = action === 'remove-link' && error.code === 'not_found';
  const isDuplicate = action === 'add-link' && error.code === 'conflict';
  if (!isGone && !isDuplicate) return undefined;
  const { now } = context;
  if ((await routeOffUntil(query, 'listWorkItems', now)) !== undefined)
    return isGone && error.own ? settleAs(query, prepared, { body: null }, context) : undefined;
  if (isChecked) {
    // The links were read without an effect. A record that was read at the same time may have shown the link.
    const isKnown = isDuplicate && prepared.open && (await findEntity(query, entity))?.known != null;
    if (isKnown) return settleAs(query, prepared, { body: null }, context);
    return holdUnlessChanged(query, prepared, errorText(error));
  }
  await enqueueReads(query, [entityName.readLinks(taskId as string)], now, prepared.lane);
  await updateChange(query, entity, {
    ...pendingAgain(prepared),
    attempts: attempts + 1,
    awaits: 'check',
    not_before: now + MAX_BLOCK,
    error: errorText(error),
  });
  return 'again';
}

/** Statuses with which servers refuse the content of a creation or an update. */
const CONTENT_REFUSALS: ReadonlySet<number> = new Set([400, 409, 422]);

export function isContentRefused(status: number | undefined): boolean {
  return CONTENT_REFUSALS.has(status ?? 0);
}

/** Repeats a refused creation without its optional fields, because the server may refuse only one of them. */
async function settleRefusedCreation(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  { now }: FailureContext,
): Promise<FailureOutcome | undefined> {
  if (prepared.action !== 'create-task') return undefined;
  if (!isOutcomeUnknown(error)) await resumeAfterCreation(query, now);
  if (!isContentRefused(error.status)) return undefined;
  const without = await noteCreationRefused(query, prepared.entity, prepared.body, now);
  if (without === undefined) return holdUnlessChanged(query, prepared, errorText(error));
  await updateChange(query, prepared.entity, {
    ...pendingAgain(prepared),
    attempts: 0,
    not_before: now,
    error: `${errorText(error)}; sent again without ${without.join(', ')}`.slice(0, 500),
  });
  return 'again';
}

/** Drops a refused record if the refusals show that the workspace has no route for records. */
async function settleRefusedRecord(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  { now }: FailureContext,
): Promise<FailureOutcome | undefined> {
  if (prepared.action !== 'record-pull-request') return undefined;
  const isClosed = await noteRecordRefused(query, refusalOf(error), now);
  if (isClosed) await closeRecords(query, now);
  if (!isClosed && (await readRecordsRoute(query)).state !== 'closed') return undefined;
  await removeChange(query, prepared.entity);
  return 'settled';
}
