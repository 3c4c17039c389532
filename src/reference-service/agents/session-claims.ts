import { ROUTES } from '../../workspace-api/contract.ts';
import { ApiError } from '../http/api-error.ts';
import type { Service } from '../http/call.ts';
import { type Row, shownBy } from '../storage/rows.ts';
import type { SessionState } from '../storage/service-tables.ts';
import type { Query, Write } from '../storage/transactions.ts';

export type SessionRow = Row<'sessions'>;
export type ClaimRow = Row<'claims'>;
export type Ended = Exclude<ClaimRow['state'], 'active'>;

/** The allowed transitions of a session (W63). A state without an entry is final. */
export const TRANSITIONS: Readonly<Record<SessionState, readonly SessionState[]>> = {
  queued: ['pending', 'active', 'cancelled'],
  pending: ['queued', 'active', 'cancelled'],
  active: ['awaiting_input', 'complete', 'error', 'stale', 'cancelled'],
  awaiting_input: ['active'],
  stale: ['queued'],
  complete: [],
  error: [],
  cancelled: [],
};

/** An event of a session through its claim. */
export type ClaimEvent = 'claim' | 'complete' | 'fail' | 'release' | 'expire';

/**
 * The new state after each event; absent: the state does not allow it. Each event is a path of one or more transitions of the
 * table above: a lease that ends while input is awaited passes through active to stale, and a released session passes through
 * stale on its way back into the queue.
 */
export const CLAIM_EVENTS: Readonly<Record<ClaimEvent, Readonly<Partial<Record<SessionState, SessionState>>>>> = {
  claim: { queued: 'active', pending: 'active' },
  complete: { active: 'complete' },
  fail: { active: 'error' },
  release: { active: 'queued', awaiting_input: 'queued' },
  expire: { active: 'stale', awaiting_input: 'stale' },
};

/** Whether a lease runs in this state: it has a claim, if one was made. */
export function isHeld(state: SessionState): boolean {
  return state === 'active' || state === 'awaiting_input';
}

function isFinal(state: SessionState): boolean {
  return TRANSITIONS[state].length === 0;
}

export function invalidTransition(from: SessionState, what: string): ApiError {
  return new ApiError('invalid_transition', `a session that is ${from} cannot ${what}`);
}

/** Writes the state and what follows from it. The way there has been checked. */
export async function moveSession(
  write: Write,
  row: SessionRow,
  state: SessionState,
  now: number,
  error: string | null = null,
): Promise<SessionRow> {
  const time = new Date(now).toISOString();
  const columns = { state, error, updated_at: time, ended_at: isFinal(state) ? time : null };
  await write.updateTable('sessions').set(columns).where('session_id', '=', row.session_id).execute();
  return { ...row, ...columns };
}

const shownClaim = shownBy(ROUTES.claimSession);

export function claimOf(row: ClaimRow) {
  return shownClaim({ ...row, expires_at: new Date(row.expires_at).toISOString() });
}

export async function findLiveClaims(query: Query, sessionIds: readonly string[]) {
  if (sessionIds.length === 0) return [];
  return query
    .selectFrom('claims')
    .selectAll()
    .where('session_id', 'in', sessionIds)
    .where('state', '=', 'active')
    .execute();
}

export async function endClaim(write: Write, claim: ClaimRow, state: Ended, now: number): Promise<ClaimRow> {
  const columns = { state, ended_at: new Date(now).toISOString() };
  await write.updateTable('claims').set(columns).where('claim_id', '=', claim.claim_id).execute();
  return { ...claim, ...columns };
}

/** How long a claim holds without a heartbeat of its harness, milliseconds (W63). */
export const LEASE = 60_000;

/** The database knows a claim as live until somebody looks; see `settleLeases`. */
async function expireClaims(write: Write, workspaceId: string, now: number): Promise<void> {
  for (const { claim_id, session_id, state, expires_at } of await overdue(write, workspaceId, now).execute()) {
    const ended = new Date(expires_at).toISOString();
    await write
      .updateTable('claims')
      .set({ state: 'expired', ended_at: ended })
      .where('claim_id', '=', claim_id)
      .execute();
    await write
      .updateTable('sessions')
      .set({ state: CLAIM_EVENTS.expire[state] ?? state, updated_at: ended })
      .where('session_id', '=', session_id)
      .execute();
  }
}

/**
 * Ends the claims whose lease is over, by the service's clock, and marks their sessions stale. Called before claims or
 * sessions are looked at, so that nobody sees a lease that has ended; there is no timer. One look by an index, and a
 * commit of its own only where a lease is over: a refusal that follows does not take it back.
 */
export async function settleLeases(service: Service, workspaceId: string): Promise<void> {
  const now = service.clock.now();
  const due = await overdue(service.database.query, workspaceId, now).limit(1).executeTakeFirst();
  if (due !== undefined) await service.commits.run((write) => expireClaims(write, workspaceId, now));
}

function overdue(query: Query, workspaceId: string, now: number) {
  return query
    .selectFrom('claims')
    .innerJoin('sessions', 'sessions.session_id', 'claims.session_id')
    .select(['claims.claim_id', 'claims.session_id', 'claims.expires_at', 'sessions.state'])
    .where('claims.workspace_id', '=', workspaceId)
    .where('claims.state', '=', 'active')
    .where('claims.expires_at', '<=', now);
}

export async function renewClaims(write: Write, harnessId: string, now: number): Promise<void> {
  await write
    .updateTable('claims')
    .set({ expires_at: now + LEASE })
    .where('harness_id', '=', harnessId)
    .where('state', '=', 'active')
    .execute();
}
