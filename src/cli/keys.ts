import { type Command, InvalidArgumentError } from 'commander';
import type { Answered, Routes } from '../workspace-api/contract.ts';
import { createKey, keyFile } from './api-key-file.ts';
import { type RotationEvent, rotateKey, SHORTEST_QUIET } from './key-rotation.ts';
import { durationOption, readDuration } from './patience.ts';
import type { Session } from './session.ts';
import { type Exit, print, type Setting, say, sessionOf } from './setting.ts';
import { printable, table } from './words.ts';
import type { CommandClient } from './workspace-client.ts';
import { show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

type ApiKey = Answered<Routes['listApiKeys']>['apiKeys'][number];
type KeyFlags = WorkspaceFlags & { readonly url?: string };

/** `worksync keys`. */
export function addKeys(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('keys')
    .description("the workspace's API keys: list, create, revoke, rotate (needs an owner's or admin's OAuth token)")
    .exitOverride();
  addList(group, setting, exit);
  addCreate(group, setting, exit);
  addRevoke(group, setting, exit);
  addRotate(group, setting, exit);
}

const TOKEN_HELP = `
Only people manage keys: set WORKSYNC_OAUTH_TOKEN, or WORKSYNC_OAUTH_TOKEN_FILE to a path, to the OAuth token of a
workspace owner or admin. It is never a flag. These requests go straight to the workspace and cost no quota.`;

function keyCommand(group: Command, described: Parameters<typeof workspaceCommand>[1]): Command {
  return workspaceCommand(group, described, { costsQuota: false })
    .option('--url <address>', "the workspace's API, ending in /api/v1 (default: the configured one)")
    .addHelpText('after', TOKEN_HELP);
}

async function runWithOAuth(
  setting: Setting,
  exit: Exit,
  flags: KeyFlags,
  work: (client: CommandClient, session: Session) => Promise<void>,
): Promise<void> {
  const session = await sessionOf(setting, flags, () => 'warn');
  const { withOAuth } = await import('./oauth-client.ts');
  await withOAuth(session, { name: flags.workspace, url: flags.url }, (client) => work(client, session));
  exit(0);
}

function addList(group: Command, setting: Setting, exit: Exit): void {
  const described = { usage: 'list', description: 'list the keys, revoked ones too', example: 'keys list --json' };
  keyCommand(group, described).action((flags: KeyFlags) =>
    runWithOAuth(setting, exit, flags, async (client) => {
      const { apiKeys } = (await client.listApiKeys({}, {})).body;
      show({ text: table(apiKeys.map(rowOf)), json: apiKeys }, flags);
    }),
  );
}

function rowOf({ apiKeyId, status, keyPrefix, description, lastUsedAt }: ApiKey): string[] {
  const used = lastUsedAt === null ? 'never used' : `used ${lastUsedAt}`;
  return [apiKeyId, status, `${keyPrefix}…`, used, printable(description)];
}

type CreateFlags = KeyFlags & { description: string; writeTo?: string };

function addCreate(group: Command, setting: Setting, exit: Exit): void {
  keyCommand(group, {
    usage: 'create',
    description: 'create a key; its secret is shown once, or written to a file (mode 0600)',
    example: 'keys create --description "CI, production" --write-to ci.key',
  })
    .requiredOption('--description <text>', 'which integration and environment use the key')
    .option('--write-to <file>', 'file to write the secret to')
    .action((flags: CreateFlags) => {
      const file = flags.writeTo === undefined ? undefined : keyFile(flags.writeTo);
      return runWithOAuth(setting, exit, flags, async (client) => {
        const { secret, ...shown } = await createKey(client, flags.description, file);
        const text = file ? `created ${shown.apiKeyId}; its secret is in ${flags.writeTo}` : secret;
        if (!file) say(`created ${shown.apiKeyId}; its secret is shown once:`);
        show({ text, json: [file ? shown : { ...shown, secret }] }, flags);
      });
    });
}

function addRevoke(group: Command, setting: Setting, exit: Exit): void {
  keyCommand(group, {
    usage: 'revoke <key>',
    description: 'revoke a key, named by its id; takes effect at once',
    example: 'keys revoke key_PGZ3mGcBdhAhrUcC',
  }).action((apiKeyId: string, flags: KeyFlags) =>
    runWithOAuth(setting, exit, flags, async (client) => {
      await client.revokeApiKey({ apiKeyId }, {});
      show({ text: `revoked ${apiKeyId}`, json: [{ revoked: apiKeyId }] }, flags);
    }),
  );
}

type RotateFlags = CreateFlags & { readonly old: string; readonly wait: number; readonly giveUp: number };

const ROTATE_HELP = `
The command creates the new key; writes its secret to the file in one step, or prints it once; waits until somebody has used
the new key and nobody has used the old one for --wait; then revokes the old one. The workspace reports the last use of a key
to the minute, so --wait is at least 2m. After an interruption, repeat the same command: it goes on where it stopped. Exit
code 75: traffic has not moved yet, and both keys are active.`;

function addRotate(group: Command, setting: Setting, exit: Exit): void {
  keyCommand(group, {
    usage: 'rotate',
    description: 'replace a key: create, hand over, prove that traffic moved, revoke the old one',
    example: 'keys rotate --old key_PGZ3mGcBdhAhrUcC --description "CI, 2027" --write-to ci.key',
  })
    .requiredOption('--old <key>', 'the id of the key to replace')
    .requiredOption('--description <text>', 'names the new key; no other active key may have it')
    .option('--write-to <file>', 'file to write the secret to; replaces an older key in it')
    .addOption(durationOption('--wait <duration>', 'how long the old key must not have been used', 300_000, quietTime))
    .addOption(durationOption('--give-up <duration>', 'how long to wait in total', 3_600_000))
    .addHelpText('after', ROTATE_HELP)
    .action((flags: RotateFlags) => {
      const file = flags.writeTo === undefined ? undefined : keyFile(flags.writeTo);
      return runWithOAuth(setting, exit, flags, (client, { parts: { clock } }) =>
        rotateKey({
          client,
          clock,
          file,
          description: flags.description,
          oldKeyId: flags.old,
          quiet: flags.wait,
          patience: flags.giveUp,
          tell: (event) => tellRotation(event, flags),
        }),
      );
    });
}

/** The secret, where it has no file, is data; everything else is told beside it. */
function tellRotation(event: RotationEvent, { json, writeTo }: RotateFlags): void {
  if (json) print(JSON.stringify(event));
  else say(wordsOf(event, writeTo));
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
