import { type Command, InvalidArgumentError } from 'commander';
import { printable } from '../../platform/lib/text.ts';
import type { Answered, Routes } from '../../workspace-api/contract.ts';
import { type AddCommands, durationOption, print, readDuration, type Setting, say, sessionOf } from '../command.ts';
import { addShorthands, type Shorthand } from '../shorthand.ts';
import { table } from '../words.ts';
import { type PersonFlags, withOAuth, workspaceCommand } from '../workspace-command.ts';
import { createKey, type KeyFile, keyFile, type RotationEvent, rotateKey, SHORTEST_QUIET } from './key-rotation.ts';

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
