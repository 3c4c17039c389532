import { SealError } from '../lib/secret-box.ts';
import type { Write } from './commits.ts';
import type { Service } from './context.ts';
import { newId, timeNow } from './context.ts';
import {
  insertKey,
  insertToken,
  type Mint,
  type NewKey,
  type NewToken,
  revokeKey,
  revokeToken,
} from './credentials.ts';
import { type NewProviderToken, storeProviderToken } from './provider-tokens.ts';
import type { Role } from './tables.ts';

interface NewUser {
  readonly workspaceId: string;
  /** Made up where absent. */
  readonly userId?: string;
  readonly name: string;
  readonly role: Role;
}

export interface StartCredentials {
  readonly workspaceId: string;
  /** The owner that the first start made. */
  readonly userId: string;
  readonly apiKeyId: string;
  readonly apiKey: string;
  readonly tokenId: string;
  /** An owner's. */
  readonly oauthToken: string;
  /** Whether they were made just now: the only time when anybody should be shown them. */
  readonly isNew: boolean;
}

/**
 * What is done on the machine that runs the service, not over HTTP: how workspaces, users, teams and OAuth tokens come
 * to be is outside the specification (G25). Adding what is there already changes nothing but names and roles.
 */
export interface Administration {
  addWorkspace(workspaceId?: string): Promise<string>;
  addUser(user: NewUser): Promise<string>;
  addTeam(team: { workspaceId: string; teamId?: string; name: string }): Promise<string>;
  mintKey(key: NewKey): Promise<{ apiKeyId: string; secret: string }>;
  mintToken(token: NewToken): Promise<{ tokenId: string; secret: string }>;
  /** Stores a member's token at a git provider, encrypted. */
  connectProvider(token: NewProviderToken): Promise<void>;
  /**
   * A key and an owner's token, made at the first start with the workspace and its owner, and the same at every later one:
   * who uses them goes on after a restart.
   */
  startCredentials(): Promise<StartCredentials>;
}

export function createAdministration(service: Service): Administration {
  const { commits } = service;
  return {
    addWorkspace: (workspaceId = newId(service.random, 'ws')) =>
      commits.run((write) => insertWorkspace(service, write, workspaceId)),
    addUser: (user) => commits.run((write) => insertUser(service, write, user)),
    addTeam: (team) => commits.run((write) => insertTeam(service, write, team)),
    async mintKey(key) {
      const { row, secret } = await commits.run((write) => insertKey(write, service, key));
      return { apiKeyId: row.api_key_id, secret };
    },
    mintToken: (token) => commits.run((write) => insertToken(write, service, token)),
    connectProvider: (token) => commits.run((write) => storeProviderToken(write, service, token)),
    startCredentials: () => startCredentials(service),
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

export async function insertUser(service: Mint, write: Write, user: NewUser): Promise<string> {
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

async function insertTeam(
  service: Service,
  write: Write,
  team: { workspaceId: string; teamId?: string; name: string },
): Promise<string> {
  const teamId = team.teamId ?? newId(service.random, 'team');
  await write
    .insertInto('teams')
    .values({ workspace_id: team.workspaceId, team_id: teamId, name: team.name })
    .onConflict((conflict) => conflict.columns(['workspace_id', 'team_id']).doUpdateSet({ name: team.name }))
    .execute();
  return teamId;
}

const START_FACT = 'start_credentials';

/** What is remembered of a start. The secrets are sealed; before they were kept nobody could read them again. */
interface StartFact extends Omit<StartCredentials, 'apiKey' | 'oauthToken' | 'isNew'> {
  readonly sealedKey?: string;
  readonly sealedToken?: string;
}

async function startCredentials(service: Service): Promise<StartCredentials> {
  const { minted, lost } = await service.commits.run(async (write) => {
    const last = await readFact(write);
    const kept = last && openSealed(service, last);
    if (kept) return { minted: kept };
    const unreadable = last?.sealedKey === undefined ? undefined : last;
    if (unreadable) await revokeStart(service, write, unreadable);
    return { minted: await mintStart(service, write, last ?? (await firstStart(service, write))), lost: unreadable };
  });
  if (lost) {
    service.access.forget(lost.apiKeyId);
    service.access.forget(lost.tokenId);
  }
  return minted;
}

/** Undefined where they were never kept, or sealed with a key that is lost. */
function openSealed({ secrets }: Service, fact: StartFact): StartCredentials | undefined {
  const { sealedKey, sealedToken, ...ids } = fact;
  if (sealedKey === undefined || sealedToken === undefined) return undefined;
  try {
    const apiKey = secrets.open(sealedKey, placeOf(fact.apiKeyId));
    return { ...ids, apiKey, oauthToken: secrets.open(sealedToken, placeOf(fact.tokenId)), isNew: false };
  } catch (error) {
    if (error instanceof SealError) return undefined;
    throw error;
  }
}

function placeOf(id: string): string {
  return `${START_FACT} ${id}`;
}

async function readFact(write: Write): Promise<StartFact | undefined> {
  const row = await write.selectFrom('facts').select('value').where('name', '=', START_FACT).executeTakeFirst();
  return row && (JSON.parse(row.value) as StartFact);
}

async function revokeStart(service: Service, write: Write, last: StartFact): Promise<void> {
  await revokeKey(write, service, last.workspaceId, last.apiKeyId);
  await revokeToken(write, service, last.tokenId);
}

async function firstStart(service: Service, write: Write): Promise<Pick<StartFact, 'workspaceId' | 'userId'>> {
  const workspaceId = await insertWorkspace(service, write, newId(service.random, 'ws'));
  const userId = await insertUser(service, write, { workspaceId, name: 'Owner', role: 'owner' });
  return { workspaceId, userId };
}

async function mintStart(
  service: Service,
  write: Write,
  { workspaceId, userId }: Pick<StartFact, 'workspaceId' | 'userId'>,
): Promise<StartCredentials> {
  const key = await insertKey(write, service, { workspaceId, userId, description: 'minted at start' });
  const token = await insertToken(write, service, { workspaceId, userId, role: 'owner', ttl: null });
  const ids = { workspaceId, userId, apiKeyId: key.row.api_key_id, tokenId: token.tokenId };
  const sealedKey = service.secrets.seal(key.secret, placeOf(ids.apiKeyId));
  const sealedToken = service.secrets.seal(token.secret, placeOf(ids.tokenId));
  const value = JSON.stringify({ ...ids, sealedKey, sealedToken } satisfies StartFact);
  await write
    .insertInto('facts')
    .values({ name: START_FACT, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
  return { ...ids, apiKey: key.secret, oauthToken: token.secret, isNew: true };
}
