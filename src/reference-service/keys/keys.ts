import { createHash } from 'node:crypto';
import type { MemberAccess } from '../../connectors/connector.ts';
import { SyncError } from '../../model/errors.ts';
import type { Database } from '../../platform/database/database-types.ts';
import type { Clock, Random } from '../../platform/lib/clock.ts';
import { KeyFileError, makeKeyFile, readKeyFile } from '../../platform/lib/key-file.ts';
import { createSecretBox, SealError, type SecretBox } from '../../platform/lib/secret-box.ts';
import { LIMITS, ROUTES } from '../../workspace-api/contract.ts';
import { secretHash } from '../access/caller-rights.ts';
import { ApiError, notFound } from '../http/api-error.ts';
import type { Call, Service } from '../http/call.ts';
import { newId, type Row, shownBy, timeNow } from '../storage/rows.ts';
import type { Role, ServiceTables } from '../storage/service-tables.ts';
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

/** A member's token at a git provider, in plain text. */
export interface NewProviderToken {
  readonly workspaceId: string;
  readonly userId: string;
  readonly provider: string;
  readonly host: string;
  /** Absent: derived from the host. */
  readonly apiUrl?: string;
  readonly token: string;
}

/** The place that a sealed token is bound to, so that no other user's row opens it. */
function placeOf(workspaceId: string, userId: string, provider: string): string {
  return `provider_token:${workspaceId}:${userId}:${provider}`;
}

/** Stores the token encrypted; replaces an existing one. */
export async function storeProviderToken(
  write: Write,
  { clock, secrets }: Pick<Mint, 'clock'> & { readonly secrets: SecretBox },
  given: NewProviderToken,
): Promise<void> {
  const { workspaceId, userId, provider } = given;
  const columns = {
    host: given.host,
    api_url: given.apiUrl ?? null,
    sealed_token: secrets.seal(given.token, placeOf(workspaceId, userId, provider)),
    connected_at: timeNow(clock),
  };
  await write
    .insertInto('provider_tokens')
    .values({ workspace_id: workspaceId, user_id: userId, provider, ...columns })
    .onConflict((conflict) => conflict.columns(['workspace_id', 'user_id', 'provider']).doUpdateSet(columns))
    .execute();
}

/** Read for each use, so that a change by another process applies at once. Returns undefined if the member has none. */
export async function findMemberAccess(
  service: Service,
  workspaceId: string,
  userId: string,
  provider: string,
): Promise<MemberAccess | undefined> {
  const row = await service.database.query
    .selectFrom('provider_tokens')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('user_id', '=', userId)
    .where('provider', '=', provider)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  try {
    const token = service.secrets.open(row.sealed_token, placeOf(workspaceId, userId, provider));
    return { token, host: row.host, ...(row.api_url === null ? {} : { apiUrl: row.api_url }) };
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    service.logger.error(
      { err: error, userId, provider },
      'a stored provider token cannot be opened: connect it again',
    );
    return undefined;
  }
}

interface SecretKeyDeps {
  /** The service's database; a key of its own lies beside it in `<file>.key`. */
  readonly file: string;
  /** A key that the environment gives: used instead of the file's. */
  readonly given?: Buffer;
  readonly database: Database<ServiceTables>;
  readonly random: Random;
  /** Only the process that holds the lock of the database makes a key, or takes over another one. */
  readonly owner: boolean;
}

/**
 * Opens the box for stored secrets with the given key, the key of the file, or a new one. The database stores a digest of the
 * key. If it contains encrypted values, another key is refused, because it could not decrypt them. Throws `secret_key_missing`
 * and `secret_key_wrong`, and changes nothing then.
 */
export async function openSecretBox(deps: SecretKeyDeps): Promise<SecretBox> {
  const { file, given, database, random } = deps;
  const known = await readDigest(database);
  const fixed = !deps.owner || (known !== undefined && (await isAnythingSealed(database)));
  const key = given ?? readKey(`${file}.key`) ?? makeKey(`${file}.key`, random, fixed);
  const digest = createHash('sha256').update('worksync secret key\n').update(key).digest('hex');
  if (digest !== known) {
    if (fixed) throw wrongKey(given === undefined ? `${file}.key` : 'WORKSYNC_SECRET_KEY');
    await writeDigest(database, digest);
  }
  return createSecretBox(key, random);
}

function wrongKey(origin: string): SyncError {
  return new SyncError('secret_key_wrong', `${origin} is not the key that secrets in the database are encrypted with`);
}

const FACT = 'secret_key';

async function readDigest({ query }: Database<ServiceTables>): Promise<string | undefined> {
  const row = await query.selectFrom('facts').select('value').where('name', '=', FACT).executeTakeFirst();
  return row?.value;
}

async function writeDigest({ query }: Database<ServiceTables>, value: string): Promise<void> {
  await query
    .insertInto('facts')
    .values({ name: FACT, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}

async function isAnythingSealed({ query }: Database<ServiceTables>): Promise<boolean> {
  const token = await query.selectFrom('provider_tokens').select('user_id').limit(1).executeTakeFirst();
  const webhook = await query.selectFrom('webhooks').select('webhook_id').limit(1).executeTakeFirst();
  return token !== undefined || webhook !== undefined;
}

function readKey(file: string): Buffer | undefined {
  try {
    return readKeyFile(file);
  } catch (error) {
    if (!(error instanceof KeyFileError)) throw error;
    const code = error.why === 'unreadable' ? 'secret_key_missing' : 'secret_key_wrong';
    throw new SyncError(code, error.message, { cause: error.cause });
  }
}

function makeKey(file: string, random: Random, fixed: boolean): Buffer {
  if (fixed) throw new SyncError('secret_key_missing', `${file} is missing, and secrets are encrypted with its key`);
  return makeKeyFile(file, random);
}
