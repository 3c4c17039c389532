import type { Caller } from '../access/caller-rights.ts';
import { invalid } from '../http/api-error.ts';
import type { Call, Handlers, Service } from '../http/call.ts';
import { readPage } from '../http/paging.ts';
import { newId, timeNow } from '../storage/new-row.ts';
import type { Write } from '../storage/transactions.ts';
import { findSession, invalidTransition, moveSession, type SessionRow } from './agent-session-rows.ts';
import { isHeld, type SessionState, TRANSITIONS } from './agent-session-states.ts';
import { findAgent, findOwnAgent } from './agents.ts';
import { settleLeases } from './claim-leases.ts';
import { type ClaimRow, claimOf, endClaim, findLiveClaims } from './claim-rows.ts';

/** The work that is queued for an agent, and where it stands (W62, W63). */
export function sessionHandlers(
  service: Service,
): Handlers<'listSessions' | 'createSession' | 'getSession' | 'updateSession'> {
  return {
    listSessions: (call) => listSessions(service, call),
    createSession: (call) => createSession(service, call),
    getSession: (call) => getSession(service, call),
    updateSession: (call) => updateSession(service, call),
  };
}

function sessionOf(row: SessionRow, claim?: ClaimRow) {
  return {
    sessionId: row.session_id,
    agentId: row.agent_id,
    workspaceId: row.workspace_id,
    taskId: row.task_id,
    title: row.title,
    state: row.state,
    error: row.error,
    claim: claim === undefined ? null : claimOf(claim),
    createdByUserId: row.created_by_user_id,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    endedAt: row.ended_at,
  };
}

async function listSessions(service: Service, { workspaceId, ids, query }: Call<'listSessions'>) {
  await settleLeases(service, workspaceId);
  await findAgent(service.database.query, workspaceId, ids.agentId);
  let rows = service.database.query.selectFrom('sessions').selectAll().where('agent_id', '=', ids.agentId);
  if (query.state) rows = rows.where('state', 'in', query.state);
  const { given, nextCursor } = await readPage(rows, query);
  const claims = await findLiveClaims(
    service.database.query,
    given.map((row) => row.session_id),
  );
  const claimBySession = new Map(claims.map((claim) => [claim.session_id, claim]));
  return {
    status: 200,
    body: { sessions: given.map((row) => sessionOf(row, claimBySession.get(row.session_id))), nextCursor },
  };
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
    await findAgent(write, workspaceId, ids.agentId);
    if (row.task_id !== null) await refuseUnknownTask(write, workspaceId, row.task_id);
    await write.insertInto('sessions').values(row).execute();
  });
  return { status: 201, body: sessionOf(row) };
}

async function refuseUnknownTask(write: Write, workspaceId: string, taskId: string): Promise<void> {
  const known = await write
    .selectFrom('tasks')
    .select('seq')
    .where('workspace_id', '=', workspaceId)
    .where('task_id', '=', taskId)
    .executeTakeFirst();
  if (known === undefined) throw invalid(`unknown task ${taskId}`);
}

async function getSession(service: Service, { workspaceId, ids }: Call<'getSession'>) {
  await settleLeases(service, workspaceId);
  const row = await findSession(service.database.query, workspaceId, ids.sessionId);
  const [claim] = await findLiveClaims(service.database.query, [ids.sessionId]);
  return { status: 200, body: sessionOf(row, claim) };
}

async function updateSession(service: Service, { workspaceId, ids, caller, body }: Call<'updateSession'>) {
  const now = service.clock.now();
  await settleLeases(service, workspaceId);
  return service.commits.run(async (write) => {
    const { seq: _seq, ...row } = await findSession(write, workspaceId, ids.sessionId);
    await requireParty(write, row, caller);
    refuseTransition(row.state, body.state);
    const [claim] = await findLiveClaims(write, [row.session_id]);
    const moved = await moveSession(write, row, body.state, now);
    if (claim === undefined || isHeld(body.state)) return { status: 200, body: sessionOf(moved, claim) };
    await endClaim(write, claim, 'released', now);
    return { status: 200, body: sessionOf(moved) };
  });
}

/** Whoever asked for the work may steer it, like whoever runs the agent. Throws 403. */
async function requireParty(write: Write, row: SessionRow, caller: Caller): Promise<void> {
  if (row.created_by_user_id === caller.userId) return;
  await findOwnAgent(write, row.workspace_id, row.agent_id, caller);
}

/** Throws 409. */
function refuseTransition(from: SessionState, to: SessionState): void {
  if (TRANSITIONS[from].includes(to)) return;
  throw invalidTransition(from, `become ${to}`);
}
