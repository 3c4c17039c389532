import type { Selectable } from 'kysely';
import type { Call, Handlers, Service } from '../http/call.ts';
import { readPage } from '../http/paging.ts';
import { newId, timeNow } from '../storage/new-row.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import { findSession } from './agent-session-rows.ts';
import { findOwnAgent } from './agents.ts';

type Row = Omit<Selectable<ServiceTables['activities']>, 'seq'>;

/** The reports of an agent about a session (W63). A report changes no state; the claim does. */
export function activityHandlers(service: Service): Handlers<'listActivities' | 'addActivity'> {
  return {
    listActivities: (call) => listActivities(service, call),
    addActivity: (call) => addActivity(service, call),
  };
}

function activityOf(row: Row) {
  return {
    activityId: row.activity_id,
    sessionId: row.session_id,
    workspaceId: row.workspace_id,
    type: row.type,
    content: row.content,
    url: row.url,
    userId: row.user_id,
    createdAt: row.created_at,
  };
}

async function listActivities(service: Service, { workspaceId, ids, query }: Call<'listActivities'>) {
  await findSession(service.database.query, workspaceId, ids.sessionId);
  const rows = service.database.query.selectFrom('activities').selectAll().where('session_id', '=', ids.sessionId);
  const { given, nextCursor } = await readPage(rows, query);
  return { status: 200, body: { activities: given.map(activityOf), nextCursor } };
}

async function addActivity(service: Service, { workspaceId, ids, caller, body }: Call<'addActivity'>) {
  const row: Row = {
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
    const session = await findSession(write, workspaceId, ids.sessionId);
    await findOwnAgent(write, workspaceId, session.agent_id, caller);
    await write.insertInto('activities').values(row).execute();
  });
  return { status: 201, body: activityOf(row) };
}
