import { existsSync } from 'node:fs';
import { SyncError } from '../../model/errors.ts';
import { takeLock } from '../../platform/database/sqlite.ts';
import type { Clock, Random } from '../../platform/lib/clock.ts';
import { SealError } from '../../platform/lib/secret-box.ts';
import { ID_PATTERN } from '../../workspace-api/contract.ts';
import { ApiError } from '../http/api-error.ts';
import type { Service } from '../http/call.ts';
import {
  insertKey,
  insertToken,
  type Mint,
  type NewKey,
  type NewProviderToken,
  type NewToken,
  openSecretBox,
  revokeKey,
  revokeToken,
  storeProviderToken,
} from '../keys/keys.ts';
import { newId, timeNow } from '../storage/rows.ts';
import type { Role } from '../storage/service-tables.ts';
import { openServiceDatabase, type Write } from '../storage/transactions.ts';

interface NewUser {
  readonly workspaceId: string;
  /** Generated if absent. */
  readonly userId?: string;
  readonly name: string;
  readonly role: Role;
}

export interface StartCredentials {
  readonly workspaceId: string;
  /** The owner that the first start created. */
  readonly userId: string;
  readonly apiKeyId: string;
  readonly apiKey: string;
  /** Whether it was created now: the only time when it should be shown. */
  readonly isKeyNew: boolean;
  readonly tokenId: string;
  /** The token of an owner. */
  readonly oauthToken: string;
  readonly isTokenNew: boolean;
}

export type Administration = ReturnType<typeof createAdministration>;

/**
 * Administration on the machine that runs the service, not over HTTP: the API does not define how workspaces, users, teams and
 * OAuth tokens are created (W18). Adding an existing one changes nothing but names and roles.
 */
export function createAdministration(service: Service) {
  const { commits } = service;
  return {
    addWorkspace: (workspaceId = newId(service.random, 'ws')) =>
      commits.run((write) => insertWorkspace(service, write, workspaceId)),
    addUser: (user: NewUser) => commits.run((write) => insertUser(service, write, user)),
    addTeam: (team: { workspaceId: string; teamId?: string; name: string }) =>
      commits.run(async (write) => {
        const teamId = team.teamId ?? newId(service.random, 'team');
        await write
          .insertInto('teams')
          .values({ workspace_id: team.workspaceId, team_id: teamId, name: team.name })
          .onConflict((conflict) => conflict.columns(['workspace_id', 'team_id']).doUpdateSet({ name: team.name }))
          .execute();
        return teamId;
      }),
    async mintKey(key: NewKey) {
      const { row, secret } = await commits.run((write) => insertKey(write, service, key));
      return { apiKeyId: row.api_key_id, secret };
    },
    mintToken: (token: NewToken) => commits.run((write) => insertToken(write, service, token)),
    /** Stores a member's token at a git provider, encrypted. */
    connectProvider: (token: NewProviderToken) => commits.run((write) => storeProviderToken(write, service, token)),
    /**
     * Returns a key and an owner's token, created at the first start with the workspace and its owner, and the same at every later
     * one, so that their users continue after a restart. A revoked one stays revoked, and a new one replaces it.
     */
    async startCredentials(): Promise<StartCredentials> {
      const { replaced, ...credentials } = await commits.run((write) => takeUp(service, write));
      for (const id of replaced) service.access.forget(id);
      return credentials;
    },
  };
}

async function insertWorkspace(service: Service, write: Write, workspaceId: string): Promise<string> {
  await write
    .insertInto('workspaces')
    .values({ workspace_id: workspaceId, created_at: timeNow(service.clock) })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  return workspaceId;
}

async function insertUser(service: Mint, write: Write, user: NewUser): Promise<string> {
  const userId = user.userId ?? newId(service.random, 'usr');
  await write
    .insertInto('users')
    .values({ user_id: userId, name: user.name, created_at: timeNow(service.clock) })
    .onConflict((conflict) => conflict.column('user_id').doUpdateSet({ name: user.name }))
    .execute();
  await write
    .insertInto('members')
    .values({ workspace_id: user.workspaceId, user_id: userId, role: user.role })
    .onConflict((conflict) => conflict.columns(['workspace_id', 'user_id']).doUpdateSet({ role: user.role }))
    .execute();
  return userId;
}

const START_FACT = 'start_credentials';

/** The stored fact of a start. The secrets are sealed; older versions did not store them. */
interface StartFact {
  readonly workspaceId: string;
  readonly userId: string;
  readonly apiKeyId: string;
  readonly tokenId: string;
  readonly sealedKey?: string;
  readonly sealedToken?: string;
}

type Owner = Pick<StartFact, 'workspaceId' | 'userId'>;

/** One of the two credentials, with its secret. */
interface Held {
  readonly id: string;
  readonly secret: string;
  readonly isNew: boolean;
}

/** Reuses the stored credentials; replaces a revoked or unreadable one, and nothing else. */
async function takeUp(service: Service, write: Write): Promise<StartCredentials & { replaced: readonly string[] }> {
  const last = await readFact(write);
  const owner = last ?? (await firstStart(service, write));
  const keptKey =
    last && (await isActive(write, 'api_key', last.apiKeyId))
      ? opened(service, last.apiKeyId, last.sealedKey)
      : undefined;
  const keptToken =
    last && (await isActive(write, 'token', last.tokenId))
      ? opened(service, last.tokenId, last.sealedToken)
      : undefined;
  const replaced: string[] = [];
  if (last?.sealedKey !== undefined && !keptKey) {
    await revokeKey(write, service, last.workspaceId, last.apiKeyId);
    replaced.push(last.apiKeyId);
  }
  if (last?.sealedToken !== undefined && !keptToken) {
    await revokeToken(write, service, last.tokenId);
    replaced.push(last.tokenId);
  }
  const key = keptKey ?? (await startKey(service, write, owner, last));
  const token = keptToken ?? (await startToken(service, write, owner));
  if (key.isNew || token.isNew) await keepFact(service, write, owner, key, token);
  return {
    workspaceId: owner.workspaceId,
    userId: owner.userId,
    apiKeyId: key.id,
    apiKey: key.secret,
    isKeyNew: key.isNew,
    tokenId: token.id,
    oauthToken: token.secret,
    isTokenNew: token.isNew,
    replaced,
  };
}

/** Returns undefined if it was never stored, or sealed with a lost key. */
function opened({ secrets }: Service, id: string, sealed: string | undefined): Held | undefined {
  if (sealed === undefined) return undefined;
  try {
    return { id, secret: secrets.open(sealed, placeOf(id)), isNew: false };
  } catch (error) {
    if (error instanceof SealError) return undefined;
    throw error;
  }
}

async function isActive(write: Write, kind: 'api_key' | 'token', id: string): Promise<boolean> {
  const row = await write
    .selectFrom((kind === 'token' ? 'oauth_tokens' : 'api_keys') as 'api_keys')
    .select('revoked_at')
    .where(`${kind}_id` as 'api_key_id', '=', id)
    .executeTakeFirst();
  return row?.revoked_at === null;
}

function placeOf(id: string): string {
  return `${START_FACT} ${id}`;
}

async function readFact(write: Write): Promise<StartFact | undefined> {
  const row = await write.selectFrom('facts').select('value').where('name', '=', START_FACT).executeTakeFirst();
  return row && (JSON.parse(row.value) as StartFact);
}

async function firstStart(service: Service, write: Write): Promise<Owner> {
  const workspaceId = await insertWorkspace(service, write, newId(service.random, 'ws'));
  const userId = await insertUser(service, write, { workspaceId, name: 'Owner', role: 'owner' });
  return { workspaceId, userId };
}

/** Creates a new key. If the workspace has its most keys, the revoked one stays, so that the start does not fail. */
async function startKey(service: Service, write: Write, owner: Owner, last: StartFact | undefined): Promise<Held> {
  const revoked = last && opened(service, last.apiKeyId, last.sealedKey);
  try {
    const { row, secret } = await insertKey(write, service, {
      workspaceId: owner.workspaceId,
      userId: owner.userId,
      description: 'minted at start',
    });
    return { id: row.api_key_id, secret, isNew: true };
  } catch (error) {
    if (revoked && error instanceof ApiError && error.errorCode === 'api_key_limit_reached') return revoked;
    throw error;
  }
}

async function startToken(service: Service, write: Write, { workspaceId, userId }: Owner): Promise<Held> {
  const { tokenId, secret } = await insertToken(write, service, { workspaceId, userId, role: 'owner', ttl: null });
  return { id: tokenId, secret, isNew: true };
}

async function keepFact(service: Service, write: Write, owner: Owner, key: Held, token: Held): Promise<void> {
  const fact: StartFact = {
    workspaceId: owner.workspaceId,
    userId: owner.userId,
    apiKeyId: key.id,
    tokenId: token.id,
    sealedKey: service.secrets.seal(key.secret, placeOf(key.id)),
    sealedToken: service.secrets.seal(token.secret, placeOf(token.id)),
  };
  const value = JSON.stringify(fact);
  await write
    .insertInto('facts')
    .values({ name: START_FACT, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}

/**
 * Options of functions that change a service's database from another process, also while the service runs. Each change is one short
 * transaction of SQLite. It applies at once, because the service reads such rows when they are used.
 */
interface BesideOptions {
  /** The service's database; a service must have been started on it once. */
  readonly file: string;
  readonly secretKey?: Buffer;
  readonly clock: Clock;
  readonly random: Random;
}

/** The recipient of a credential. */
interface Recipient {
  /** Optional if there is only one workspace. */
  readonly workspaceId?: string;
  /** Id or name of a member. */
  readonly user: string;
}

interface MintedToken {
  readonly token: string;
  readonly tokenId: string;
  readonly workspaceId: string;
  readonly userId: string;
  readonly role: Role;
  /** RFC 3339, UTC. */
  readonly expiresAt: string;
}

/**
 * Mints an OAuth token (W18). An unknown user becomes a member with this role. Throws `not_found` without a database or
 * workspace, `usage` if the workspace must be named.
 *
 * @param ttl milliseconds
 */
export async function mintTokenBeside(
  options: BesideOptions,
  { workspaceId: named, user, role, ttl }: Recipient & { readonly role: Role; readonly ttl: number },
): Promise<MintedToken> {
  const expiresAt = new Date(options.clock.now() + ttl).toISOString();
  return withDatabase(options, (database) =>
    database.commit(async (write) => {
      const workspaceId = await chooseWorkspace(write, named);
      const userId =
        (await findMember(write, workspaceId, user)) ?? (await addMember(options, write, workspaceId, user, role));
      const { tokenId, secret } = await insertToken(write, options, { workspaceId, userId, role, ttl });
      return { token: secret, tokenId, workspaceId, userId, role, expiresAt };
    }),
  );
}

/**
 * Stores a member's token at a git provider, encrypted with the service's key. Replaces an existing one. Throws like
 * `mintTokenBeside`; `not_found` for an unknown member too, `secret_key_missing`, `secret_key_wrong`.
 */
export async function connectProviderBeside(
  options: BesideOptions,
  { workspaceId: named, user, ...given }: Recipient & Omit<NewProviderToken, 'workspaceId' | 'userId'>,
): Promise<{ workspaceId: string; userId: string }> {
  return withDatabase(options, async (database) => {
    const { file, secretKey, clock, random } = options;
    // A running service has the lock; then the key exists already.
    const lock = takeLock(`${file}.lock`);
    try {
      const secrets = await openSecretBox({ file, given: secretKey, database, random, owner: lock !== undefined });
      return await database.commit(async (write) => {
        const workspaceId = await chooseWorkspace(write, named);
        const userId = await findMember(write, workspaceId, user);
        if (userId === undefined) throw new SyncError('not_found', `${user} is no member of ${workspaceId}`);
        await storeProviderToken(write, { clock, secrets }, { workspaceId, userId, ...given });
        return { workspaceId, userId };
      });
    } finally {
      lock?.release();
    }
  });
}

type OpenDatabase = Awaited<ReturnType<typeof openServiceDatabase>>;

async function withDatabase<Result>(
  { file }: BesideOptions,
  work: (database: OpenDatabase) => Promise<Result>,
): Promise<Result> {
  if (!existsSync(file)) {
    throw new SyncError('not_found', `there is no database ${file}`, {
      hint: 'Name the database of a workspace service that has been started once: --db.',
    });
  }
  const database = await openServiceDatabase({ file });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

async function chooseWorkspace(write: Write, named: string | undefined): Promise<string> {
  const rows = await write.selectFrom('workspaces').select('workspace_id').orderBy('created_at').execute();
  const ids = rows.map((row) => row.workspace_id);
  const [first] = ids;
  if (first === undefined) throw new SyncError('not_found', 'the database contains no workspace yet');
  if (named === undefined && ids.length > 1)
    throw new SyncError('usage', `there are several workspaces (${ids.join(', ')}): name one`);
  if (named !== undefined && !ids.includes(named)) throw new SyncError('not_found', `there is no workspace ${named}`);
  return named ?? first;
}

/** Finds a member by id, else by a name that only one member has. */
async function findMember(write: Write, workspaceId: string, user: string): Promise<string | undefined> {
  const members = await write
    .selectFrom('members')
    .innerJoin('users', 'users.user_id', 'members.user_id')
    .select(['users.user_id', 'users.name'])
    .where('members.workspace_id', '=', workspaceId)
    .execute();
  if (members.some((member) => member.user_id === user)) return user;
  const named = members.filter((member) => member.name === user);
  if (named.length > 1) {
    const ids = named.map((member) => member.user_id).join(', ');
    throw new SyncError('usage', `several members are called ${user}: name one by id (${ids})`);
  }
  return named[0]?.user_id;
}

function addMember(
  options: BesideOptions,
  write: Write,
  workspaceId: string,
  user: string,
  role: Role,
): Promise<string> {
  if (!ID_PATTERN.test(user))
    throw new SyncError('usage', `--user ${user}: a new user's id consists of letters, digits, - and _`);
  return insertUser(options, write, { workspaceId, userId: user, name: user, role });
}
