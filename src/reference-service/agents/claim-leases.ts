import type { Query, Service } from '../http/call.ts';
import type { Write } from '../storage/transactions.ts';
import { CLAIM_EVENTS } from './agent-session-states.ts';

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
