import type { Selectable } from 'kysely';
import { type Caller, requireOwn } from '../access/caller-rights.ts';
import { notFound } from '../http/api-error.ts';
import type { Call, Handlers, Query, Service } from '../http/call.ts';
import { readPage } from '../http/paging.ts';
import { newId, timeNow } from '../storage/new-row.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import { renewClaims, settleLeases } from './claim-leases.ts';

type AgentRow = Omit<Selectable<ServiceTables['agents']>, 'seq'>;
type HarnessRow = Omit<Selectable<ServiceTables['harnesses']>, 'seq'>;

/** Profiles of agents and the programs that run them (W62, W63). */
export function agentHandlers(
  service: Service,
): Handlers<
  'listAgents' | 'createAgent' | 'getAgent' | 'updateAgent' | 'listHarnesses' | 'createHarness' | 'heartbeat'
> {
  return {
    listAgents: (call) => listAgents(service, call),
    createAgent: (call) => createAgent(service, call),
    getAgent: async ({ workspaceId, ids }) => {
      const row = await findAgent(service.database.query, workspaceId, ids.agentId);
      return { status: 200, body: agentOf(row) };
    },
    updateAgent: (call) => updateAgent(service, call),
    listHarnesses: (call) => listHarnesses(service, call),
    createHarness: (call) => createHarness(service, call),
    heartbeat: (call) => heartbeat(service, call),
  };
}

function agentOf(row: AgentRow) {
  return {
    agentId: row.agent_id,
    workspaceId: row.workspace_id,
    userId: row.user_id,
    name: row.name,
    description: row.description,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function harnessOf(row: HarnessRow) {
  return {
    harnessId: row.harness_id,
    agentId: row.agent_id,
    workspaceId: row.workspace_id,
    name: row.name,
    version: row.version,
    createdAt: row.created_at,
    lastHeartbeatAt: row.last_heartbeat_at,
  };
}

/** Throws 404. */
export async function findAgent(query: Query, workspaceId: string, agentId: string) {
  const row = await query
    .selectFrom('agents')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('agent_id', '=', agentId)
    .executeTakeFirst();
  if (row === undefined) throw notFound('agent');
  return row;
}

/** An agent is run by its own member, or by who runs the workspace. Throws 403, 404. */
export async function findOwnAgent(query: Query, workspaceId: string, agentId: string, caller: Caller) {
  const row = await findAgent(query, workspaceId, agentId);
  requireOwn(caller, row.user_id);
  return row;
}

async function listAgents(service: Service, { workspaceId, query }: Call<'listAgents'>) {
  const rows = service.database.query.selectFrom('agents').selectAll().where('workspace_id', '=', workspaceId);
  const { given, nextCursor } = await readPage(rows, query);
  return { status: 200, body: { agents: given.map(agentOf), nextCursor } };
}

async function createAgent(service: Service, { workspaceId, caller, body }: Call<'createAgent'>) {
  const now = timeNow(service.clock);
  const row: AgentRow = {
    agent_id: newId(service.random, 'agt'),
    workspace_id: workspaceId,
    user_id: caller.userId,
    name: body.name,
    description: body.description ?? null,
    created_at: now,
    updated_at: now,
  };
  await service.commits.run((write) => write.insertInto('agents').values(row).execute());
  return { status: 201, body: agentOf(row) };
}

async function updateAgent(service: Service, { workspaceId, ids, caller, body }: Call<'updateAgent'>) {
  const profile = { name: body.name, description: body.description ?? null, updated_at: timeNow(service.clock) };
  return service.commits.run(async (write) => {
    const { seq, ...row } = await findOwnAgent(write, workspaceId, ids.agentId, caller);
    await write.updateTable('agents').set(profile).where('seq', '=', seq).execute();
    return { status: 200, body: agentOf({ ...row, ...profile }) };
  });
}

async function listHarnesses(service: Service, { workspaceId, ids, query }: Call<'listHarnesses'>) {
  await findAgent(service.database.query, workspaceId, ids.agentId);
  const rows = service.database.query.selectFrom('harnesses').selectAll().where('agent_id', '=', ids.agentId);
  const { given, nextCursor } = await readPage(rows, query);
  return { status: 200, body: { harnesses: given.map(harnessOf), nextCursor } };
}

async function createHarness(service: Service, { workspaceId, ids, caller, body }: Call<'createHarness'>) {
  const now = timeNow(service.clock);
  const row: HarnessRow = {
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
  return { status: 201, body: harnessOf(row) };
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
    return { status: 200, body: harnessOf(row) };
  });
}
