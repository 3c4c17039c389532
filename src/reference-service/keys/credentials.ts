import type { Clock } from '../../platform/lib/clock.ts';
import type { Random } from '../../platform/lib/random.ts';
import { LIMITS, ROUTES } from '../../workspace-api/contract.ts';
import { secretHash } from '../access/caller-rights.ts';
import { ApiError, notFound } from '../http/api-error.ts';
import type { Call, Service } from '../http/call.ts';
import { newId, type Row, shownBy, timeNow } from '../storage/rows.ts';
import type { Role } from '../storage/service-tables.ts';
import type { Write } from '../storage/transactions.ts';

/** The dependencies of minting: time and chance. */
export interface Mint {
  readonly clock: Clock;
  readonly random: Random;
}

export interface NewKey {
  readonly workspaceId: string;
  /** The user bound to the key: the default reporter of the resources that it creates. */
  readonly userId: string;
  readonly description: string;
}

export interface NewToken {
  /** Null: the token has no workspace. */
  readonly workspaceId: string | null;
  readonly userId: string;
  readonly role: Role;
  /** Milliseconds; null: until revoked. */
  readonly ttl: number | null;
}

const SECRET_BYTES = 32;
const PREFIX_SHOWN = 10;

/** Adds an active key. The secret is in the answer and nowhere else. Throws 409 at the 21st (W20, W26). */
export async function insertKey(write: Write, mint: Mint, key: NewKey) {
  await refuseTooMany(write, key.workspaceId);
  const secret = `wsk_${mint.random.bytes(SECRET_BYTES).toString('base64url')}`;
  const row = {
    api_key_id: newId(mint.random, 'key'),
    workspace_id: key.workspaceId,
    description: key.description,
    secret_hash: secretHash(secret),
    key_prefix: secret.slice(0, PREFIX_SHOWN),
    created_by_user_id: key.userId,
    created_at: timeNow(mint.clock),
    last_used_at: null,
    revoked_at: null,
  };
  await write.insertInto('api_keys').values(row).execute();
  return { row, secret };
}

async function refuseTooMany(write: Write, workspaceId: string): Promise<void> {
  const { active } = await write
    .selectFrom('api_keys')
    .select((expression) => expression.fn.countAll<number>().as('active'))
    .where('workspace_id', '=', workspaceId)
    .where('revoked_at', 'is', null)
    .executeTakeFirstOrThrow();
  if (active < LIMITS.activeKeys) return;
  throw new ApiError('api_key_limit_reached', `a workspace has at most ${LIMITS.activeKeys} active API keys`);
}

/** Revokes an active key; a revoked one stays unchanged. Returns false for an unknown one. */
export async function revokeKey(write: Write, mint: Mint, workspaceId: string, apiKeyId: string): Promise<boolean> {
  const revoked = await write
    .updateTable('api_keys')
    .set((row) => ({ revoked_at: row.fn.coalesce('revoked_at', row.val(timeNow(mint.clock))) }))
    .where('workspace_id', '=', workspaceId)
    .where('api_key_id', '=', apiKeyId)
    .executeTakeFirst();
  return revoked.numUpdatedRows > 0n;
}

export async function insertToken(write: Write, mint: Mint, token: NewToken) {
  const secret = `wst_${mint.random.bytes(SECRET_BYTES).toString('base64url')}`;
  const tokenId = newId(mint.random, 'tok');
  await write
    .insertInto('oauth_tokens')
    .values({
      token_id: tokenId,
      secret_hash: secretHash(secret),
      user_id: token.userId,
      workspace_id: token.workspaceId,
      role: token.role,
      created_at: timeNow(mint.clock),
      expires_at: token.ttl === null ? null : mint.clock.now() + token.ttl,
      revoked_at: null,
    })
    .execute();
  return { tokenId, secret };
}

export async function revokeToken(write: Write, mint: Mint, tokenId: string): Promise<void> {
  await write
    .updateTable('oauth_tokens')
    .set({ revoked_at: timeNow(mint.clock) })
    .where('token_id', '=', tokenId)
    .where('revoked_at', 'is', null)
    .execute();
}

export const apiKeyHandlers = { listApiKeys, createApiKey, revokeApiKey };

const shownKey = shownBy(ROUTES.createApiKey);

/** Without the secret, which is shown once and stored hashed. */
function apiKeyOf(row: Row<'api_keys'>) {
  return shownKey({ ...row, status: row.revoked_at === null ? 'active' : 'revoked' });
}

async function listApiKeys({ database }: Service, { workspaceId }: Call<'listApiKeys'>) {
  const rows = await database.query
    .selectFrom('api_keys')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .orderBy('seq', 'desc')
    .execute();
  return { apiKeys: rows.map(apiKeyOf) };
}

async function createApiKey(service: Service, { workspaceId, caller, body }: Call<'createApiKey'>) {
  const key = { workspaceId, userId: caller.userId, description: body.description };
  const { row, secret } = await service.commits.run((write) => insertKey(write, service, key));
  return { ...apiKeyOf(row), secret };
}

/** Effective at once (W22): the next request with the key is refused. */
async function revokeApiKey(service: Service, { workspaceId, ids }: Call<'revokeApiKey'>): Promise<undefined> {
  const known = await service.commits.run((write) => revokeKey(write, service, workspaceId, ids.apiKeyId));
  if (!known) throw notFound('API key');
  service.access.forget(ids.apiKeyId);
}
