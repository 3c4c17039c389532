import { entity as entityName, type RequestOutcome } from '../../model/change.ts';
import type { ListPage } from '../../model/delivery.ts';
import type { SyncError } from '../../model/errors.ts';
import type { TaskUpdate } from '../../model/task.ts';
import { findEntity, linksOfTask, saveEntity } from '../../store/changes/entities.ts';
import { findChange, findChanges, removeChange, updateChange } from '../../store/changes/outbox-rows.ts';
import { isTaskCached, noteIfMatchRefused, noteStatusRefused } from '../../store/tasks/stored-tasks.ts';
import { noteCreationRefused, resumeAfterCreation } from '../../store/tasks/task-creations.ts';
import {
  noteListRefused,
  noteRecordRefused,
  noteRouteRefused,
  type OptionalRoute,
  ROUTE_REFUSALS,
  type RouteRefusal,
  readRecordsRoute,
  routeOffUntil,
  wasAnsweredRecently,
} from '../../store/workspace/server-capabilities.ts';
import {
  appendAnswer,
  enqueueReads,
  enqueueTaskListRead,
  tasksWereRead,
} from '../../store/workspace/workspace-reads.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import { isCredentialRefused, PROBE_EVERY } from './breaker.ts';
import { MAX_BLOCK } from './claim.ts';
import { type ListPosition, OPTIONAL_READS, type PreparedRequest } from './request.ts';
import { closeRecords, LISTS, NOT_SENT, pendingAgain, type SettleContext, settleAnswer } from './settle.ts';

/** A change is held when it is refused for good, or after this many attempts while other writes succeed. */
export const MAX_ATTEMPTS = 5;

/** The outcome of a request that was not answered with a success. */
export type FailureOutcome = Exclude<RequestOutcome, 'answered'>;

/** Settles a failed request; undefined if the failure has no meaning for this kind of request. */
export type Settle<Outcome = FailureOutcome | undefined> = (
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  context: SettleContext,
) => Promise<Outcome>;

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

/** Requests the list of tasks, which shows the meaning of the refusal, and repeats the request afterwards. */
export const againAfterTaskList: Settle<FailureOutcome> = async (query, prepared, error, { now, usedShare }) => {
  await enqueueTaskListRead(query, { now, usedShare, lane: 'read', notBefore: 0 });
  return repeatAfterCheck(query, prepared, error, now);
};

async function repeatAfterCheck(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  now: number,
): Promise<FailureOutcome> {
  await updateChange(query, prepared.entity, {
    ...pendingAgain(prepared),
    attempts: prepared.attempts + 1,
    awaits: 'check',
    not_before: now + PROBE_EVERY,
    error: errorText(error),
  });
  return 'again';
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

/** Whether the present state of the target forbids a write (409, 412). Such a write is not held at once, but repeated from that state. */
export function isConflict({ code }: SyncError): boolean {
  return code === 'conflict';
}

/** Returns how many attempts failed before this one. For a conflict, only conflicts just before it count. */
export function failuresBefore({ attempts, isConflicted = false }: PreparedRequest, error: SyncError): number {
  return isConflict(error) && !isConflicted ? 0 : attempts;
}

/** Number of 412 answers in a row, each just after a read, that show that the server never matches `If-Match` for a task. */
const UNMATCHED_ATTEMPTS = 2;

/**
 * Settles the refused update of a task, or the refused read before it. All forms were refused, so a status in the update
 * is at fault, but perhaps for this task only: the change is held, and the status is switched off once three tasks
 * have refused it.
 */
const settleRefusedUpdate: Settle = async (query, prepared, error, context) => {
  if (prepared.kind !== 'task_update' || isCredentialRefused(prepared, error)) return undefined;
  if (prepared.action === 'read-task') return settleRefusedUpdateRead(query, prepared, error, context);
  const { now } = context;
  const { attempts, update, taskId } = prepared;
  const { status = 0 } = error;
  if (update === undefined) return undefined;
  if (status === 412 && update.isConditional && failuresBefore(prepared, error) + 1 >= UNMATCHED_ATTEMPTS)
    await noteIfMatchRefused(query, taskId as string, now);
  // The task may be gone: the next attempt reads it.
  if (status === 404 && !update.hasRead)
    return updateAgain(query, prepared, error, { attempts: attempts + 1, notBefore: now });
  if (ROUTE_REFUSALS.has(status) && error.own) return settleRefusedUpdateRoute(query, prepared, error, context);
  const isReplaced = error.code === 'refused' && status < 400;
  if (!(isReplaced || isUpdateRefused(error, prepared)) || update.word === undefined) return undefined;
  if (!isReplaced && prepared.observed !== undefined) {
    await leaveFieldsOut(query, prepared);
    return updateAgain(query, prepared, error, { attempts, notBefore: now });
  }
  if (error.own) await noteStatusRefused(query, update.word, taskId as string, now);
  return holdUnlessChanged(query, prepared, errorText(error));
};

/** Settles the refusal of the route for updates. A 404 may concern one task, although it was read, so a second task has to confirm it. */
const settleRefusedUpdateRoute: Settle<FailureOutcome> = async (query, prepared, error, { now }) => {
  const { entity, attempts } = prepared;
  const { status = 0 } = error;
  const refusal = { status, resource: entity, isCertain: status !== 404 };
  if (await noteRouteRefused(query, 'updateTask', refusal, now))
    return updateAgain(query, prepared, error, { attempts, notBefore: now + MAX_BLOCK });
  if (attempts + 1 >= MAX_ATTEMPTS) return holdUnlessChanged(query, prepared, errorText(error));
  return updateAgain(query, prepared, error, { attempts: attempts + 1, notBefore: now + PROBE_EVERY });
};

async function updateAgain(
  query: Scope,
  prepared: PreparedRequest,
  error: SyncError,
  { attempts, notBefore }: { readonly attempts: number; readonly notBefore: number },
): Promise<FailureOutcome> {
  await updateChange(query, prepared.entity, {
    ...pendingAgain(prepared),
    attempts,
    not_before: notBefore,
    error: errorText(error),
  });
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

/**
 * Settles the refusal of the read before an update. "Not found" means that the task is gone if the route is known to
 * work, or if no list contains the task. A second refusal after a list with the task concerns the route, and updates
 * wait; if the route works for other tasks, it concerns this one, which is held in the end.
 */
const settleRefusedUpdateRead: Settle = async (query, prepared, error, context) => {
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
  const isCertain = isChecked && !(await wasAnsweredRecently(query, 'getTask', now));
  const isOff = await noteRouteRefused(query, 'getTask', { status, resource: entity, isCertain }, now);
  if (!isOff && error.own && attempts + 1 >= MAX_ATTEMPTS) return holdUnlessChanged(query, prepared, errorText(error));
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
};

/** How often a list is restarted before it ends as incomplete. */
const MAX_RESTARTS = 2;

/**
 * Restarts a list whose cursor is refused, because a server that has forgotten a cursor never accepts it again.
 * A refused first page of the records may show that the server has no route for records.
 */
const settleRefusedList: Settle = async (query, prepared, error, context) => {
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
};

function refusalOf(error: SyncError): RouteRefusal {
  return { status: error.status, own: error.own, error: errorText(error) };
}

/**
 * Settles the refusal of a read that other work does not depend on. "Not found" is an answer only if it certainly
 * concerns this one thing. Otherwise the list of tasks shows whether the task still exists.
 */
const settleRefusedRead: Settle = async (query, prepared, error, context) => {
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
  return repeatAfterCheck(query, prepared, error, now);
};

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
const settleRefusedLink: Settle = async (query, prepared, error, context) => {
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
};

/** Statuses with which servers refuse the content of a creation or an update. */
const CONTENT_REFUSALS: ReadonlySet<number> = new Set([400, 409, 422]);

export function isContentRefused(status: number | undefined): boolean {
  return CONTENT_REFUSALS.has(status ?? 0);
}

/**
 * Whether the content of an update is refused. A conflict may end, and a proxy may have answered: they count only after
 * several attempts, each with a read.
 */
export function isUpdateRefused(error: SyncError, prepared: PreparedRequest): boolean {
  const isCertain = error.own && !isConflict(error);
  return isContentRefused(error.status) && (isCertain || failuresBefore(prepared, error) + 1 >= MAX_ATTEMPTS);
}

/** Repeats a refused creation without its optional fields, because the server may refuse only one of them. */
const settleRefusedCreation: Settle = async (query, prepared, error, context) => {
  const { now } = context;
  if (prepared.action !== 'create-task') return undefined;
  await resumeAfterCreation(query, now);
  // Others may have created the task, and a repetition with fewer fields would create it twice.
  if (isConflict(error) && !prepared.isChecked) return againAfterTaskList(query, prepared, error, context);
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
};

/** Drops a refused record if the refusals show that the workspace has no route for records. */
const settleRefusedRecord: Settle = async (query, prepared, error, { now }) => {
  if (prepared.action !== 'record-pull-request') return undefined;
  const isClosed = await noteRecordRefused(query, refusalOf(error), now);
  if (isClosed) await closeRecords(query, now);
  if (!isClosed && (await readRecordsRoute(query)).state !== 'closed') return undefined;
  await removeChange(query, prepared.entity);
  return 'settled';
};

/** In this order; the first that returns an outcome has settled the request. */
const MEANINGS = [
  settleRefusedUpdate,
  settleRefusedList,
  settleRefusedRead,
  settleRefusedLink,
  settleRefusedCreation,
  settleRefusedRecord,
];

/** Settles a refusal that has a meaning for this kind of request; undefined if it has none. */
export const settleRefusal: Settle = async (...failure) => {
  for (const settleMeaning of MEANINGS) {
    const outcome = await settleMeaning(...failure);
    if (outcome !== undefined) return outcome;
  }
  return undefined;
};
