import { hash } from 'node:crypto';
import { ApiError } from '../http/api-error.ts';
import type { Role } from '../storage/service-tables.ts';
import type { Foundation } from '../storage/transactions.ts';

/** The caller of a request. */
export interface Caller {
  readonly kind: 'key' | 'token';
  readonly credentialId: string;
  /** The user bound to the credential: for a key its creator (W35). */
  readonly userId: string;
  /** Null: a token without a workspace. */
  readonly workspaceId: string | null;
  /** Null for a key, which belongs to no user. */
  readonly role: Role | null;
  /** Epoch milliseconds; null: until revoked. */
  readonly expiresAt: number | null;
}

export type Access = ReturnType<typeof createAccess>;

const MINUTE = 60_000;

/** The stored form of a secret, by which it is found. */
export function secretHash(secret: string): string {
  return hash('sha256', secret, 'hex');
}

/**
 * Checks credentials (W13, W14). A known credential is cached by the hash of its secret, so that a request needs no query; a
 * revocation removes it in the same step.
 */
export function createAccess(service: Foundation) {
  const known = new Map<string, Caller>();
  const lastUse = new Map<string, number>();
  let revocations = 0;

  const admit = (caller: Caller): Caller => {
    if (caller.expiresAt !== null && caller.expiresAt <= service.clock.now()) throw unauthorized();
    if (caller.kind === 'key') noteUse(service, lastUse, caller.credentialId);
    return caller;
  };

  const look = async (digest: string): Promise<Caller> => {
    const before = revocations;
    const caller = await findCaller(service, digest);
    if (caller === undefined) throw unauthorized();
    // A credential that was read before a revocation must not be cached after it.
    if (before === revocations) known.set(digest, caller);
    return admit(caller);
  };

  return {
    /** Returns the caller of a cached credential at once, of another one after a query. Throws 401. */
    authenticate(authorization: string | undefined): Caller | Promise<Caller> {
      const digest = secretHash(bearerOf(authorization));
      const caller = known.get(digest);
      return caller === undefined ? look(digest) : admit(caller);
    },
    /** Called after the commit that revokes the credential. */
    forget(credentialId: string): void {
      revocations += 1;
      for (const [digest, caller] of known) if (caller.credentialId === credentialId) known.delete(digest);
    },
  };
}

function bearerOf(authorization: string | undefined): string {
  const secret = authorization?.match(/^Bearer ([\x21-\x7e]{1,512})$/i)?.[1];
  if (secret === undefined) throw unauthorized();
  return secret;
}

/** One body for missing, wrong, revoked and expired credentials (W26). */
function unauthorized(): ApiError {
  return new ApiError('unauthorized', 'missing or invalid credentials', { 'www-authenticate': 'Bearer' });
}

async function findCaller({ database: { query } }: Foundation, digest: string): Promise<Caller | undefined> {
  const key = await query
    .selectFrom('api_keys')
    .select(['api_key_id as credentialId', 'workspace_id as workspaceId', 'created_by_user_id as userId'])
    .where('secret_hash', '=', digest)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  if (key) return { ...key, kind: 'key', role: null, expiresAt: null };
  const token = await query
    .selectFrom('oauth_tokens')
    .select(['token_id as credentialId', 'workspace_id as workspaceId', 'user_id as userId', 'role'])
    .select('expires_at as expiresAt')
    .where('secret_hash', '=', digest)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  return token && { ...token, kind: 'token' };
}

/** `lastUsedAt` shows which keys are in use; a minute is exact enough, and saves a write per request. */
function noteUse({ clock, commits, logger }: Foundation, lastUse: Map<string, number>, apiKeyId: string): void {
  const now = clock.now();
  if (Math.abs(now - (lastUse.get(apiKeyId) ?? Number.NEGATIVE_INFINITY)) < MINUTE) return;
  lastUse.set(apiKeyId, now);
  commits
    .run((write) =>
      write
        .updateTable('api_keys')
        .set({ last_used_at: new Date(now).toISOString() })
        .where('api_key_id', '=', apiKeyId)
        .execute(),
    )
    .catch((error: unknown) => logger.warn({ err: error, apiKeyId }, 'the last use of a key could not be stored'));
}

/** The workspace that a path names (W1, W2, W3, W26). Throws 403. */
export async function resolveWorkspace(
  { database }: Foundation,
  caller: Caller,
  named: string | undefined,
): Promise<string> {
  const wanted = named === undefined || named === 'current' ? caller.workspaceId : named;
  if (wanted === null) throw forbiddenWorkspace();
  if (wanted === caller.workspaceId) return wanted;
  if (caller.workspaceId !== null) throw forbiddenWorkspace();
  const member = await database.query
    .selectFrom('members')
    .select('role')
    .where('workspace_id', '=', wanted)
    .where('user_id', '=', caller.userId)
    .executeTakeFirst();
  if (member === undefined) throw forbiddenWorkspace();
  return wanted;
}

function forbiddenWorkspace(): ApiError {
  return new ApiError('workspace_forbidden', 'the credential gives no access to this workspace');
}

/** Key management is for owners and admins in person (W21, W26). */
export function requireAdmin(caller: Caller): void {
  if (caller.kind === 'key')
    throw new ApiError('oauth_token_required', 'an OAuth token of an owner or admin is required');
  if (caller.role === 'member') throw new ApiError('forbidden', 'only owners and admins may do this');
}

/** Agents act for people, so they use a person's token (W62, W63). */
export function requireUser(caller: Caller): void {
  if (caller.kind === 'key') throw new ApiError('api_key_not_allowed', 'an OAuth token of a member is required');
}

/** A member's own resource may be changed by the member, and by owners and admins. */
export function requireOwn(caller: Caller, userId: string): void {
  if (caller.role === 'member' && caller.userId !== userId)
    throw new ApiError('forbidden', 'only its member, owners and admins may do this');
}
