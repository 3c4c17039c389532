import { changedRows, type Scope, type Sql } from '../workspace-scope.ts';

/** A token by which a job or script uses the gateway in place of the workspace's API key. Only its SHA-256 is stored. */
export type GatewayToken = Awaited<ReturnType<typeof listGatewayTokens>>[number];

export async function addGatewayToken(
  query: Scope,
  {
    now,
    ...token
  }: { readonly id: string; readonly digest: string; readonly description: string; readonly now: number },
): Promise<void> {
  const row = { ...token, created_at: now, revoked_at: null };
  await query.insertInto('gateway_tokens').values(row).execute();
}

/** A token that is not revoked. */
export interface LiveToken {
  readonly id: string;
  /** Name of the workspace. */
  readonly workspace: string;
}

/** Returns all tokens that are not revoked, by digest. */
export async function liveTokens(query: Sql): Promise<Map<string, LiveToken>> {
  const rows = await query
    .selectFrom('gateway_tokens')
    .innerJoin('workspaces', 'workspaces.id', 'gateway_tokens.workspace')
    .select(['gateway_tokens.digest', 'gateway_tokens.id', 'workspaces.name'])
    .where('gateway_tokens.revoked_at', 'is', null)
    .execute();
  return new Map(rows.map(({ digest, id, name }) => [digest, { id, workspace: name }]));
}

export async function listGatewayTokens(query: Scope) {
  return query
    .selectFrom('gateway_tokens')
    .select(['id', 'description', 'created_at as createdAt', 'revoked_at as revokedAt'])
    .orderBy('created_at')
    .execute();
}

/** Returns false if there is no such token or it is already revoked. */
export async function revokeGatewayToken(query: Scope, id: string, now: number): Promise<boolean> {
  const revoked = query.updateTable('gateway_tokens').set({ revoked_at: now });
  return (await changedRows(revoked.where('id', '=', id).where('revoked_at', 'is', null))) > 0;
}
