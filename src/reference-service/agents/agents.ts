import { ROUTES } from '../../workspace-api/contract.ts';
import { type Caller, requireOwn } from '../access/caller-rights.ts';
import { notFound } from '../http/api-error.ts';
import type { Call, Service } from '../http/call.ts';
import { findRow, newId, type Row, readPage, shownBy, timeNow } from '../storage/rows.ts';
import type { Query } from '../storage/transactions.ts';
import { renewClaims, settleLeases } from './session-claims.ts';

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
export async function findOwnAgent(query: Query, workspaceId: string, agentId: string, caller: Caller) {
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
