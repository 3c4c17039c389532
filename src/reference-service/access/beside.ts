import { existsSync } from 'node:fs';
import { SyncError } from '../../model/errors/sync-error.ts';
import { takeLock } from '../../platform/database/sqlite.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Random } from '../../platform/lib/random.ts';
import { ID_PATTERN } from '../../workspace-api/contract.ts';
import { insertToken } from '../keys/credentials.ts';
import { openSecretBox } from '../keys/open-secret-box.ts';
import { type NewProviderToken, storeProviderToken } from '../keys/provider-tokens.ts';
import { openServiceDatabase } from '../storage/open-database.ts';
import type { Role } from '../storage/service-tables.ts';
import type { Write } from '../storage/transactions.ts';
import { insertUser } from './administration.ts';

export interface BesideOptions {
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

export interface MintedToken {
  readonly token: string;
  readonly tokenId: string;
  readonly workspaceId: string;
  readonly userId: string;
  readonly role: Role;
  /** RFC 3339, UTC. */
  readonly expiresAt: string;
}

/**
 * Changes a service's database from another process, also while the service runs. Each change is one short transaction of SQLite,
 * and the service reads such rows when they are used, so it applies at once.
 *
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
