import {
  type Action,
  effectOf,
  entity as entityName,
  type RequestOutcome,
  SETTLE_AFTER,
  settlement,
  undoableFrom,
  type Written,
} from '../../model/change.ts';
import type { ListPage } from '../../model/delivery.ts';
import { type SyncError, wasSent } from '../../model/errors/sync-error.ts';
import { debounceOf } from '../../model/lane.ts';
import { backoff, type Random } from '../../platform/lib/random.ts';
import { isTaskCached } from '../../store/cached-tasks.ts';
import { type EntityRow, findEntity, json, linksOfTask, saveEntity } from '../../store/entities.ts';
import { isReadAfterRestore } from '../../store/mark-unverified.ts';
import {
  changesInFlight,
  findChange,
  findChanges,
  type OutboxRow,
  type OutboxUpdate,
  readWaiting,
  removeChange,
  updateChange,
} from '../../store/outbox-rows.ts';
import { addRequest } from '../../store/requests.ts';
import { currentRevision } from '../../store/revision.ts';
import {
  closeIfRefused,
  dropRecordChanges,
  noteLinksAreIdempotent,
  noteListRefused,
  noteRecordRefused,
  noteRecordsListed,
  noteRecordTaken,
  noteRouteAnswered,
  noteRouteRefused,
  type OptionalRoute,
  type RouteRefusal,
  readRecordsRoute,
  routeOffUntil,
  wasAnsweredRecently,
} from '../../store/server-capabilities.ts';
import { noteCreationPassed, noteCreationRefused, resumeAfterCreation } from '../../store/task-creations.ts';
import { appendAnswer } from '../../store/workspace-answers.ts';
import { enqueueReads, enqueueTaskListRead, tasksWereRead } from '../../store/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { openSweep, recordsSwept } from '../../store/workspace-sweeps.ts';
import { LONGEST_BLOCK } from './blocked-until.ts';
import { PROBE_EVERY } from './breaker.ts';
import { type ListAnswer, type ListPlace, pageOf } from './list-pages.ts';
import { OPTIONAL_READS, type Prepared } from './prepare.ts';
import { ended } from './request-history.ts';

/** A change refused for good, or failing this often while others get through, is held. */
const MOST_ATTEMPTS = 5;
/** After this many attempts, one more refusal is the last. */
const LAST_ATTEMPT = MOST_ATTEMPTS - 1;
/** Fewer attempts than this follow each other within seconds. */
const SOON_ATTEMPTS = 3;

export interface SettleContext {
  readonly now: number;
  readonly random: Random;
  readonly usedShare: number;
  /** Promised, milliseconds; absent where none is. */
  readonly visibility?: number;
  /** Of the answer. */
  readonly status?: number;
  /** Between two pages of a list that is read because of a restore, milliseconds. */
  readonly restorePace?: number;
}

/**
 * The answer came. What was sent becomes known; everything else in the answer goes through the inbox. If desired
 * has moved on meanwhile the change waits again, from the moment it moved.
 *
 * @returns the receipt times of the deliveries that waited for this answer, epoch milliseconds
 */
export async function settle(
  query: Scope,
  prepared: Prepared,
  body: unknown,
  context: SettleContext,
): Promise<readonly number[]> {
  const id = context.random.uuid();
  const { now, status } = context;
  if (prepared.action === 'create-task' && body === undefined) {
    const error = 'answer_malformed: the task was created, and the answer does not name it';
    await addRequest(query, ended(prepared, { now, status, outcome: 'unknown', error }));
    await awaitList(query, prepared, error, context);
    return [];
  }
  await addRequest(query, ended(prepared, { now, status, outcome: 'answered', answer: id }));
  await noteAnswered(query, prepared, now);
  return settleAnswer(query, prepared, { id, body, ...listPageOf(prepared, body) }, context);
}

/** What a success teaches about the server. */
async function noteAnswered(query: Scope, { action, entity, body, kind }: Prepared, now: number): Promise<void> {
  const route = OPTIONAL_READS[action];
  if (route !== undefined) await noteRouteAnswered(query, route, now);
  if (action === 'read-pull-requests') await noteRecordsListed(query, now);
  if (action === 'read-tasks' && (await closeIfRefused(query, now))) await closeRecords(query, now);
  if (action === 'record-pull-request') await noteRecordTaken(query);
  if (kind !== 'task') return;
  await noteCreationPassed(query, entity, body);
  await resumeAfterCreation(query, now);
}

function listPageOf(prepared: Prepared, body: unknown): ReturnType<typeof pageOf> | undefined {
  const name = LISTS[prepared.action];
  if (name === undefined) return undefined;
  const list = body as ListAnswer & Readonly<Record<string, unknown>>;
  return pageOf(prepared, list, (list[name] as readonly unknown[]).length);
}

/** The lists that are read page by page, and the name of their array. */
const LISTS: Readonly<Partial<Record<Action, string>>> = {
  'read-tasks': 'tasks',
  'read-pull-requests': 'pullRequests',
};

/** What came of a request: the answer itself goes through the inbox under this id. */
interface Settled {
  readonly id: string;
  readonly body: unknown;
  /** Of a list. */
  readonly page?: ListPage;
}

async function settleAnswer(
  query: Scope,
  prepared: Prepared,
  settled: Settled & { readonly next?: ListPlace },
  context: SettleContext,
): Promise<readonly number[]> {
  const { action, entity, sentAt } = prepared;
  const { id, body, page, next } = settled;
  const { cursor } = prepared.body;
  const place = { ...(typeof cursor === 'string' && { cursor }), ...(page && { page }) };
  // The answer to a write about a link is what its commit makes known. Any other may be older than what became known since.
  const asOf = prepared.kind === 'link' ? await currentRevision(query) : prepared.revision - 1;
  const { status } = context;
  await appendAnswer(query, { action, entity, sentAt, asOf, body, status, ...place }, id, context.now);
  const row = await findChange(query, entity);
  if (row === undefined) return [];
  const waited = readWaiting(row);
  const done = waited.slice(0, prepared.waiting).map(({ at }) => at);
  const rest = waited.slice(prepared.waiting);
  if (prepared.kind === 'read') await settleRead(query, row, next, context);
  else await settleWrite(query, row, prepared, { id, waiting: JSON.stringify(rest), body }, context);
  return done;
}

/** A list of several pages is read on from where this page ended; after a restore slowly, so that others find slots. */
async function settleRead(
  query: Scope,
  row: OutboxRow,
  next: ListPlace | undefined,
  { now, restorePace = 0 }: SettleContext,
): Promise<void> {
  if (next === undefined) return endRead(query, row);
  const notBefore = (await isReadAfterRestore(query, row.entity)) ? now + restorePace : 0;
  const page = { sent: JSON.stringify(next), attempts: 0, error: null, not_before: notBefore } as const;
  await updateChange(query, row.entity, { state: 'pending', ...page });
}

/** A read that was requested while this one was in flight may have to see more than this one saw. */
async function endRead(query: Scope, row: OutboxRow): Promise<void> {
  if (row.next_since === null) return removeChange(query, row.entity);
  await updateChange(query, row.entity, { ...REST, state: 'pending', since: row.next_since });
}

async function settleWrite(
  query: Scope,
  row: OutboxRow,
  prepared: Prepared,
  { id, waiting, body }: { readonly id: string; readonly waiting: string; readonly body: unknown },
  context: SettleContext,
): Promise<void> {
  const held = await findEntity(query, row.entity);
  if (held === undefined) return removeChange(query, row.entity);
  const { action, sentAt, open: isRepeat } = prepared;
  const written: Written = { action, sentAt, answeredAt: context.now, id, ...(isRepeat && { isRepeat }) };
  const known = { known: knownFrom(prepared, body), known_at: context.now, revision: await currentRevision(query) };
  if (isRepeatedLink(held, prepared, body)) await noteLinksAreIdempotent(query, context.now);
  await saveEntity(query, { ...held, ...known, written: JSON.stringify(written), ...ofLink(prepared) });
  if (!differs(held, prepared)) return removeChange(query, row.entity);
  const since = row.next_since ?? context.now;
  const due = since + debounceOf(row.lane, context.usedShare, context.visibility).wait;
  const effect = effectOf(row.kind, json(held.desired), json(prepared.known));
  const notBefore = effect === 'removal' ? undoableFrom(written) : 0;
  await updateChange(query, row.entity, {
    ...REST,
    state: 'pending',
    since,
    due,
    waiting,
    effect,
    not_before: notBefore,
  });
}

/** By its time a document that an event tells of is known to be older than what was written. */
function knownFrom({ action, known }: Prepared, body: unknown): string | null {
  const updatedAt = (body as { updatedAt?: unknown } | null | undefined)?.updatedAt;
  if (action !== 'attach-document' || known === null || typeof updatedAt !== 'string') return known;
  return JSON.stringify({ ...json(known), updatedAt });
}

const REST = {
  sent: null,
  sent_at: null,
  next_since: null,
  attempts: 0,
  not_before: 0,
  error: null,
  guard: null,
} as const;

/**
 * A link that was added is ours, and its answer says under which id: an event about an id that was removed before is not about
 * it. The id of a link that was removed stays, so that a late event about it is recognised.
 */
function ofLink({ kind, action }: Prepared): Partial<EntityRow> {
  if (kind !== 'link') return {};
  return action === 'add-link' ? { hand: null, remote_id: null } : { hand: null };
}

/** Whether an earlier addition of this link, which worksync did not remove since, was answered with the same id. */
function isRepeatedLink(held: EntityRow, { action }: Prepared, body: unknown): boolean {
  const { workItemId } = (body ?? {}) as { readonly workItemId?: unknown };
  const isAddition = action === 'add-link' && json<Written>(held.written)?.action === 'add-link';
  return isAddition && held.remote_id !== null && held.remote_id === workItemId;
}

/** Whether desired, as it is now, is something else than what was sent. */
function differs(held: EntityRow, prepared: Prepared): boolean {
  if (prepared.kind === 'task' || prepared.kind === 'document') return false;
  if (prepared.kind === 'link') return (held.desired !== null) !== (prepared.known !== null);
  return held.desired !== null && held.desired !== prepared.known;
}

export interface FailureContext extends SettleContext {
  /** Whether nothing gets through at present: then no single change is at fault. */
  readonly outage: boolean;
  /** Others got through while this one failed. */
  readonly atFault: boolean;
}

/** What became of a failed attempt, for the log and the pump. */
export type Failure = Exclude<RequestOutcome, 'answered'>;

/** The attempt failed. Nothing is lost: the change waits, or its outcome is unknown, or it needs approval. */
export async function settleFailure(
  query: Scope,
  prepared: Prepared,
  error: SyncError,
  context: FailureContext,
): Promise<Failure> {
  const failure = await fail(query, prepared, error, context);
  const { status } = error;
  const end = { now: context.now, status, outcome: failure, error: textOf(error) };
  await addRequest(query, ended(prepared, end));
  if (failure === 'held') await lookAgain(query, prepared.entity, context);
  return failure;
}

/** A notice that waited for this change, such as a comment that names all tasks, waits no longer. */
async function lookAgain(query: Scope, entity: string, { now, random }: SettleContext): Promise<void> {
  const row = await findEntity(query, entity);
  if (!row?.item_key) return;
  await appendAnswer(
    query,
    { action: 'look-again', entity: row.item_key, sentAt: now, body: null },
    random.uuid(),
    now,
  );
}

async function fail(query: Scope, prepared: Prepared, error: SyncError, context: FailureContext): Promise<Failure> {
  const text = textOf(error);
  const known =
    (await settleRefusedList(query, prepared, error, context)) ??
    (await settleRefusedRead(query, prepared, error, context)) ??
    (await settleRefusedLink(query, prepared, error, context)) ??
    (await settleRefusedCreation(query, prepared, error, context)) ??
    (await settleRefusedRecord(query, prepared, error, context));
  if (known !== undefined) return known;
  if (isUnknownFate(error) && settlement(prepared.kind) === 'list') return awaitList(query, prepared, text, context);
  if (error.code === 'forbidden' && !isCredentialRefused(prepared, error))
    return settleForbidden(query, prepared, text, context);
  // Nothing was stored, and no single change is at fault, although reads get through: none is ever held.
  if (error.code === 'workspace_full')
    return tryAgain(query, prepared, text, false, { ...context, isSent: false, isRefused: false });
  if (error.verdict === 'wait-until') {
    // The throttle knows until when; being told to wait is no failure of this change.
    await updateChange(query, prepared.entity, { ...back(prepared), not_before: context.now, error: text });
    return 'again';
  }
  return isFinal(prepared, error)
    ? refuse(query, prepared, text)
    : tryAgain(query, prepared, text, isUnknownFate(error), {
        ...context,
        isSent: wasSent(error),
        isRefused: isRefusal(error),
      });
}

function textOf({ code, message }: SyncError): string {
  return `${code}: ${message}`.slice(0, 500);
}

/** Ends a request as if it had been answered so. */
async function settleAs(
  query: Scope,
  prepared: Prepared,
  answer: { readonly body: unknown; readonly page?: ListPage },
  context: SettleContext,
): Promise<Failure> {
  await settleAnswer(query, prepared, { id: context.random.uuid(), ...answer }, context);
  return 'settled';
}

/** How often a list begins anew before it ends as incomplete. */
const MOST_RESTARTS = 2;

/**
 * A page that is refused: a server that has forgotten the cursor refuses it for ever, so the list begins anew; and a server
 * without the route for records refuses their first page.
 */
async function settleRefusedList(
  query: Scope,
  prepared: Prepared,
  error: SyncError,
  context: FailureContext,
): Promise<Failure | undefined> {
  const name = LISTS[prepared.action];
  if (name === undefined) return undefined;
  const { cursor, limit, restarts = 0 } = prepared.body as ListPlace;
  const isPlaceRefused = (cursor ?? limit) !== undefined && isRefusal(error);
  if (isPlaceRefused && cursor !== undefined && restarts < MOST_RESTARTS) {
    const anew = { ...back(prepared), sent: JSON.stringify({ restarts: restarts + 1 } satisfies ListPlace) };
    await updateChange(query, prepared.entity, { ...anew, not_before: context.now, error: textOf(error) });
    return 'again';
  }
  if (isPlaceRefused) {
    const page = { began: (prepared.body as ListPlace).began ?? prepared.sentAt, isEnd: true, isComplete: false };
    return settleAs(query, prepared, { body: { [name]: [] }, page }, context);
  }
  if (prepared.action !== 'read-pull-requests' || error.code === 'unauthorized') return undefined;
  // Whether the workspace accepts our requests at all shows in the list of tasks.
  const isWorkspaceRead = await tasksWereRead(query);
  const isClosed = await noteListRefused(query, refusalOf(error), { now: context.now, isWorkspaceRead });
  if (!isClosed) return undefined;
  await closeRecords(query, context.now);
  return 'settled';
}

/** A refusal that repeats itself: a client error, apart from those that pass by themselves. */
function isRefusal({ status = 0 }: SyncError): boolean {
  return status >= 400 && status < 500 && ![401, 408, 425, 429].includes(status);
}

function refusalOf(error: SyncError): RouteRefusal {
  return { status: error.status, own: error.own, error: textOf(error) };
}

/**
 * A read that other work can do without. "There is no such thing" is an answer only if it is known to concern this one thing;
 * otherwise the list of tasks is asked whether the task is still there.
 */
async function settleRefusedRead(
  query: Scope,
  prepared: Prepared,
  error: SyncError,
  context: FailureContext,
): Promise<Failure | undefined> {
  const route = OPTIONAL_READS[prepared.action];
  if (route === undefined || error.status === undefined || isCredentialRefused(prepared, error)) return undefined;
  const { entity, taskId } = prepared;
  const isAbsent = error.own && error.code === 'not_found';
  if (isAbsent && (await isKnownAbsent(query, route, taskId, context.now)))
    return settleAs(query, prepared, { body: absenceOf(prepared) }, context);
  const refusal = { status: error.status, resource: entity };
  const isOff = await noteRouteRefused(query, route, refusal, context.now);
  // The list of tasks says as much: a null answer requests it.
  if (prepared.action === 'read-task' && (isRefusal(error) || error.code === 'answer_malformed'))
    return settleAs(query, prepared, { body: null }, context);
  if (isOff) {
    await leaveOff(query, entity, context.now);
    return 'settled';
  }
  if (!isRefusal(error)) return undefined;
  if (prepared.attempts >= LAST_ATTEMPT) return giveUpRead(query, prepared, textOf(error));
  const { now, usedShare } = context;
  if (isAbsent && taskId !== null) await enqueueTaskListRead(query, { now, usedShare, lane: 'read', notBefore: 0 });
  const again = { ...back(prepared), attempts: LAST_ATTEMPT, not_before: now + PROBE_EVERY, error: textOf(error) };
  await updateChange(query, entity, again);
  return 'again';
}

/** What only such a read can allow waits for the route; nothing else does. */
async function leaveOff(query: Scope, entity: string, now: number): Promise<void> {
  const row = await findChange(query, entity);
  if (row?.effect !== 'removal') return removeChange(query, entity);
  await updateChange(query, entity, { ...REST, state: 'pending', not_before: now + LONGEST_BLOCK });
}

async function isKnownAbsent(query: Scope, route: OptionalRoute, taskId: string | null, now: number): Promise<boolean> {
  if (await wasAnsweredRecently(query, route, now)) return true;
  return taskId !== null && !(await isTaskCached(query, taskId));
}

/** A task that is gone has no links, and a document is missing. */
function absenceOf({ action }: Prepared): unknown {
  return action === 'read-links' ? { workItems: [] } : null;
}

/** Links that cannot be looked up are not added: a person decides. */
async function giveUpRead(query: Scope, { entity, taskId }: Prepared, error: string): Promise<Failure> {
  await removeChange(query, entity);
  const links = taskId === null ? [] : (await linksOfTask(query, taskId)).map((row) => row.entity);
  for (const change of await findChanges(query, links))
    if (change.state === 'pending' && change.not_before > 0)
      await updateChange(query, change.entity, { state: 'held', error });
  return 'settled';
}

/**
 * A link that is gone already, or that is there already: the links of its task say which. Where they cannot be read, the word
 * of the workspace counts.
 */
async function settleRefusedLink(
  query: Scope,
  prepared: Prepared,
  error: SyncError,
  context: FailureContext,
): Promise<Failure | undefined> {
  const { action, entity, attempts, taskId } = prepared;
  const isGone = action === 'remove-link' && error.code === 'not_found';
  const isThere = action === 'add-link' && error.code === 'conflict';
  if (!isGone && !isThere) return undefined;
  const { now } = context;
  if ((await routeOffUntil(query, 'listWorkItems', now)) !== undefined)
    return isGone && error.own ? settleAs(query, prepared, { body: null }, context) : undefined;
  if (attempts >= LAST_ATTEMPT) {
    // A record that was read at the same time may show the link, so that the list did not count.
    const isShown = isThere && prepared.open && (await findEntity(query, entity))?.known != null;
    if (isShown) return settleAs(query, prepared, { body: null }, context);
    // The links were read, and nothing came of it.
    return refuse(query, prepared, textOf(error));
  }
  await enqueueReads(query, [entityName.readLinks(taskId as string)], now, prepared.lane);
  const waits = { attempts: LAST_ATTEMPT, not_before: now + LONGEST_BLOCK };
  const again = { ...back(prepared), ...waits, error: textOf(error) };
  await updateChange(query, entity, again);
  return 'again';
}

/** Statuses by which servers refuse what a creation contains. */
const OF_CONTENT: ReadonlySet<number> = new Set([400, 409, 422]);

/** The server may refuse a field of a creation, and not its text. */
async function settleRefusedCreation(
  query: Scope,
  prepared: Prepared,
  error: SyncError,
  { now }: FailureContext,
): Promise<Failure | undefined> {
  if (prepared.action !== 'create-task') return undefined;
  if (!isUnknownFate(error)) await resumeAfterCreation(query, now);
  if (!OF_CONTENT.has(error.status ?? 0)) return undefined;
  const without = await noteCreationRefused(query, prepared.entity, prepared.body, now);
  if (without === undefined) return refuse(query, prepared, textOf(error));
  const text = `${textOf(error)}; sent again without ${without.join(', ')}`.slice(0, 500);
  await updateChange(query, prepared.entity, { ...back(prepared), attempts: 0, not_before: now, error: text });
  return 'again';
}

/** A refused record is a refused change, unless the route turns out to be gone. */
async function settleRefusedRecord(
  query: Scope,
  prepared: Prepared,
  error: SyncError,
  { now }: FailureContext,
): Promise<Failure | undefined> {
  if (prepared.action !== 'record-pull-request') return undefined;
  const isClosed = await noteRecordRefused(query, refusalOf(error), now);
  if (isClosed) await closeRecords(query, now);
  if (!isClosed && (await readRecordsRoute(query)).state !== 'closed') return undefined;
  await removeChange(query, prepared.entity);
  return 'settled';
}

/** The mirror stays here: what waits to be recorded is dropped, and a round of the sweep does not wait for the list. */
async function closeRecords(query: Scope, now: number): Promise<void> {
  await dropRecordChanges(query);
  await removeChange(query, entityName.readPullRequests);
  const sweep = await openSweep(query);
  if (sweep && sweep.records_at === null) await recordsSwept(query, sweep, now);
}

/** Whether the workspace refuses our key as a whole: then nothing else can be sent either. */
export function isCredentialRefused({ action }: Pick<Prepared, 'action'>, error: SyncError): boolean {
  if (error.code === 'unauthorized') return true;
  return error.code === 'forbidden' && (action === 'read-tasks' || error.errorCode === 'workspace_forbidden');
}

/** The key lacks a right for this one request, or for all: the list of tasks shows which before it is sent again. */
async function settleForbidden(
  query: Scope,
  prepared: Prepared,
  error: string,
  { now, usedShare }: FailureContext,
): Promise<Failure> {
  if (prepared.attempts >= LAST_ATTEMPT && prepared.kind !== 'read') return refuse(query, prepared, error);
  await enqueueTaskListRead(query, { now, usedShare, lane: 'read', notBefore: 0 });
  const again = { ...back(prepared), attempts: LAST_ATTEMPT, not_before: now + PROBE_EVERY, error };
  await updateChange(query, prepared.entity, again);
  return 'again';
}

/** Whether the workspace itself answered, in its error object, and not something in front of it. */
export function isTheirWord(error: SyncError): boolean {
  return error.own && (error.status ?? 500) < 500;
}

/** Whether repeating it would bring the same refusal. A read has no content to refuse, and everything else waits for it. */
function isFinal(prepared: Prepared, error: SyncError): boolean {
  if (prepared.kind === 'read' || error.verdict !== 'never') return false;
  const neverSent = error.code === 'refused' && error.status === undefined;
  return neverSent || isTheirWord(error);
}

/** It is held, unless what it would send has changed while it was on its way. */
async function refuse(query: Scope, prepared: Prepared, error: string): Promise<Failure> {
  const row = await findChange(query, prepared.entity);
  const hasChanged = row?.next_since != null;
  const state = hasChanged ? 'pending' : 'held';
  await updateChange(query, prepared.entity, { ...back(prepared), state, attempts: 0, next_since: null, error });
  return hasChanged ? 'again' : 'held';
}

/** No answer, or one that does not tell whether the write was carried out. */
function isUnknownFate({ code }: SyncError): boolean {
  return ['outcome_unknown', 'server_failed', 'answer_malformed', 'answer_too_large'].includes(code);
}

/** The row as it waits again. A list read keeps its place, and a write with unknown outcome its request. */
function back(prepared: Prepared, open = prepared.open): OutboxUpdate {
  const place = prepared.action in LISTS ? JSON.stringify(prepared.body) : null;
  const isOpenWrite = open && prepared.kind !== 'read';
  return { state: 'pending', sent: isOpenWrite ? JSON.stringify(prepared) : place, sent_at: null };
}

async function tryAgain(
  query: Scope,
  prepared: Prepared,
  error: string,
  isUnknown: boolean,
  context: FailureContext & { readonly isSent: boolean; readonly isRefused: boolean },
): Promise<Failure> {
  const { outage, atFault, now, isSent } = context;
  const open = prepared.open || isUnknown;
  const attempts = attemptsAfter(prepared, isSent, outage && !atFault);
  if (attempts >= MOST_ATTEMPTS && isSent && (atFault || context.isRefused) && prepared.kind !== 'read') {
    await updateChange(query, prepared.entity, { ...back(prepared, open), state: 'held', attempts, error });
    return 'held';
  }
  const pause = outage ? 0 : pauseAfter(attempts, context.random);
  const notBefore = now + (prepared.action === 'read-pull-requests' ? Math.max(pause, growing(attempts)) : pause);
  await updateChange(query, prepared.entity, { ...back(prepared, open), attempts, not_before: notBefore, error });
  return 'again';
}

/** What was not sent counts for the pauses, and never brings a change nearer to being held. */
function attemptsAfter({ attempts }: Prepared, isSent: boolean, isBlameless: boolean): number {
  if (isBlameless) return attempts;
  return isSent ? attempts + 1 : Math.max(attempts, Math.min(attempts + 1, SOON_ATTEMPTS));
}

/** Soon at first; then as seldom as in an outage, which it may be. In a known one the pump itself makes the pauses. */
function pauseAfter(attempts: number, random: Random): number {
  return attempts < SOON_ATTEMPTS ? backoff(random, attempts, 1_000) : PROBE_EVERY;
}

/** Nothing else waits for the list of records: it is asked for ever more seldom. */
function growing(attempts: number): number {
  const times = Math.max(0, attempts - SOON_ATTEMPTS);
  return times === 0 ? 0 : Math.min(LONGEST_BLOCK, PROBE_EVERY * 2 ** Math.min(times, 10));
}

async function awaitList(query: Scope, prepared: Prepared, error: string, context: SettleContext): Promise<Failure> {
  const provable = context.now + SETTLE_AFTER;
  await updateChange(query, prepared.entity, { state: 'unknown', not_before: provable, error });
  const { now, usedShare } = context;
  await enqueueTaskListRead(query, { now, usedShare, lane: 'triage', notBefore: provable });
  return 'unknown';
}

/**
 * A database may take what is to be sent, and its answer get lost on the way: then nothing was sent, and the change waits as before.
 *
 * @param isSent whether this process has sent it, and has the answer to come
 */
export async function takeBackUnsent(query: Scope, isSent: (entity: string) => boolean): Promise<void> {
  for (const { entity, sent } of await changesInFlight(query)) {
    if (isSent(entity)) continue;
    await updateChange(query, entity, { ...back(JSON.parse(sent as string) as Prepared), next_since: null });
  }
}

/**
 * At the start: the process died with these in flight, so their outcome is unknown. What the server takes twice without
 * harm is sent again; creates wait for the list.
 *
 * @param untouched how long requests of that process may still be on their way, milliseconds
 */
export async function recover(query: Scope, context: SettleContext, untouched = 0): Promise<readonly Prepared[]> {
  const rows = await changesInFlight(query);
  const recovered: Prepared[] = [];
  for (const row of rows) {
    const prepared = JSON.parse(row.sent as string) as Prepared;
    recovered.push(prepared);
    const error = 'outcome_unknown: the process ended';
    await addRequest(query, ended(prepared, { now: context.now, outcome: 'unknown', error }));
    const later = { ...context, now: context.now + untouched };
    if (settlement(row.kind) === 'list') await awaitList(query, prepared, error, later);
    else
      await updateChange(query, row.entity, {
        ...back(prepared, true),
        // A read that comes twice harms nothing, and all of a new workspace waits for the first ones.
        ...(untouched > 0 && row.kind !== 'read' && { not_before: later.now }),
      });
  }
  return recovered;
}
