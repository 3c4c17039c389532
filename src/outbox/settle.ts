import type { SyncError } from '../errors/sync-error.ts';
import { backoff, type Random } from '../lib/random.ts';
import { entity as entityName, SETTLE_AFTER, settlement } from '../model/change.ts';
import { allowance } from '../model/lane.ts';
import { appendAnswer } from '../store/answers.ts';
import type { Query } from '../store/database.ts';
import { type EntityRow, findEntity, saveEntity } from '../store/entities.ts';
import { wishTaskList } from '../store/list-reads.ts';
import { findChange, type OutboxRow, readWaiting, removeChange, updateChange } from '../store/outbox.ts';
import type { Prepared } from './prepare.ts';

/** A change refused for good, or failing on its own this often, waits for a person. */
const MOST_ATTEMPTS = 5;

export interface SettleContext {
  readonly now: number;
  readonly random: Random;
  readonly usedShare: number;
}

/**
 * The answer came. What was sent becomes known; what the workspace said beside that goes through the inbox. If desired
 * has moved on meanwhile the change waits again, from the moment it moved.
 *
 * @returns the receipt times of the deliveries that waited for this answer, epoch milliseconds
 */
export async function settle(
  query: Query,
  prepared: Prepared,
  body: unknown,
  context: SettleContext,
): Promise<readonly number[]> {
  const { action, entity, sentAt } = prepared;
  await appendAnswer(query, { action, entity, sentAt, body }, context.random.uuid(), context.now);
  const row = await findChange(query, entity);
  if (row === undefined) return [];
  const waited = readWaiting(row);
  const done = waited.slice(0, prepared.waiting).map(({ at }) => at);
  const rest = waited.slice(prepared.waiting);
  if (prepared.kind === 'read') await settleRead(query, row, body);
  else await settleWrite(query, row, prepared, JSON.stringify(rest), context);
  return done;
}

/** A list of several pages is read on from where this page ended. */
async function settleRead(query: Query, row: OutboxRow, body: unknown): Promise<void> {
  const cursor = (body as { nextCursor?: string | null } | undefined)?.nextCursor;
  if (row.entity !== entityName.readPullRequests || !cursor) return removeChange(query, row.entity);
  await updateChange(query, row.entity, {
    state: 'pending',
    sent: JSON.stringify({ cursor }),
    attempts: 0,
    error: null,
  });
}

async function settleWrite(
  query: Query,
  row: OutboxRow,
  prepared: Prepared,
  waiting: string,
  context: SettleContext,
): Promise<void> {
  const held = await findEntity(query, row.entity);
  if (held === undefined) return removeChange(query, row.entity);
  await saveEntity(query, { ...held, known: prepared.known, known_at: context.now, ...lostId(prepared) });
  if (!differs(held, prepared)) return removeChange(query, row.entity);
  const since = row.next_since ?? context.now;
  const due = since + allowance(row.lane, context.usedShare);
  await updateChange(query, row.entity, { ...REST, state: 'pending', since, due, waiting });
}

const REST = { sent: null, sent_at: null, next_since: null, attempts: 0, not_before: 0, error: null } as const;

function lostId(prepared: Prepared): Partial<EntityRow> {
  return prepared.action === 'remove-link' ? { remote_id: null } : {};
}

/** Whether desired, as it is now, is something else than what was sent. */
function differs(held: EntityRow, prepared: Prepared): boolean {
  if (prepared.kind === 'task') return false;
  if (prepared.kind === 'link') return (held.desired !== null) !== (prepared.known !== null);
  return held.desired !== null && held.desired !== prepared.known;
}

/** What became of a failed attempt, for the log and the pump. */
export type Failure = 'again' | 'unknown' | 'held' | 'settled';

/** The attempt failed. Nothing is lost: the change waits, or is of unknown fate, or waits for a person. */
export async function settleFailure(
  query: Query,
  prepared: Prepared,
  error: SyncError,
  context: SettleContext & { readonly outage: boolean },
): Promise<Failure> {
  if (isDoneAnyway(prepared, error)) {
    await settle(query, prepared, null, context);
    return 'settled';
  }
  const text = `${error.code}: ${error.message}`.slice(0, 500);
  if (isUnknownFate(error)) {
    if (settlement(prepared.kind) === 'list') return awaitList(query, prepared, text, context);
    return tryAgain(query, prepared, text, context);
  }
  if (error.verdict === 'retry') return tryAgain(query, prepared, text, context);
  if (error.verdict === 'wait-until') {
    // The throttle knows until when; being told to wait is no failure of this change.
    await updateChange(query, prepared.entity, { ...back(prepared), error: text });
    return 'again';
  }
  await updateChange(query, prepared.entity, { ...back(prepared), state: 'held', error: text });
  return 'held';
}

/** A link that is gone already is removed. */
function isDoneAnyway(prepared: Prepared, error: SyncError): boolean {
  return prepared.action === 'remove-link' && error.status === 404;
}

/** No answer, or one that does not tell whether the write was carried out. */
function isUnknownFate(error: SyncError): boolean {
  return error.code === 'outcome_unknown' || error.code === 'server_failed' || error.code === 'answer_malformed';
}

/** The row as it waits again. A list read keeps its place. */
function back(prepared: Prepared): Partial<OutboxRow> {
  const sent = prepared.action === 'read-pull-requests' ? JSON.stringify(prepared.body) : null;
  return { state: 'pending', sent, sent_at: null };
}

async function tryAgain(
  query: Query,
  prepared: Prepared,
  error: string,
  context: SettleContext & { readonly outage: boolean },
): Promise<Failure> {
  // While nothing gets through, no single change is at fault.
  const attempts = prepared.attempts + (context.outage ? 0 : 1);
  if (attempts >= MOST_ATTEMPTS && prepared.kind !== 'read') {
    await updateChange(query, prepared.entity, { ...back(prepared), state: 'held', attempts, error });
    return 'held';
  }
  const notBefore = context.now + backoff(context.random, attempts, 1_000, 60_000);
  await updateChange(query, prepared.entity, { ...back(prepared), attempts, not_before: notBefore, error });
  return 'again';
}

async function awaitList(query: Query, prepared: Prepared, error: string, context: SettleContext): Promise<Failure> {
  const provable = context.now + SETTLE_AFTER;
  await updateChange(query, prepared.entity, { state: 'unknown', not_before: provable, error });
  const { now, usedShare } = context;
  await wishTaskList(query, { now, usedShare, lane: 'triage', notBefore: provable });
  return 'unknown';
}

/**
 * At the start: the process died with these in flight, so their fate is unknown. What the server takes twice without
 * harm is sent again; creates wait for the list.
 */
export async function recover(query: Query, context: SettleContext): Promise<number> {
  const rows = await query.selectFrom('outbox').selectAll().where('state', '=', 'sending').execute();
  for (const row of rows) {
    const prepared = JSON.parse(row.sent as string) as Prepared;
    if (settlement(row.kind) === 'list')
      await awaitList(query, prepared, 'outcome_unknown: the process ended', context);
    else await updateChange(query, row.entity, back(prepared));
  }
  return rows.length;
}
