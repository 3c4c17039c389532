import type { Command, CommandOptions } from 'commander';
import type { Flags } from '../platform/config/daemon-options.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { OAuthFlags } from './oauth-client.ts';
import { type PatienceFlags, withPatience } from './patience.ts';
import {
  type Exit,
  OF_WORK,
  printAsIs,
  printData,
  refusingUnknown,
  type Setting,
  say,
  sessionOf,
  wholeNumber,
  withDaemonOptions,
} from './setting.ts';
import { type CommandClient, withWorkspace } from './workspace-client.ts';

/** Flags that every command on a workspace takes. */
export type WorkspaceFlags = Flags & PatienceFlags & { readonly workspace?: string; readonly json?: boolean };
/** Flags of a list. */
export type ListFlags = WorkspaceFlags & { readonly limit: number; readonly all?: boolean };
/** Flags of a command that needs a person's OAuth token. */
export type PersonFlags = WorkspaceFlags & OAuthFlags;

export interface Described {
  /** Name and arguments, as commander takes them: `get <task>`. */
  readonly usage: string;
  readonly description: string;
  /** The arguments after `worksync`; a function is called if the help is shown. */
  readonly example: string | (() => string);
}

const EXIT_CODES = `
Exit codes: 0 done; 1 failed or refused; 2 wrong usage; 75 try again later: the quota is used up, or the data folder is
in use; 77 a credential was refused; 78 the configuration is wrong.`;

export interface WorkspaceCommandOptions extends CommandOptions {
  /** The daemon's options that its help shows. */
  readonly shown?: typeof OF_WORK;
  /** Whether it sends requests that count, and so may have to wait for the quota. */
  readonly costsQuota?: boolean;
  /** Whether the workspace does it only for people: its requests need an OAuth token, and cost no quota. */
  readonly isForPeople?: boolean;
}

const TOKEN_HELP = `
The workspace does this only for people: set WORKSYNC_OAUTH_TOKEN, or WORKSYNC_OAUTH_TOKEN_FILE to a path, to the OAuth token of
an owner or admin, for agents of any member, or name the file with --oauth-token-file. The token itself is never a flag. These
requests go straight to the workspace and cost no quota.`;

/** A command of a group, with the flags, example and exit codes that all of them have. */
export function workspaceCommand(
  group: Command,
  { usage, description, example }: Described,
  { shown = OF_WORK, isForPeople = false, costsQuota = !isForPeople, ...options }: WorkspaceCommandOptions = {},
): Command {
  const command = withDaemonOptions(group.command(usage, options), shown);
  if (options.isDefault) refusingUnknown(command);
  if (costsQuota) withPatience(command);
  command
    .description(description)
    .option('--workspace <name>', 'the workspace; optional if only one is configured')
    .option('--json', 'print JSON: one object in a line')
    .addHelpText(
      'after',
      () => `\nExample: worksync ${typeof example === 'string' ? example : example()}\n${EXIT_CODES}`,
    );
  if (!isForPeople) return command;
  return command
    .option('--url <address>', "the workspace's API, ending in /api/v1 (default: the configured one)")
    .option('--oauth-token-file <file>', 'a file with the OAuth token')
    .addHelpText('after', TOKEN_HELP);
}

/** A command that reads a list page by page, 50 entries by default. */
export function listCommand(group: Command, described: Described, all = 'read the whole list'): Command {
  return workspaceCommand(group, described)
    .option('--limit <number>', 'at most this many', wholeNumber, 50)
    .option('--all', all);
}

/** The text for people, and the objects that `--json` prints instead, one per line. */
export interface Output {
  readonly text: string;
  readonly json: readonly unknown[];
  /** The text goes unchanged into a file. */
  readonly asIs?: boolean;
  /** The exit code; absent: 0. */
  readonly code?: number;
}

interface Run {
  readonly setting: Setting;
  readonly exit: Exit;
  readonly flags: PersonFlags;
  /** Whether the workspace does it only for people. */
  readonly isForPeople?: boolean;
}

/** Runs the work of a command on its workspace, prints the result, and ends with 0. */
export async function runOnWorkspace(
  { setting, exit, flags, isForPeople }: Run,
  work: (client: CommandClient, config: WorkspaceConfig) => Promise<Output>,
): Promise<void> {
  const session = await sessionOf(setting, flags, () => 'warn');
  const connect = isForPeople ? (await import('./oauth-client.ts')).withOAuth : withWorkspace;
  show(await connect(session, flags, work), flags);
  exit(0);
}

export function show({ text, json, asIs }: Output, flags: { readonly json?: boolean }): void {
  const told = flags.json ? json.map((value) => JSON.stringify(value)).join('\n') : text;
  if (told === '') {
    if (process.stderr.isTTY && !flags.json && !asIs) say('The list is empty.');
    return;
  }
  if (asIs && !flags.json) printAsIs(told);
  else printData(told);
}

/** For options that may be given several times. */
export function gather(value: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, value];
}
