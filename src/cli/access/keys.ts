import { closeSync, existsSync, fchmodSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import { syncFolder } from '../../platform/lib/folders.ts';
import { diskFiles, type FileFault } from '../../platform/lib/regular-files.ts';
import type { Answered, Routes } from '../../workspace-api/contract.ts';
import { type AddCommands, durationOption, print, readDuration, type Setting, say, sessionOf } from '../command.ts';
import { addShorthands, type Shorthand } from '../shorthand.ts';
import { printable, table } from '../words.ts';
import { type CommandClient, type PersonFlags, withOAuth, workspaceCommand } from '../workspace-command.ts';

type ApiKey = Answered<Routes['listApiKeys']>['apiKeys'][number];
type CreatedKey = ApiKey & { readonly secret?: string };

const ROWS: readonly Shorthand[] = [
  {
    usage: 'list',
    description: 'list the keys, revoked ones too',
    example: 'keys list --json',
    operation: 'listApiKeys',
    show: ({ apiKeys }: { readonly apiKeys: readonly ApiKey[] }) => ({
      text: table(apiKeys.map(columnsOf)),
      json: apiKeys,
    }),
  },
  {
    usage: 'create',
    description: 'create a key; its secret is shown once, or written to a file (mode 0600)',
    example: 'keys create --description "CI, production" --write-to ci.key',
    operation: 'createApiKey',
    options: (command) =>
      command
        .requiredOption('--description <text>', 'which integration and environment use the key')
        .option('--write-to <file>', 'file to write the secret to', keyFile),
    send: async (client, { description, writeTo }: CreateFlags) => {
      const { secret, ...shown } = await createKey(client, description, writeTo);
      return { body: writeTo ? shown : { ...shown, secret } };
    },
    show: ({ apiKeyId, secret }: CreatedKey, { writeTo }) => {
      if (secret === undefined) return `created ${apiKeyId}; its secret is in ${(writeTo as KeyFile).path}`;
      say(`created ${apiKeyId}; its secret is shown once:`);
      return secret;
    },
  },
  {
    usage: 'revoke <key>',
    description: 'revoke a key, named by its id; takes effect at once',
    example: 'keys revoke key_PGZ3mGcBdhAhrUcC',
    operation: 'revokeApiKey',
    fields: { key: 'apiKeyId' },
    show: (_nothing, { apiKeyId }) => ({ text: `revoked ${apiKeyId as string}`, json: [{ revoked: apiKeyId }] }),
  },
];

function columnsOf({ apiKeyId, status, keyPrefix, description, lastUsedAt }: ApiKey): string[] {
  const used = lastUsedAt === null ? 'never used' : `used ${lastUsedAt}`;
  return [apiKeyId, status, `${keyPrefix}…`, used, printable(description)];
}

export const addKeys: AddCommands = (program, setting) => {
  const group = program
    .command('keys')
    .description("the workspace's API keys: list, create, revoke, rotate (needs an owner's or admin's OAuth token)")
    .exitOverride();
  addShorthands(group, ROWS, setting, true);
  addRotate(group, setting);
};

interface CreateFlags {
  readonly description: string;
  readonly writeTo?: KeyFile;
}

type RotateFlags = PersonFlags & CreateFlags & { readonly old: string; readonly wait: number; readonly giveUp: number };

const ROTATE_HELP = `
The command creates the new key; writes its secret to the file in one step, or prints it once; waits until somebody has used
the new key and nobody has used the old one for --wait; then revokes the old one. The workspace reports the last use of a key
to the minute, so --wait is at least 2m. After an interruption, repeat the same command: it goes on where it stopped. Exit
code 75: traffic has not moved yet, and both keys are active.`;

function addRotate(group: Command, setting: Setting): void {
  workspaceCommand(group, {
    usage: 'rotate',
    description: 'replace a key: create, hand over, prove that traffic moved, revoke the old one',
    example: 'keys rotate --old key_PGZ3mGcBdhAhrUcC --description "CI, 2027" --write-to ci.key',
    help: ROTATE_HELP,
    isForPeople: true,
  })
    .requiredOption('--old <key>', 'the id of the key to replace')
    .requiredOption('--description <text>', 'names the new key; no other active key may have it')
    .option('--write-to <file>', 'file to write the secret to; replaces an older key in it', keyFile)
    .addOption(durationOption('--wait <duration>', 'how long the old key must not have been used', 300_000, quietTime))
    .addOption(durationOption('--give-up <duration>', 'how long to wait in total', 3_600_000))
    .action(async (flags: RotateFlags) => {
      const session = await sessionOf(setting, flags, () => 'warn');
      await withOAuth(session, flags, ({ client }) =>
        rotateKey({
          client,
          clock: session.parts.clock,
          file: flags.writeTo,
          description: flags.description,
          oldKeyId: flags.old,
          quiet: flags.wait,
          patience: flags.giveUp,
          tell: (event) => reportRotation(event, flags),
        }),
      );
    });
}

/** Prints the secret to standard output if it has no file, and everything else to standard error. */
function reportRotation(event: RotationEvent, { json, writeTo }: RotateFlags): void {
  if (json) print(JSON.stringify(event));
  else say(wordsOf(event, writeTo?.path));
  if (!json && event.did === 'created' && event.secret !== undefined) print(event.secret);
}

function wordsOf(event: RotationEvent, writeTo: string | undefined): string {
  switch (event.did) {
    case 'created':
      return `created ${event.apiKeyId}; its secret ${writeTo ? `is in ${writeTo}` : 'is shown once:'}`;
    case 'dropped':
      return `revoked ${event.apiKeyId}: an interrupted run made it, and its secret was lost`;
    case 'resumed':
      return `going on with ${event.apiKeyId}, which an earlier run made`;
    case 'waiting':
      return `waiting: new key ${usedAt(event.newUsed)}, old key ${usedAt(event.oldUsed)}`;
    case 'revoked':
      return `revoked the old key ${event.apiKeyId}: traffic has moved`;
    case 'nothing':
      return `${event.apiKeyId} is revoked already: nothing to do`;
  }
}

function usedAt(time: string | null): string {
  return time === null ? 'never used' : `last used ${time}`;
}

function quietTime(text: string): number {
  const ms = readDuration(text);
  if (ms < SHORTEST_QUIET)
    throw new InvalidArgumentError('the workspace reports the last use to the minute: expected at least 2m');
  return ms;
}

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
const SHORTEST_QUIET = 120_000;
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
function createKey(client: CommandClient, description: string, file: KeyFile | undefined) {
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
 * A file with one API key, mode 0600, replaced in one step: who reads it sees the old secret or the new one. Beside it
 * stands `<file>.new` from before a key is created until its secret is in place, so that a repeated call knows what
 * an interrupted one left. Throws `usage` where the file cannot be written, or holds something that is no key.
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

/** The line's end is written last. */
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
