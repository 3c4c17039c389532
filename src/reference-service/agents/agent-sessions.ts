import { ROUTES } from '../../workspace-api/contract.ts';
import type { Caller } from '../access/caller-rights.ts';
import { ApiError, invalid } from '../http/api-error.ts';
import type { Call, Service } from '../http/call.ts';
import { findRow, newId, type Row, readPage, refuseUnknownTask, shownBy, timeNow } from '../storage/rows.ts';
import type { SessionState } from '../storage/service-tables.ts';
import type { Write } from '../storage/transactions.ts';
import { findOwnAgent } from './agents.ts';
import {
  CLAIM_EVENTS,
  type ClaimEvent,
  type ClaimRow,
  claimOf,
  type Ended,
  endClaim,
  findLiveClaims,
  invalidTransition,
  isHeld,
  LEASE,
  moveSession,
  type SessionRow,
  settleLeases,
  TRANSITIONS,
} from './session-claims.ts';

/**
 * The work that is queued for an agent, and its state; its claims, which are leases that the heartbeat of a harness renews; and the
 * reports of the agent about it (W62, W63). A report changes no state; the claim does.
 */
export const sessionHandlers = {
  listSessions,
  createSession,
  getSession,
  updateSession,
  claimSession,
  completeClaim: (service: Service, call: Call<'completeClaim'>) => finish(service, call, 'complete', 'completed'),
  failClaim: (service: Service, call: Call<'failClaim'>) =>
    finish(service, call, 'fail', 'failed', call.body?.error ?? null),
  releaseClaim: (service: Service, call: Call<'releaseClaim'>) => finish(service, call, 'release', 'released'),
  listActivities,
  addActivity,
};

const shownSession = shownBy(ROUTES.getSession);
const activityOf = shownBy(ROUTES.addActivity);

function sessionOf(row: SessionRow, claim?: ClaimRow) {
  return shownSession({ ...row, claim: claim === undefined ? null : claimOf(claim) });
}

async function listSessions(service: Service, { workspaceId, ids, query }: Call<'listSessions'>) {
  await settleLeases(service, workspaceId);
  await findRow(service.database.query, 'agent', workspaceId, ids.agentId);
  let rows = service.database.query.selectFrom('sessions').selectAll().where('agent_id', '=', ids.agentId);
  if (query.state) rows = rows.where('state', 'in', query.state);
  const { given, nextCursor } = await readPage(rows, query);
  const claims = await findLiveClaims(
    service.database.query,
    given.map((row) => row.session_id),
  );
  const claimBySession = new Map(claims.map((claim) => [claim.session_id, claim]));
  return { sessions: given.map((row) => sessionOf(row, claimBySession.get(row.session_id))), nextCursor };
}

/** Any member may queue work for an agent. */
async function createSession(service: Service, { workspaceId, ids, caller, body }: Call<'createSession'>) {
  const now = timeNow(service.clock);
  const row: SessionRow = {
    session_id: newId(service.random, 'ses'),
    workspace_id: workspaceId,
    agent_id: ids.agentId,
    task_id: body.taskId ?? null,
    title: body.title,
    state: 'queued',
    error: null,
    created_by_user_id: caller.userId,
    created_at: now,
    updated_at: now,
    ended_at: null,
  };
  await service.commits.run(async (write) => {
    await findRow(write, 'agent', workspaceId, ids.agentId);
    if (row.task_id !== null) await refuseUnknownTask(write, workspaceId, row.task_id);
    await write.insertInto('sessions').values(row).execute();
  });
  return sessionOf(row);
}

async function getSession(service: Service, { workspaceId, ids }: Call<'getSession'>) {
  await settleLeases(service, workspaceId);
  const row = await findRow(service.database.query, 'session', workspaceId, ids.sessionId);
  const [claim] = await findLiveClaims(service.database.query, [ids.sessionId]);
  return sessionOf(row, claim);
}

async function updateSession(service: Service, { workspaceId, ids, caller, body }: Call<'updateSession'>) {
  const now = service.clock.now();
  await settleLeases(service, workspaceId);
  return service.commits.run(async (write) => {
    const { seq: _seq, ...row } = await findRow(write, 'session', workspaceId, ids.sessionId);
    await requireParty(write, row, caller);
    refuseTransition(row.state, body.state);
    const [claim] = await findLiveClaims(write, [row.session_id]);
    const moved = await moveSession(write, row, body.state, now);
    if (claim === undefined || isHeld(body.state)) return sessionOf(moved, claim);
    await endClaim(write, claim, 'released', now);
    return sessionOf(moved);
  });
}

/** The member who queued a session may change it, and so may those who run the agent. Throws 403. */
async function requireParty(write: Write, row: SessionRow, caller: Caller): Promise<void> {
  if (row.created_by_user_id === caller.userId) return;
  await findOwnAgent(write, row.workspace_id, row.agent_id, caller);
}

/** Throws 409. */
function refuseTransition(from: SessionState, to: SessionState): void {
  if (TRANSITIONS[from].includes(to)) return;
  throw invalidTransition(from, `become ${to}`);
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
    const session = await findRow(write, 'session', workspaceId, ids.sessionId);
    await findOwnAgent(write, workspaceId, session.agent_id, caller);
    await refuseStranger(write, session.agent_id, body.harnessId);
    await refuseClaimed(write, session.session_id);
    const state = CLAIM_EVENTS.claim[session.state];
    if (state === undefined) throw invalidTransition(session.state, 'be claimed');
    await write.insertInto('claims').values(row).execute();
    await moveSession(write, session, state, now);
    return claimOf(row);
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
  throw new ApiError(
    'session_already_claimed',
    `the session is claimed until ${new Date(live.expires_at).toISOString()}`,
  );
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
    const claim = await findRow(write, 'claim', workspaceId, ids.claimId);
    const session = await findRow(write, 'session', workspaceId, claim.session_id);
    await findOwnAgent(write, workspaceId, session.agent_id, caller);
    if (claim.state !== 'active') throw new ApiError('claim_ended', `the claim is ${claim.state}`);
    const state = CLAIM_EVENTS[event][session.state];
    if (state === undefined) throw invalidTransition(session.state, event);
    await moveSession(write, session, state, now, error);
    return claimOf(await endClaim(write, claim, ended, now));
  });
}

async function listActivities(service: Service, { workspaceId, ids, query }: Call<'listActivities'>) {
  await findRow(service.database.query, 'session', workspaceId, ids.sessionId);
  const rows = service.database.query.selectFrom('activities').selectAll().where('session_id', '=', ids.sessionId);
  const { given, nextCursor } = await readPage(rows, query);
  return { activities: given.map((row) => activityOf(row)), nextCursor };
}

async function addActivity(service: Service, { workspaceId, ids, caller, body }: Call<'addActivity'>) {
  const row: Row<'activities'> = {
    activity_id: newId(service.random, 'act'),
    workspace_id: workspaceId,
    session_id: ids.sessionId,
    type: body.type,
    content: body.content ?? null,
    url: body.url ?? null,
    user_id: caller.userId,
    created_at: timeNow(service.clock),
  };
  await service.commits.run(async (write) => {
    const session = await findRow(write, 'session', workspaceId, ids.sessionId);
    await findOwnAgent(write, workspaceId, session.agent_id, caller);
    await write.insertInto('activities').values(row).execute();
  });
  return activityOf(row);
}
