import { ROUTES } from '../../workspace-api/contract.ts';
import { type Caller, requireOwn } from '../access/caller-rights.ts';
import { ApiError, invalid, notFound } from '../http/api-error.ts';
import type { Call, Service } from '../http/call.ts';
import { findRow, newId, type Row, readPage, refuseUnknownTask, shownBy, timeNow } from '../storage/rows.ts';
import type { SessionState } from '../storage/service-tables.ts';
import type { Query, Write } from '../storage/transactions.ts';

/** Profiles of agents and the programs that run them (W62, W63). */
export const agentHandlers = {
  listAgents,
  createAgent,
  getAgent: async (service: Service, { workspaceId, ids }: Call<'getAgent'>) =>
    agentOf(await findRow(service.database.query, 'agent', workspaceId, ids.agentId)),
  updateAgent,
  listHarnesses,
  createHarness,
  heartbeat,
};

const agentOf = shownBy(ROUTES.getAgent);
const harnessOf = shownBy(ROUTES.createHarness);

/** An agent is run by its own member, or by who runs the workspace. Throws 403, 404. */
async function findOwnAgent(query: Query, workspaceId: string, agentId: string, caller: Caller) {
  const row = await findRow(query, 'agent', workspaceId, agentId);
  requireOwn(caller, row.user_id);
  return row;
}

async function listAgents(service: Service, { workspaceId, query }: Call<'listAgents'>) {
  const rows = service.database.query.selectFrom('agents').selectAll().where('workspace_id', '=', workspaceId);
  const { given, nextCursor } = await readPage(rows, query);
  return { agents: given.map((row) => agentOf(row)), nextCursor };
}

async function createAgent(service: Service, { workspaceId, caller, body }: Call<'createAgent'>) {
  const now = timeNow(service.clock);
  const row: Row<'agents'> = {
    agent_id: newId(service.random, 'agt'),
    workspace_id: workspaceId,
    user_id: caller.userId,
    name: body.name,
    description: body.description ?? null,
    created_at: now,
    updated_at: now,
  };
  await service.commits.run((write) => write.insertInto('agents').values(row).execute());
  return agentOf(row);
}

async function updateAgent(service: Service, { workspaceId, ids, caller, body }: Call<'updateAgent'>) {
  const profile = { name: body.name, description: body.description ?? null, updated_at: timeNow(service.clock) };
  return service.commits.run(async (write) => {
    const { seq, ...row } = await findOwnAgent(write, workspaceId, ids.agentId, caller);
    await write.updateTable('agents').set(profile).where('seq', '=', seq).execute();
    return agentOf({ ...row, ...profile });
  });
}

async function listHarnesses(service: Service, { workspaceId, ids, query }: Call<'listHarnesses'>) {
  await findRow(service.database.query, 'agent', workspaceId, ids.agentId);
  const rows = service.database.query.selectFrom('harnesses').selectAll().where('agent_id', '=', ids.agentId);
  const { given, nextCursor } = await readPage(rows, query);
  return { harnesses: given.map((row) => harnessOf(row)), nextCursor };
}

async function createHarness(service: Service, { workspaceId, ids, caller, body }: Call<'createHarness'>) {
  const now = timeNow(service.clock);
  const row: Row<'harnesses'> = {
    harness_id: newId(service.random, 'hrn'),
    workspace_id: workspaceId,
    agent_id: ids.agentId,
    name: body.name,
    version: body.version ?? null,
    created_at: now,
    last_heartbeat_at: now,
  };
  await service.commits.run(async (write) => {
    await findOwnAgent(write, workspaceId, ids.agentId, caller);
    await write.insertInto('harnesses').values(row).execute();
  });
  return harnessOf(row);
}

/** A lease that has ended is not renewed: the session went stale, and another may take it. */
async function heartbeat(service: Service, { workspaceId, ids, caller }: Call<'heartbeat'>) {
  const now = service.clock.now();
  await settleLeases(service, workspaceId);
  return service.commits.run(async (write) => {
    await findOwnAgent(write, workspaceId, ids.agentId, caller);
    const row = await write
      .updateTable('harnesses')
      .set({ last_heartbeat_at: new Date(now).toISOString() })
      .where('agent_id', '=', ids.agentId)
      .where('harness_id', '=', ids.harnessId)
      .returningAll()
      .executeTakeFirst();
    if (row === undefined) throw notFound('harness');
    await renewClaims(write, ids.harnessId, now);
    return harnessOf(row);
  });
}

type SessionRow = Row<'sessions'>;
type ClaimRow = Row<'claims'>;
type Ended = Exclude<ClaimRow['state'], 'active'>;

/** The allowed transitions of a session (W63). A state without an entry is final. */
const TRANSITIONS: Readonly<Record<SessionState, readonly SessionState[]>> = {
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
type ClaimEvent = 'claim' | 'complete' | 'fail' | 'release' | 'expire';

/**
 * The new state after each event; absent: the state does not allow it. Each event is a path of one or more transitions of the
 * table above: a lease that ends while input is awaited passes through active to stale, and a released session passes through
 * stale on its way back into the queue.
 */
const CLAIM_EVENTS: Readonly<Record<ClaimEvent, Readonly<Partial<Record<SessionState, SessionState>>>>> = {
  claim: { queued: 'active', pending: 'active' },
  complete: { active: 'complete' },
  fail: { active: 'error' },
  release: { active: 'queued', awaiting_input: 'queued' },
  expire: { active: 'stale', awaiting_input: 'stale' },
};

/** Whether a claimed session in this state has a running lease. */
function hasLease(state: SessionState): boolean {
  return state === 'active' || state === 'awaiting_input';
}

function isFinal(state: SessionState): boolean {
  return TRANSITIONS[state].length === 0;
}

function invalidTransition(from: SessionState, what: string): ApiError {
  return new ApiError('invalid_transition', `a session that is ${from} cannot ${what}`);
}

/** Writes the state and the columns derived from it. The caller has checked the transition. */
async function moveSession(
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

function claimOf(row: ClaimRow) {
  return shownClaim({ ...row, expires_at: new Date(row.expires_at).toISOString() });
}

async function findLiveClaims(query: Query, sessionIds: readonly string[]) {
  if (sessionIds.length === 0) return [];
  return query
    .selectFrom('claims')
    .selectAll()
    .where('session_id', 'in', sessionIds)
    .where('state', '=', 'active')
    .execute();
}

async function endClaim(write: Write, claim: ClaimRow, state: Ended, now: number): Promise<ClaimRow> {
  const columns = { state, ended_at: new Date(now).toISOString() };
  await write.updateTable('claims').set(columns).where('claim_id', '=', claim.claim_id).execute();
  return { ...claim, ...columns };
}

/** How long a claim holds without a heartbeat of its harness, milliseconds (W63). */
const LEASE = 60_000;

/** Ends overdue claims. A claim stays active in the database until `settleLeases` calls this. */
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
 * Ends the claims whose lease is over, by the service's clock, and marks their sessions stale. Called before each read of claims
 * or sessions, because no timer ends leases. Takes one index lookup. Expired leases end in a commit of their own, which a later
 * refusal does not roll back.
 */
async function settleLeases(service: Service, workspaceId: string): Promise<void> {
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

async function renewClaims(write: Write, harnessId: string, now: number): Promise<void> {
  await write
    .updateTable('claims')
    .set({ expires_at: now + LEASE })
    .where('harness_id', '=', harnessId)
    .where('state', '=', 'active')
    .execute();
}

/**
 * Handlers of sessions: the work that is queued for an agent, its claims, which are leases that the heartbeat of a harness renews,
 * and the agent's reports (W62, W63). A report does not change the state of its session.
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
    if (claim === undefined || hasLease(body.state)) return sessionOf(moved, claim);
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
