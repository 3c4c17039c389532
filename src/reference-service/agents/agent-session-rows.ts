import type { Selectable } from 'kysely';
import { ApiError, notFound } from '../http/api-error.ts';
import type { Query } from '../http/call.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import type { Write } from '../storage/transactions.ts';
import { isFinal, type SessionState } from './agent-session-states.ts';

export type SessionRow = Omit<Selectable<ServiceTables['sessions']>, 'seq'>;

/** Throws 404. */
export async function findSession(query: Query, workspaceId: string, sessionId: string) {
  const row = await query
    .selectFrom('sessions')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('session_id', '=', sessionId)
    .executeTakeFirst();
  if (row === undefined) throw notFound('session');
  return row;
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
