import { type SyncError, wasSent } from '../errors/sync-error.ts';
import { backoff, type Random } from '../lib/random.ts';
import {
  effectOf,
  entity as entityName,
  type RequestOutcome,
  SETTLE_AFTER,
  settlement,
  undoableFrom,
  type Written,
} from '../model/change.ts';
import { patience } from '../model/lane.ts';
import { type EntityRow, findEntity, json, saveEntity } from '../store/entities.ts';
import { wishTaskList } from '../store/list-reads.ts';
import {
  changesSent,
  findChange,
  type OutboxRow,
  type OutboxUpdate,
  readWaiting,
  removeChange,
  updateChange,
} from '../store/outbox-rows.ts';
import { addRequest } from '../store/requests.ts';
import { appendAnswer } from '../store/workspace-answers.ts';
import type { Scope } from '../store/workspace-scope.ts';
import { PROBE_EVERY } from './breaker.ts';
import type { Prepared } from './prepare.ts';
import { ended } from './request-history.ts';

/** A change refused for good, or failing this often while others get through, is held. */
const MOST_ATTEMPTS = 5;
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
  await addRequest(query, ended(prepared, { now, status, outcome: 'answered', answer: id }));
  return settleAnswer(query, prepared, { id, body }, context);
}

async function settleAnswer(
  query: Scope,
  prepared: Prepared,
  { id, body }: { readonly id: string; readonly body: unknown },
  context: SettleContext,
): Promise<readonly number[]> {
  const { action, entity, sentAt } = prepared;
  const { cursor } = prepared.body;
  const page = action === 'read-pull-requests' && typeof cursor === 'string' ? { cursor } : {};
  await appendAnswer(query, { action, entity, sentAt, body, ...page }, id, context.now);
  const row = await findChange(query, entity);
  if (row === undefined) return [];
  const waited = readWaiting(row);
  const done = waited.slice(0, prepared.waiting).map(({ at }) => at);
  const rest = waited.slice(prepared.waiting);
  if (prepared.kind === 'read') await settleRead(query, row, body);
  else await settleWrite(query, row, prepared, { id, waiting: JSON.stringify(rest), body }, context);
  return done;
}

/** A list of several pages is read on from where this page ended. */
async function settleRead(query: Scope, row: OutboxRow, body: unknown): Promise<void> {
  const cursor = (body as { nextCursor?: string | null } | undefined)?.nextCursor;
  if (row.entity !== entityName.readPullRequests || !cursor) return endRead(query, row);
  await updateChange(query, row.entity, {
    state: 'pending',
    sent: JSON.stringify({ cursor }),
    attempts: 0,
    error: null,
  });
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
  const now = { known: knownFrom(prepared, body), known_at: context.now, written: JSON.stringify(written) };
  await saveEntity(query, { ...held, ...now, ...lostId(prepared) });
  if (!differs(held, prepared)) return removeChange(query, row.entity);
  const since = row.next_since ?? context.now;
  const due = since + patience(row.lane, context.usedShare, context.visibility).quiet;
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

function lostId(prepared: Prepared): Partial<EntityRow> {
  return prepared.action === 'remove-link' ? { remote_id: null } : {};
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
  if (isTheirWord(error) && error.status === 404) {
    const answer = answerOfAbsence(prepared);
    if (answer) {
      await settleAnswer(query, prepared, { id: context.random.uuid(), body: answer.body }, context);
      return 'settled';
    }
  }
  if (isUnknownFate(error) && settlement(prepared.kind) === 'list') return awaitList(query, prepared, text, context);
  if (error.verdict === 'wait-until') {
    // The throttle knows until when; being told to wait is no failure of this change.
    await updateChange(query, prepared.entity, { ...back(prepared), not_before: context.now, error: text });
    return 'again';
  }
  return isFinal(prepared, error)
    ? refuse(query, prepared, text)
    : tryAgain(query, prepared, text, isUnknownFate(error), {
        ...context,
        isRefusedPlace: isPlaceRefused(prepared, error),
        isSent: wasSent(error),
      });
}

function textOf({ code, message }: SyncError): string {
  return `${code}: ${message}`.slice(0, 500);
}

/** A server that has forgotten where a list stood refuses its next page for ever: the list begins anew. */
function isPlaceRefused({ action, body }: Prepared, error: SyncError): boolean {
  return action === 'read-pull-requests' && body['cursor'] !== undefined && isTheirWord(error) && error.status === 400;
}

/** What "there is no such thing" answers: a link that is gone already is removed, a task that is gone has none, and a document is
 * missing. */
function answerOfAbsence({ action }: Prepared): { body: unknown } | undefined {
  if (action === 'remove-link' || action === 'read-document') return { body: null };
  return action === 'read-links' ? { body: { workItems: [] } } : undefined;
}

/** Whether the workspace itself answered, in its error object, and not something in front of it. */
export function isTheirWord(error: SyncError): boolean {
  return error.errorCode !== undefined && (error.status ?? 500) < 500;
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
  const place = prepared.action === 'read-pull-requests' ? JSON.stringify(prepared.body) : null;
  const isOpenWrite = open && prepared.kind !== 'read';
  return { state: 'pending', sent: isOpenWrite ? JSON.stringify(prepared) : place, sent_at: null };
}

async function tryAgain(
  query: Scope,
  prepared: Prepared,
  error: string,
  isUnknown: boolean,
  context: FailureContext & { readonly isRefusedPlace: boolean; readonly isSent: boolean },
): Promise<Failure> {
  const { outage, atFault, now, isRefusedPlace, isSent } = context;
  const open = prepared.open || isUnknown;
  const attempts = attemptsAfter(prepared, isSent, outage && !atFault);
  if (attempts >= MOST_ATTEMPTS && isSent && atFault && prepared.kind !== 'read') {
    await updateChange(query, prepared.entity, { ...back(prepared, open), state: 'held', attempts, error });
    return 'held';
  }
  const notBefore = now + (outage ? 0 : pauseAfter(attempts, context.random));
  const waits = { ...back(prepared, open), attempts, not_before: notBefore, error };
  await updateChange(query, prepared.entity, isRefusedPlace ? { ...waits, sent: null } : waits);
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

async function awaitList(query: Scope, prepared: Prepared, error: string, context: SettleContext): Promise<Failure> {
  const provable = context.now + SETTLE_AFTER;
  await updateChange(query, prepared.entity, { state: 'unknown', not_before: provable, error });
  const { now, usedShare } = context;
  await wishTaskList(query, { now, usedShare, lane: 'triage', notBefore: provable });
  return 'unknown';
}

/**
 * A database may take what is to be sent, and its answer get lost on the way: then nothing was sent, and the change waits as before.
 *
 * @param isSent whether this process has sent it, and has the answer to come
 */
export async function takeBackUnsent(query: Scope, isSent: (entity: string) => boolean): Promise<void> {
  for (const { entity, sent } of await changesSent(query)) {
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
  const rows = await changesSent(query);
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
