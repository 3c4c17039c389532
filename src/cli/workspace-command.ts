import type { Command, CommandOptions } from 'commander';
import type { Flags } from '../platform/config/daemon-options.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
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

export interface Described {
  /** Name and arguments, as commander takes them: `get <task>`. */
  readonly usage: string;
  readonly description: string;
  /** The arguments after `worksync`. */
  readonly example: string;
}

const EXIT_CODES = `
Exit codes: 0 done; 1 failed or refused; 2 wrong usage; 75 try again later: the quota is used up, or the data folder is
in use; 77 a credential was refused; 78 the configuration is wrong.`;

export interface WorkspaceCommandOptions extends CommandOptions {
  /** The daemon's options that its help shows. */
  readonly shown?: typeof OF_WORK;
  /** Whether it sends requests that count, and so may have to wait for the quota. */
  readonly costsQuota?: boolean;
}

/** A command of a group, with the flags, example and exit codes that all of them have. */
export function workspaceCommand(
  group: Command,
  { usage, description, example }: Described,
  { shown = OF_WORK, costsQuota = true, ...options }: WorkspaceCommandOptions = {},
): Command {
  const command = withDaemonOptions(group.command(usage, options), shown);
  if (options.isDefault) refusingUnknown(command);
  return (costsQuota ? withPatience(command) : command)
    .description(description)
    .option('--workspace <name>', 'the workspace; optional if only one is configured')
    .option('--json', 'print JSON: one object in a line')
    .addHelpText('after', `\nExample: worksync ${example}\n${EXIT_CODES}`);
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

/** Runs the work of a command on its workspace, prints the result, and ends with 0. */
export async function runOnWorkspace(
  setting: Setting,
  exit: Exit,
  flags: WorkspaceFlags,
  work: (client: CommandClient, config: WorkspaceConfig) => Promise<Output>,
): Promise<void> {
  const session = await sessionOf(setting, flags, () => 'warn');
  show(await withWorkspace(session, flags, work), flags);
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

const LARGEST_PAGE = 100;

/** Reads pages until there are `limit` entries, or no more. Each page is one request. */
export async function readPages<Entry>(
  { limit, all }: Pick<ListFlags, 'limit' | 'all'>,
  read: (page: { limit: number; cursor?: string }) => Promise<{ entries: readonly Entry[]; nextCursor: string | null }>,
): Promise<Entry[]> {
  const found: Entry[] = [];
  const wanted = all ? Number.POSITIVE_INFINITY : limit;
  let cursor: string | null | undefined;
  while (found.length < wanted && cursor !== null) {
    const page = { limit: Math.min(LARGEST_PAGE, wanted - found.length), ...(cursor === undefined ? {} : { cursor }) };
    const { entries, nextCursor } = await read(page);
    found.push(...entries);
    cursor = nextCursor;
  }
  return found;
}

/** For options that may be given several times. */
export function gather(value: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, value];
}
