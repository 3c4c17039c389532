import type { Selectable } from 'kysely';
import { notFound } from '../http/api-error.ts';
import type { Call, Handlers, Service } from '../http/call.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import { insertKey, revokeKey } from './credentials.ts';

type KeyRow = Omit<Selectable<ServiceTables['api_keys']>, 'seq' | 'secret_hash'>;

export function apiKeyHandlers(service: Service): Handlers<'listApiKeys' | 'createApiKey' | 'revokeApiKey'> {
  return {
    listApiKeys: (call) => listApiKeys(service, call),
    createApiKey: (call) => createApiKey(service, call),
    revokeApiKey: (call) => revokeApiKey(service, call),
  };
}

/** Without the secret, which is shown once and kept hashed. */
function apiKeyOf(row: KeyRow) {
  return {
    apiKeyId: row.api_key_id,
    workspaceId: row.workspace_id,
    description: row.description,
    status: row.revoked_at === null ? 'active' : 'revoked',
    keyPrefix: row.key_prefix,
    createdByUserId: row.created_by_user_id,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    revokedAt: row.revoked_at,
  };
}

async function listApiKeys(service: Service, { workspaceId }: Call<'listApiKeys'>) {
  const rows = await service.database.query
    .selectFrom('api_keys')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .orderBy('seq', 'desc')
    .execute();
  return { status: 200, body: { apiKeys: rows.map(apiKeyOf) } };
}

async function createApiKey(service: Service, { workspaceId, caller, body }: Call<'createApiKey'>) {
  const key = { workspaceId, userId: caller.userId, description: body.description };
  const { row, secret } = await service.commits.run((write) => insertKey(write, service, key));
  return { status: 201, body: { ...apiKeyOf(row), secret } };
}

/** Effective at once (W22): the next request with the key is refused. */
async function revokeApiKey(service: Service, { workspaceId, ids }: Call<'revokeApiKey'>) {
  const known = await service.commits.run((write) => revokeKey(write, service, workspaceId, ids.apiKeyId));
  if (!known) throw notFound('API key');
  service.access.forget(ids.apiKeyId);
  return { status: 204, body: undefined };
}
