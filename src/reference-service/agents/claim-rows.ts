import type { Selectable } from 'kysely';
import type { Query } from '../http/call.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import type { Write } from '../storage/transactions.ts';

export type ClaimRow = Omit<Selectable<ServiceTables['claims']>, 'seq'>;
export type Ended = Exclude<ClaimRow['state'], 'active'>;

export function claimOf(row: ClaimRow) {
  return {
    claimId: row.claim_id,
    sessionId: row.session_id,
    harnessId: row.harness_id,
    workspaceId: row.workspace_id,
    state: row.state,
    expiresAt: new Date(row.expires_at).toISOString(),
    createdAt: row.created_at,
    endedAt: row.ended_at,
  };
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
