import { createHash } from 'node:crypto';
import {
  type Action,
  debounceOf,
  effectOf,
  entity as entityName,
  SETTLE_AFTER,
  undoableFrom,
  type Written,
} from '../../model/change.ts';
import { type ListPage, mayBeCut } from '../../model/delivery.ts';
import type { TaskUpdate } from '../../model/task.ts';
import { serverStatus, type TaskStatuses } from '../../model/task-status.ts';
import { afterFields, afterUpdate, type WrittenStatus } from '../../model/written-task.ts';
import type { Random } from '../../platform/lib/clock.ts';
import { type EntityRow, findEntity, saveEntity } from '../../store/changes/entities.ts';
import {
  findChange,
  type OutboxRow,
  type OutboxUpdate,
  readWaiting,
  removeChange,
  updateChange,
} from '../../store/changes/outbox-rows.ts';
import { addRequest } from '../../store/changes/requests.ts';
import { currentRevision, isReadAfterRestore } from '../../store/meta.ts';
import { saveUpdatedStatus } from '../../store/tasks/stored-tasks.ts';
import { noteCreationPassed, resumeAfterCreation } from '../../store/tasks/task-creations.ts';
import {
  closeIfRefusedEarly,
  dropRecordChanges,
  noteLinksAreIdempotent,
  noteRecordsListed,
  noteRecordTaken,
  noteRouteAnswered,
} from '../../store/workspace/server-capabilities.ts';
import { appendAnswer, enqueueTaskListRead, requestTaskReads } from '../../store/workspace/workspace-reads.ts';
import { findRunningSweep, recordsSwept } from '../../store/workspace/workspace-sweeps.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import type { WorkspaceContext } from '../workspace-context.ts';
import { historyRow, type ListPosition, OPTIONAL_READS, type PreparedRequest } from './request.ts';

/** The circumstances in which a request is settled. */
export interface SettleContext {
  readonly now: number;
  readonly random: Random;
  readonly usedShare: number;
  /** Promised time from an event to its write, milliseconds; absent if none is promised. */
  readonly visibility?: number;
  /** Status of the answer. */
  readonly status?: number;
  /** Pause between two pages of a list that is read because of a restore, milliseconds. */
  readonly restorePace?: number;
  /** Absent: those of the specification. */
  readonly taskStatuses?: TaskStatuses;
  /** No request succeeds at present, so no single change is at fault. */
  readonly outage?: boolean;
  /** Other writes succeeded since the previous failure of this one, and none of them had failed before. */
  readonly atFault?: boolean;
  /** The workspace answered other requests while this one failed. */
  readonly othersAnswered?: boolean;
}

/** The part of a quota window that reads after a restore may use. */
const RESTORE_SHARE = 0.2;

/**
 * Returns the context in which a request is settled. `usedShare` and `restorePace` are computed when they are read, because few
 * answers need them.
 *
 * @param status the status of the answer
 */
export function settleContextOf({ clock, random, throttle, config }: WorkspaceContext, status?: number): SettleContext {
  return {
    now: clock.now(),
    random,
    get usedShare() {
      return throttle.usedShare();
    },
    visibility: config.quota.visibility,
    get restorePace() {
      return Math.max(0, ...throttle.paces().map(({ slots, hold }) => hold / (slots * RESTORE_SHARE)));
    },
    taskStatuses: config.workspace.statuses,
    status,
  };
}

/** Returns the context in which a failed request is settled. @param entity the entity of the request */
export function failureContextOf(context: WorkspaceContext, entity: string): SettleContext {
  const { othersAnswered, isAtFault } = context.breaker.sinceFailure(entity);
  return { ...settleContextOf(context), outage: context.breaker.open, atFault: isAtFault, othersAnswered };
}

/**
 * Settles an answered request. The sent state becomes the known state; the rest of the answer goes through the inbox.
 * If the desired state changed meanwhile, the change is pending again, from the time of that change.
 *
 * @param body undefined if the answer to a creation does not name the task
 * @returns the receipt times of the deliveries that waited for this answer, without those of imports, epoch milliseconds
 */
export async function settle(
  query: Scope,
  prepared: PreparedRequest,
  body: unknown,
  context: SettleContext,
): Promise<readonly number[]> {
  const id = context.random.uuid();
  const { now, status } = context;
  if (prepared.action === 'create-task' && body === undefined) {
    const error = 'answer_malformed: the task was created, and the answer does not name it';
    await addRequest(query, historyRow(prepared, { now, status, outcome: 'unknown', error }));
    await awaitTaskList(query, prepared, error, context);
    return [];
  }
  await addRequest(query, historyRow(prepared, { now, status, outcome: 'answered', answer: id }));
  await recordServerFacts(query, prepared, now);
  return settleAnswer(query, prepared, { id, body, ...listStepOf(prepared, body) }, context);
}

/** Stores what a success shows about the server. */
async function recordServerFacts(
  query: Scope,
  { action, entity, body, kind }: PreparedRequest,
  now: number,
): Promise<void> {
  const route = OPTIONAL_READS[action];
  if (route !== undefined) await noteRouteAnswered(query, route, now);
  if (action === 'read-pull-requests') await noteRecordsListed(query, now);
  if (action === 'read-tasks' && (await closeIfRefusedEarly(query, now))) await closeRecords(query, now);
  if (action === 'record-pull-request') await noteRecordTaken(query);
  if (kind !== 'task') return;
  await noteCreationPassed(query, entity, body);
  await resumeAfterCreation(query, now);
}

/** Drops all pending records, because the workspace has no route for them. The running sweep stops waiting for them. */
export async function closeRecords(query: Scope, now: number): Promise<void> {
  await dropRecordChanges(query);
  await removeChange(query, entityName.readPullRequests);
  const sweep = await findRunningSweep(query);
  if (sweep && sweep.records_at === null) await recordsSwept(query, sweep, now);
}

/** An answer, or the substitute for one that a refusal implies. */
interface Answer {
  /** The id under which it is appended to the inbox. */
  readonly id: string;
  readonly body: unknown;
  /** For a list: the place of this page, and the position of the next one. */
  readonly page?: ListPage;
  readonly next?: ListPosition;
}

/** Appends the answer to the inbox and settles the change. @returns as `settle` */
export async function settleAnswer(
  query: Scope,
  prepared: PreparedRequest,
  answer: Answer,
  context: SettleContext,
): Promise<readonly number[]> {
  const { action, entity, kind, sentAt } = prepared;
  const { id, body, page, next } = answer;
  const { cursor } = prepared.body;
  const place = { ...(typeof cursor === 'string' && { cursor }), ...(page && { page }) };
  // An answer updates a link or the status of a task only if the revision of its row is not above `asOf` (`mayUpdate`). This
  // commit sets the revision of a written row to the current one, so its own answer needs the same number. Any other answer
  // counts as of just before its request, because others may have been written or read since.
  const revision = await currentRevision(query);
  const asOf = kind === 'link' || kind === 'task_update' ? revision : prepared.revision - 1;
  const received = { asOf, receivedRevision: revision, body, status: context.status };
  const wantedAt = prepared.trace.since;
  await appendAnswer(query, { action, entity, sentAt, wantedAt, ...received, ...place }, id, context.now);
  const change = await findChange(query, entity);
  if (change === undefined) return [];
  const waiting = readWaiting(change);
  const settled = waiting.slice(0, prepared.waiting);
  const rest = waiting.slice(prepared.waiting);
  if (kind === 'read') await settleRead(query, change, next, context);
  else await settleWrite(query, change, prepared, { id, body, revision, waiting: JSON.stringify(rest) }, context);
  return settled.flatMap(({ at }) => at ?? []);
}

/** Ends a read, or continues a list with its next page: slowly after a restore, so that other changes get slots. */
async function settleRead(
  query: Scope,
  change: OutboxRow,
  next: ListPosition | undefined,
  context: SettleContext,
): Promise<void> {
  if (next === undefined) return endRead(query, change);
  const isPaced = await isReadAfterRestore(query, change.entity);
  const notBefore = isPaced ? context.now + (context.restorePace ?? 0) : 0;
  await updateChange(query, change.entity, {
    state: 'pending',
    sent: JSON.stringify(next),
    attempts: 0,
    error: null,
    not_before: notBefore,
  });
}

/** Repeats a read that was requested again while it was in flight, because it may have started too early for that. */
async function endRead(query: Scope, change: OutboxRow): Promise<void> {
  if (change.next_since === null) return removeChange(query, change.entity);
  await updateChange(query, change.entity, { ...NOT_SENT, state: 'pending', since: change.next_since });
}

async function settleWrite(
  query: Scope,
  change: OutboxRow,
  prepared: PreparedRequest,
  { id, body, revision, waiting }: Answer & { readonly revision: number; readonly waiting: string },
  context: SettleContext,
): Promise<void> {
  const row = await findEntity(query, change.entity);
  if (row === undefined) return removeChange(query, change.entity);
  const { action, sentAt, open: isRepeat } = prepared;
  const written: Written = {
    action,
    sentAt,
    answeredAt: context.now,
    id,
    ...(isRepeat && { isRepeat }),
    ...previousOf(prepared),
  };
  const known = { known: knownAfter(row, prepared, body, context.now), known_at: context.now, revision };
  if (isSameLinkAgain(row, prepared, body)) await noteLinksAreIdempotent(query, context.now);
  if (change.kind === 'task_update') await cacheStatus(query, prepared, body, context);
  const isWritten = !isReadOfUpdate(prepared) || (isRepeat && !prepared.isOutdated);
  await saveEntity(query, {
    ...row,
    ...known,
    ...(isWritten && { written: JSON.stringify(written) }),
    ...linkColumns(prepared),
  });
  if (!isDesiredDifferent(row, prepared)) return removeChange(query, change.entity);
  const since = change.next_since ?? context.now;
  const isUpdate = change.kind === 'task_update';
  const effect = isUpdate ? change.effect : effectOf(change.kind, json(row.desired), json(prepared.known));
  await updateChange(query, change.entity, {
    ...NOT_SENT,
    state: 'pending',
    since,
    due: since + debounceOf(change.lane, context.usedShare, context.visibility).wait,
    waiting,
    effect,
    not_before: effect === 'removal' ? undoableFrom(written) : 0,
  });
}

/**
 * Caches the status of the task in the commit that settles its update, so that no evaluation compares the written status with an
 * older one. If an event reported another status meanwhile, and no time shows which is newer, the task is read.
 */
async function cacheStatus(
  query: Scope,
  { taskId, body: update, update: sent }: PreparedRequest,
  body: unknown,
  { now, usedShare, visibility, taskStatuses = {} }: SettleContext,
): Promise<void> {
  const { status = sent?.word, updatedAt = '' } = (body ?? {}) as {
    readonly status?: string;
    readonly updatedAt?: string;
  };
  if (taskId === null || status === undefined) return;
  const from = [serverStatus(taskStatuses, (update as unknown as TaskUpdate).from)];
  const isCertain = await saveUpdatedStatus(query, taskId, { status, updatedAt, from }, now);
  if (!isCertain) await requestTaskReads(query, [taskId], { now, usedShare, visibility });
}

/** The status that an update replaced, by which it can be undone. */
function previousOf({ kind, body }: PreparedRequest): Pick<Written, 'from'> {
  const { status, from } = body as unknown as TaskUpdate;
  return kind === 'task_update' && status !== undefined ? { from } : {};
}

/** Whether the read before the update of a task has settled its change. */
function isReadOfUpdate({ kind, action }: PreparedRequest): boolean {
  return kind === 'task_update' && action === 'read-task';
}

/**
 * Returns the known state after a success. Documents and records get their time from the answer, so that an event about an
 * older state is recognised. A created task is known as the workspace returned it. Of an updated one, only the written part is
 * stored.
 */
function knownAfter(row: EntityRow, prepared: PreparedRequest, body: unknown, now: number): string | null {
  const { action, kind, known } = prepared;
  if (kind === 'task_update') {
    const before = json<WrittenStatus>(row.known) ?? {};
    if (prepared.arrived) return JSON.stringify(afterUpdate(before, prepared.arrived, now));
    if (prepared.isOutdated) return row.known;
    const { status, ...labels } = prepared.body as unknown as TaskUpdate;
    // A read shows a status that others set, unless an earlier attempt of this update may have set it.
    const isOurs = !isReadOfUpdate(prepared) || prepared.open;
    const update = isOurs ? { ...labels, status } : labels;
    return JSON.stringify({ ...afterUpdate(before, update, now), ...afterFields(before, update, prepared.observed) });
  }
  if (action === 'create-task' && known !== null) return JSON.stringify(asReturned(json(known) ?? {}, body));
  const updatedAt = (body as { updatedAt?: unknown } | null | undefined)?.updatedAt;
  const name = TIME_OF_KNOWN[action];
  if (name === undefined || known === null || typeof updatedAt !== 'string') return known;
  return JSON.stringify({ ...json(known), [name]: updatedAt });
}

/** The key under which a known state stores its time by the clock of the workspace. */
const TIME_OF_KNOWN: Readonly<Partial<Record<Action, string>>> = {
  'attach-document': 'updatedAt',
  'record-pull-request': 'changedAt',
};

/** Returns the fields of a created task with the values that the workspace returned, except for empty ones. */
function asReturned(sent: Readonly<Record<string, unknown>>, body: unknown): Readonly<Record<string, unknown>> {
  const returned = body as Readonly<Record<string, unknown>>;
  const isShown = (value: unknown) =>
    typeof value === 'string' ? value !== '' : Array.isArray(value) && value.length > 0;
  return Object.fromEntries(
    Object.entries(sent).map(([name, value]) => [name, isShown(returned[name]) ? returned[name] : value]),
  );
}

/** Whether an added link got the id of an earlier addition that worksync has not removed since. */
function isSameLinkAgain(row: EntityRow, { action }: PreparedRequest, body: unknown): boolean {
  const { workItemId } = (body ?? {}) as { readonly workItemId?: unknown };
  const isAddition = action === 'add-link' && json<Written>(row.written)?.action === 'add-link';
  return isAddition && row.remote_id !== null && row.remote_id === workItemId;
}

/**
 * A link that worksync added belongs to worksync. Its id comes from the answer, so that an event about an id that was
 * removed earlier does not concern it. A removed link keeps its id, so that a late event about it is recognised.
 */
function linkColumns({ kind, action }: PreparedRequest): Partial<EntityRow> {
  if (kind !== 'link') return {};
  return action === 'add-link' ? { hand: null, remote_id: null } : { hand: null };
}

/** Whether the desired state differs from what was sent. Tasks and documents are written once only. */
function isDesiredDifferent(row: EntityRow, prepared: PreparedRequest): boolean {
  if (prepared.kind === 'task' || prepared.kind === 'document') return false;
  if (prepared.kind === 'link') return (row.desired !== null) !== (prepared.known !== null);
  return row.desired !== null && row.desired !== prepared.known;
}

/** The columns of a change that has not been sent yet. */
export const NOT_SENT = {
  sent: null,
  sent_at: null,
  next_since: null,
  attempts: 0,
  not_before: 0,
  awaits: null,
  error: null,
  guard: null,
} as const;

/**
 * Returns the columns of a change that is pending again after its request.
 * A list read keeps its position, and a write with unknown outcome keeps its request.
 */
export function pendingAgain(prepared: PreparedRequest, isOutcomeUnknown = prepared.open): OutboxUpdate {
  const position = prepared.action in LISTS ? JSON.stringify(prepared.body) : null;
  const keepsRequest = isOutcomeUnknown && prepared.kind !== 'read';
  const awaits = prepared.isChecked ? 'check' : null;
  return { state: 'pending', sent: keepsRequest ? JSON.stringify(prepared) : position, sent_at: null, awaits };
}

/** Leaves the outcome of a creation open until a list of the tasks shows it. Requests that list. */
export async function awaitTaskList(
  query: Scope,
  { entity }: PreparedRequest,
  error: string,
  { now, usedShare }: SettleContext,
): Promise<'unknown'> {
  const notBefore = now + SETTLE_AFTER;
  await updateChange(query, entity, { state: 'unknown', not_before: notBefore, error });
  await enqueueTaskListRead(query, { now, usedShare, lane: 'triage', notBefore });
  return 'unknown';
}

/** The lists that are read page by page, and the name of their array. */
export const LISTS: Readonly<Partial<Record<Action, string>>> = {
  'read-tasks': 'tasks',
  'read-pull-requests': 'pullRequests',
};

/** The part of an answer that decides how a list continues. */
export interface ListAnswer {
  readonly nextCursor?: string | null;
  readonly isLast?: boolean | null;
  /** The number of elements that could not be read. */
  readonly unreadable?: number;
}

/** The place of an answer in its list, and the next page to request; undefined at the end. */
export interface ListStep {
  readonly page: ListPage;
  readonly next?: ListPosition;
}

/** Returns the step for an answer to a list read; undefined for any other action. */
function listStepOf(prepared: PreparedRequest, body: unknown): ListStep | undefined {
  const name = LISTS[prepared.action];
  if (name === undefined) return undefined;
  const answer = body as ListAnswer & Readonly<Record<string, unknown>>;
  return nextListStep(prepared, answer, (answer[name] as readonly unknown[]).length);
}

/** Most pages of one list. A list without an end proves nothing. */
const MAX_PAGES = 500;
/** A limit above any usual page length. */
const LONG_PAGE = 5_000;

/**
 * Decides how a list continues after a page. A repeated cursor ends the list as incomplete.
 *
 * @param length the number of elements of the page
 */
export function nextListStep(
  { body, sentAt }: Pick<PreparedRequest, 'body' | 'sentAt'>,
  { nextCursor, isLast = null, unreadable = 0 }: ListAnswer,
  length: number,
): ListStep {
  const position: ListPosition = body;
  const { began = sentAt, seen = [], restarts } = position;
  const kept = restarts === undefined ? {} : { restarts };
  const goesOn = { began, isEnd: false, isComplete: false };
  if (nextCursor) {
    const hash = createHash('sha256').update(nextCursor).digest('base64url').slice(0, 8);
    if (seen.includes(hash) || seen.length >= MAX_PAGES) return { page: lastPage(began, false) };
    return { page: goesOn, next: { cursor: nextCursor, began, seen: [...seen, hash], ...kept } };
  }
  const isWhole = isLast !== false && unreadable === 0;
  const isFirst = position.cursor === undefined && position.first === undefined;
  if (isWhole && isFirst && mayBeCut(length, isLast)) {
    return { page: goesOn, next: { limit: LONG_PAGE, first: length, began, ...kept } };
  }
  // Complete if the longer page has as many elements as the first, or has more and does not look cut itself.
  const isProved = length === position.first || !mayBeCut(length, isLast);
  return { page: lastPage(began, isWhole && isProved) };
}

function lastPage(began: number, isComplete: boolean): ListPage {
  return { began, isEnd: true, isComplete };
}
