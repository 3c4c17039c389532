import { ApiError, invalid, notFound } from '../http/api-error.ts';
import type { Call, Handlers, Service } from '../http/call.ts';
import { newId } from '../storage/new-row.ts';
import type { Write } from '../storage/transactions.ts';
import { findSession, invalidTransition, moveSession } from './agent-session-rows.ts';
import { CLAIM_EVENTS, type ClaimEvent } from './agent-session-states.ts';
import { findOwnAgent } from './agents.ts';
import { LEASE, settleLeases } from './claim-leases.ts';
import { type ClaimRow, claimOf, type Ended, endClaim, findLiveClaims } from './claim-rows.ts';

/** Claims of sessions: leases that the heartbeat of a harness renews (W63). */
export function claimHandlers(
  service: Service,
): Handlers<'claimSession' | 'completeClaim' | 'failClaim' | 'releaseClaim'> {
  return {
    claimSession: (call) => claimSession(service, call),
    completeClaim: (call) => finish(service, call, 'complete', 'completed'),
    failClaim: ({ body, ...call }) => finish(service, call, 'fail', 'failed', body?.error ?? null),
    releaseClaim: (call) => finish(service, call, 'release', 'released'),
  };
}

async function claimSession(service: Service, { workspaceId, ids, caller, body }: Call<'claimSession'>) {
  const now = service.clock.now();
  const row: ClaimRow = {
    claim_id: newId(service.random, 'clm'),
    workspace_id: workspaceId,
    session_id: ids.sessionId,
    harness_id: body.harnessId,
    state: 'active',
    expires_at: now + LEASE,
    created_at: new Date(now).toISOString(),
    ended_at: null,
  };
  await settleLeases(service, workspaceId);
  return service.commits.run(async (write) => {
    const session = await findSession(write, workspaceId, ids.sessionId);
    await findOwnAgent(write, workspaceId, session.agent_id, caller);
    await refuseStranger(write, session.agent_id, body.harnessId);
    await refuseClaimed(write, session.session_id);
    const state = CLAIM_EVENTS.claim[session.state];
    if (state === undefined) throw invalidTransition(session.state, 'be claimed');
    await write.insertInto('claims').values(row).execute();
    await moveSession(write, session, state, now);
    return { status: 201, body: claimOf(row) };
  });
}

async function refuseStranger(write: Write, agentId: string, harnessId: string): Promise<void> {
  const known = await write
    .selectFrom('harnesses')
    .select('seq')
    .where('agent_id', '=', agentId)
    .where('harness_id', '=', harnessId)
    .executeTakeFirst();
  if (known === undefined) throw invalid(`harnessId: no harness ${harnessId} of this session's agent`);
}

async function refuseClaimed(write: Write, sessionId: string): Promise<void> {
  const [live] = await findLiveClaims(write, [sessionId]);
  if (live === undefined) return;
  throw new ApiError('session_already_claimed', `the session is claimed until ${claimOf(live).expiresAt}`);
}

type Target = Pick<Call<'completeClaim'>, 'workspaceId' | 'ids' | 'caller'>;

/** Ends a live claim, and moves its session to the state after the event. Throws 403, 404, 409. */
async function finish(
  service: Service,
  { workspaceId, ids, caller }: Target,
  event: ClaimEvent,
  ended: Ended,
  error: string | null = null,
) {
  const now = service.clock.now();
  await settleLeases(service, workspaceId);
  return service.commits.run(async (write) => {
    const claim = await findClaim(write, workspaceId, ids.claimId);
    const session = await findSession(write, workspaceId, claim.session_id);
    await findOwnAgent(write, workspaceId, session.agent_id, caller);
    if (claim.state !== 'active') throw new ApiError('claim_ended', `the claim is ${claim.state}`);
    const state = CLAIM_EVENTS[event][session.state];
    if (state === undefined) throw invalidTransition(session.state, event);
    await moveSession(write, session, state, now, error);
    return { status: 200, body: claimOf(await endClaim(write, claim, ended, now)) };
  });
}

async function findClaim(write: Write, workspaceId: string, claimId: string): Promise<ClaimRow> {
  const row = await write
    .selectFrom('claims')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('claim_id', '=', claimId)
    .executeTakeFirst();
  if (row === undefined) throw notFound('claim');
  return row;
}
