import { closeSync, existsSync, fchmodSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import { syncFolder } from '../../platform/lib/folders.ts';
import { diskFiles, type FileFault } from '../../platform/lib/regular-files.ts';
import type { Answered, Routes } from '../../workspace-api/contract.ts';
import type { CommandClient } from '../workspace-command.ts';

type ApiKey = Answered<Routes['listApiKeys']>['apiKeys'][number];

export interface Rotation {
  /** An owner's or admin's. */
  readonly client: CommandClient;
  readonly clock: Clock;
  /** Names the new key; no other active key may have it. */
  readonly description: string;
  readonly oldKeyId: string;
  /** The file for the new secret; undefined: `tell` receives it once. */
  readonly file: KeyFile | undefined;
  /** Milliseconds for which the old key must not be used. */
  readonly quiet: number;
  /** Milliseconds that the rotation may take. */
  readonly patience: number;
  /** Receives each step, and the secret if there is no file. */
  readonly tell: (event: RotationEvent) => void;
}

export type RotationEvent =
  | { readonly did: 'created'; readonly apiKeyId: string; readonly secret: string | undefined }
  | { readonly did: 'dropped'; readonly apiKeyId: string }
  | { readonly did: 'resumed'; readonly apiKeyId: string }
  | { readonly did: 'waiting'; readonly newUsed: string | null; readonly oldUsed: string | null }
  | { readonly did: 'revoked'; readonly apiKeyId: string }
  | { readonly did: 'nothing'; readonly apiKeyId: string };

/** A key's last use is written at most once a minute: less than two minutes of silence prove nothing. */
export const SHORTEST_QUIET = 120_000;
const PAUSE = 10_000;

/**
 * Replaces an API key (W23): creates the new one, hands its secret over, waits until the new one is used and
 * the old one has not been for `quiet`, and only then revokes the old one.
 *
 * Interrupted anywhere, the same call goes on where it stopped: the key that was created is found again by its
 * description, and its secret in the file. A key whose secret was cut off before it was written is revoked and made
 * anew. Throws `rotation_waiting` when patience ends, `conflict` where a person must decide.
 */
export async function rotateKey(rotation: Rotation): Promise<void> {
  const old = keyById(await listKeys(rotation), rotation.oldKeyId);
  if (old.status === 'revoked') return rotation.tell({ did: 'nothing', apiKeyId: old.apiKeyId });
  const replacement = await replacementOf(rotation, old);
  await waitForTraffic(rotation, replacement);
  await rotation.client.revokeApiKey({ apiKeyId: old.apiKeyId }, {});
  rotation.tell({ did: 'revoked', apiKeyId: old.apiKeyId });
}

async function listKeys({ client }: Rotation): Promise<readonly ApiKey[]> {
  return (await client.listApiKeys({}, {})).body.apiKeys;
}

function keyById(keys: readonly ApiKey[], apiKeyId: string): ApiKey {
  const found = keys.find((key) => key.apiKeyId === apiKeyId);
  if (found) return found;
  throw new SyncError('not_found', `the workspace has no API key ${apiKeyId}`, {
    hint: '"worksync keys list" lists them.',
  });
}

/** The id of the new key: of an earlier run, or made now. */
async function replacementOf(rotation: Rotation, old: ApiKey): Promise<string> {
  const named = (await listKeys(rotation)).filter(
    ({ status, description, apiKeyId }) =>
      status === 'active' && description === rotation.description && apiKeyId !== rotation.oldKeyId,
  );
  refuseOlder(named, old);
  const { file } = rotation;
  file?.finish(named.map(({ keyPrefix }) => keyPrefix));
  const resumed = named.find((key) => key.lastUsedAt !== null || file?.holds(key.keyPrefix));
  if (resumed) {
    rotation.tell({ did: 'resumed', apiKeyId: resumed.apiKeyId });
    return resumed.apiKeyId;
  }
  for (const key of named) await dropLost(rotation, key);
  return createReplacement(rotation);
}

/** Throws `conflict` if a key is older than the one it would replace: it belongs to another integration. */
function refuseOlder(named: readonly ApiKey[], old: ApiKey): void {
  const older = named.find((key) => Date.parse(key.createdAt ?? '') < Date.parse(old.createdAt ?? ''));
  if (!older) return;
  throw new SyncError(
    'conflict',
    `the active key ${older.apiKeyId} has the description "${older.description}" already`,
    {
      hint: 'Choose a description that no active key has.',
    },
  );
}

/** Revokes an unused key whose secret is not in our file, but only if the secret is certainly lost. */
async function dropLost({ file, client, tell }: Rotation, key: ApiKey): Promise<void> {
  if (!file?.wasCutOff()) {
    throw new SyncError('conflict', `${key.apiKeyId} has the description "${key.description}" and was never used`, {
      hint: `If somebody will use its secret soon, wait and repeat; if the secret is lost, run "worksync keys revoke ${key.apiKeyId}".`,
    });
  }
  await client.revokeApiKey({ apiKeyId: key.apiKeyId }, {});
  tell({ did: 'dropped', apiKeyId: key.apiKeyId });
}

async function createReplacement({ client, description, file, tell }: Rotation): Promise<string> {
  const { apiKeyId, secret } = await createKey(client, description, file);
  tell({ did: 'created', apiKeyId, secret: file ? undefined : secret });
  return apiKeyId;
}

async function waitForTraffic(rotation: Rotation, newKeyId: string): Promise<void> {
  const { clock, quiet, patience, tell } = rotation;
  const begin = clock.monotonic();
  let oldUsed: string | null | undefined;
  let still = begin;
  for (;;) {
    const keys = await listKeys(rotation);
    const [fresh, old] = [keyById(keys, newKeyId), keyById(keys, rotation.oldKeyId)];
    if (old.lastUsedAt !== oldUsed) {
      oldUsed = old.lastUsedAt;
      still = clock.monotonic();
      tell({ did: 'waiting', newUsed: fresh.lastUsedAt, oldUsed });
    }
    if (fresh.lastUsedAt !== null && clock.monotonic() - still >= quiet) return;
    if (clock.monotonic() - begin >= patience) throw stillWaiting(rotation, fresh, old);
    await sleep(clock, PAUSE);
  }
}

function stillWaiting({ quiet }: Rotation, fresh: ApiKey, old: ApiKey): SyncError {
  const reason =
    fresh.lastUsedAt === null
      ? `the new key ${fresh.apiKeyId} has not been used yet`
      : `the old key ${old.apiKeyId} was used within the last ${quiet / 1_000} s: last used ${old.lastUsedAt}`;
  return new SyncError('rotation_waiting', `${reason}; both keys are active`);
}

/** Creates a key, and writes its secret to the file if there is one. */
export function createKey(client: CommandClient, description: string, file: KeyFile | undefined) {
  const create = async () => (await client.createApiKey({ body: { description } }, {})).body;
  return storingSecret(file, create, ({ secret }) => secret);
}

/** Creates something, and writes the secret of the answer to the file if there is one. */
export async function storingSecret<Created>(
  file: KeyFile | undefined,
  create: () => Promise<Created>,
  secretOf: (created: Created) => string,
): Promise<Created> {
  file?.begin();
  try {
    const created = await create();
    file?.write(secretOf(created));
    return created;
  } catch (error) {
    const { status } = asSyncError(error);
    if (status !== undefined && status >= 400 && status < 500) file?.abandon();
    throw error;
  }
}

export type KeyFile = ReturnType<typeof keyFile>;

/**
 * A file with one API key, mode 0600, replaced in one step, so that a reader sees either the old secret or the new one.
 * `<file>.new` exists from before a key is created until its secret is in place, so that a repeated call can detect an interrupted
 * one. Throws `usage` if the file cannot be written, or contains something that is no key.
 */
export function keyFile(path: string) {
  refuseOther(path);
  const next = `${path}.new`;
  return {
    path,
    /** Puts a secret in place that an interrupted run has written, if it belongs to a key with one of the prefixes. */
    finish(keyPrefixes: readonly string[]): void {
      const secret = contentOf(next);
      if (isWhole(secret) && keyPrefixes.some((prefix) => secret.startsWith(prefix))) moveIntoPlace(next, path);
    },
    /** Whether the file holds the secret of the key with this prefix. */
    holds: (keyPrefix: string) => isWhole(contentOf(path)) && contentOf(path).startsWith(keyPrefix),
    /** Whether a run was interrupted between the creation of a key and the write of its secret. */
    wasCutOff: () => existsSync(next) && !isWhole(contentOf(next)),
    /** Call it before a key is created. */
    begin: () => writeDurably(next, ''),
    write(secret: string): void {
      writeDurably(next, `${secret}\n`);
      moveIntoPlace(next, path);
    },
    /** Call it if it is certain that no key was created. */
    abandon: () => rmSync(next, { force: true }),
  };
}

const MAX_BYTES = 65_536;

/** A complete secret ends with a line break, because that is written last. */
function isWhole(secret: string): boolean {
  return secret.endsWith('\n');
}

function moveIntoPlace(next: string, path: string): void {
  renameSync(next, path);
  syncFolder(dirname(path));
}

function refuseOther(path: string): void {
  if (/^[\x21-\x7e]{0,512}\n?$/.test(contentOf(path))) return;
  throw new SyncError('usage', `${path} contains something other than a key`, { hint: 'Name another file.' });
}

function contentOf(path: string): string {
  try {
    return diskFiles.read(path, MAX_BYTES).bytes.toString('utf8');
  } catch (error) {
    if ((error as FileFault).code === 'ENOENT') return '';
    throw unusable(path, error);
  }
}

function writeDurably(path: string, text: string): void {
  try {
    const file = openSync(path, 'w', 0o600);
    try {
      fchmodSync(file, 0o600);
      writeSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    syncFolder(dirname(path));
  } catch (error) {
    throw unusable(path, error);
  }
}

function unusable(path: string, error: unknown): SyncError {
  return new SyncError('usage', `${path} cannot be used: ${(error as Error).message}`, { cause: error });
}
