import type { Command } from 'commander';
import type { AdminOperation, Answered, Asked } from '../admin/admin-operations.ts';
import { environment, type Flags } from '../platform/config/daemon-options.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { type PatienceFlags, withPatience } from './patience.ts';
import {
  OF_WORK,
  printAsIs,
  printData,
  refusingUnknown,
  type Setting,
  say,
  sessionOf,
  withDaemonOptions,
} from './setting.ts';
import { type CommandContext, chooseWorkspace, type OAuthFlags, withOAuth, withWorkspace } from './workspace-client.ts';

/** Flags that every command on a workspace takes. */
export type WorkspaceFlags = Flags & PatienceFlags & { readonly workspace?: string; readonly json?: boolean };
/** Flags of a command that needs a person's OAuth token. */
export type PersonFlags = WorkspaceFlags & OAuthFlags;

export interface CommandRow {
  /** Name and arguments, as commander takes them: `get <task>`. */
  readonly usage: string;
  readonly description: string;
  /** The arguments after `worksync`; a function is called if the help is shown. */
  readonly example: string | (() => string);
  readonly help?: string | (() => string);
  readonly isDefault?: boolean;
  /** The daemon's options that its help shows. */
  readonly shown?: typeof OF_WORK;
  /** Whether it sends requests that count, and so may have to wait for the quota. */
  readonly costsQuota?: boolean;
  /** Whether the workspace does it only for people: its requests need an OAuth token, and cost no quota. */
  readonly isForPeople?: boolean;
}

const EXIT_CODES = `
Exit codes: 0 done; 1 failed or refused; 2 wrong usage; 75 try again later: the quota is used up, or the data folder is
in use; 77 a credential was refused; 78 the configuration is wrong.`;

const TOKEN_HELP = `
The workspace does this only for people: set WORKSYNC_OAUTH_TOKEN, or WORKSYNC_OAUTH_TOKEN_FILE to a path, to the OAuth token of
an owner or admin, for agents of any member, or name the file with --oauth-token-file. The token itself is never a flag. These
requests go straight to the workspace and cost no quota.`;

/** Adds a command to a group, with the flags, example and exit codes that all of them have. */
export function workspaceCommand(group: Command, row: CommandRow): Command {
  const { usage, description, example, help, isDefault = false, shown = OF_WORK, isForPeople = false } = row;
  const command = withDaemonOptions(group.command(usage, { isDefault }), shown);
  if (isDefault) refusingUnknown(command);
  if (row.costsQuota ?? !isForPeople) withPatience(command);
  command
    .description(description)
    .option('--workspace <name>', 'the workspace; optional if only one is configured')
    .option('--json', 'print JSON: one object in a line')
    .addHelpText(
      'after',
      () => `\nExample: worksync ${typeof example === 'string' ? example : example()}\n${EXIT_CODES}`,
    );
  if (isForPeople)
    command
      .option('--url <address>', "the workspace's API, ending in /api/v1 (default: the configured one)")
      .option('--oauth-token-file <file>', 'a file with the OAuth token')
      .addHelpText('after', TOKEN_HELP);
  return help === undefined ? command : command.addHelpText('after', help as string);
}

/** The text for people, and the objects that `--json` prints instead, one per line. */
export interface Output {
  readonly text: string;
  readonly json: readonly unknown[];
  /** The text goes unchanged into a file. */
  readonly asIs?: boolean;
  readonly code?: number;
}

/** A command that runs admin operations, and may send requests to the workspace. By default it costs no quota. */
interface RequestCommand<RowFlags extends WorkspaceFlags, Args extends readonly unknown[]> extends CommandRow {
  run(context: CommandContext, flags: RowFlags, ...args: Args): Promise<Output>;
}

export function requestCommand<RowFlags extends WorkspaceFlags, Args extends readonly unknown[]>(
  group: Command,
  setting: Setting,
  { run, ...row }: RequestCommand<RowFlags, Args>,
): Command {
  // Commander passes the arguments, the flags and the command.
  return workspaceCommand(group, { costsQuota: false, ...row }).action(async (...given: readonly unknown[]) => {
    const flags = given.at(-2) as RowFlags;
    const session = await sessionOf(setting, flags, () => 'warn');
    const output = await withWorkspace(session, flags, async (context) => {
      await warnOfOtherWorkspaces(context);
      return run(context, flags, ...(given.slice(0, -2) as unknown as Args));
    });
    show(output, flags);
    setting.exit(output.code ?? 0);
  });
}

interface OperationCommand<
  Name extends AdminOperation,
  RowFlags extends WorkspaceFlags,
  Args extends readonly unknown[],
> extends CommandRow {
  readonly operation: Name;
  body(flags: RowFlags, ...args: Args): Asked<Name>;
  /** The answer for people. @param now epoch milliseconds */
  text(answer: Answered<Name>, now: number, flags: RowFlags, ...args: Args): string;
  /** The objects of `--json`; absent: the answer, or its elements. */
  json?(answer: Answered<Name>, flags: RowFlags, ...args: Args): readonly unknown[];
  code?(answer: Answered<Name>): number;
}

export function operationCommand<
  Name extends AdminOperation,
  RowFlags extends WorkspaceFlags,
  Args extends readonly unknown[],
>(
  group: Command,
  setting: Setting,
  { operation, body, text, json, code, ...row }: OperationCommand<Name, RowFlags, Args>,
): Command {
  return requestCommand<RowFlags, Args>(group, setting, {
    ...row,
    async run({ request, session }, flags, ...args) {
      const answer = await request(operation, body(flags, ...args));
      const rows =
        json?.(answer, flags, ...args) ?? (Array.isArray(answer) ? (answer as readonly unknown[]) : [answer]);
      return { text: text(answer, session.parts.clock.now(), flags, ...args), json: rows, code: code?.(answer) };
    },
  });
}

/** Warns of rows of workspaces that are not configured, because an empty answer would look like the truth. */
export async function warnOfOtherWorkspaces({ session, partition }: CommandContext): Promise<void> {
  if (!partition) return;
  const { config, options } = session;
  const { workspacesWithRows } = await import('../store/installation/deletions.ts');
  const configured = new Set([...config.workspaces, ...config.broken].map(({ name }) => name));
  const others = (await workspacesWithRows(partition.store.query.whole)).filter((name) => !configured.has(name));
  if (others.length === 0) return;
  const place = options.store === undefined ? `The data folder ${options.data}` : 'The database';
  say(`${place} also contains these workspaces, which this configuration does not have: ${others.join(', ')}.
To use one of them, give its configuration with --config.`);
}

/** Runs the work of a command on its workspace, and prints the result. */
export async function runOnWorkspace(
  setting: Setting,
  flags: PersonFlags,
  work: (context: Pick<CommandContext, 'client' | 'config'>) => Promise<Output>,
  isForPeople = false,
): Promise<void> {
  const session = await sessionOf(setting, flags, () => 'warn');
  if (!isForPeople) reportUnusedKey(chooseWorkspace(session.config, flags.workspace));
  show(await (isForPeople ? withOAuth : withWorkspace)(session, flags, work), flags);
}

/** The variable that configurations usually read the key of a workspace from. */
const API_KEY = 'WORKSYNC_API_KEY';

/** Reports a key that is set and not used, because a person who sets one expects an answer of its workspace. */
function reportUnusedKey({ name, workspace }: WorkspaceConfig): void {
  const variables = environment();
  if (workspace.url !== undefined || !(variables[API_KEY] || variables[`${API_KEY}_FILE`])) return;
  say(
    `worksync: ${API_KEY} is not used: the workspace ${name} is the embedded one, which has a key of its own.\n  remedy: Set workspace.url and workspace.apiKey in its file.`,
  );
}

export function show({ text, json, asIs }: Output, flags: { readonly json?: boolean }): void {
  const shown = flags.json ? json.map((value) => JSON.stringify(value)).join('\n') : text;
  if (shown === '') {
    if (process.stderr.isTTY && !flags.json && !asIs) say('The list is empty.');
    return;
  }
  if (asIs && !flags.json) printAsIs(shown);
  else printData(shown);
}

export function gather(value: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, value];
}
