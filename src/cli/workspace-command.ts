import type { Command } from 'commander';
import type { AdminOperation, Answered, Asked } from '../admin/admin-operations.ts';
import { unknownName } from '../admin/named.ts';
import type { Partition } from '../daemon/partition.ts';
import { asSyncError, type ErrorCode, SyncError } from '../model/errors.ts';
import { environment, type Flags } from '../platform/config/daemon-options.ts';
import type { LoadedConfig } from '../platform/config/load.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Forwarded } from '../web/admin-answers.ts';
import type { WorkspaceClient } from '../workspace-api/typed-client.ts';
import {
  OF_WORK,
  type Output,
  type PatienceFlags,
  refusingUnknown,
  type Setting,
  SILENCE,
  say,
  sessionOf,
  show,
  withDaemonOptions,
  withPatience,
  withWaitLimit,
  withWaitNotice,
} from './command.ts';
import { askOwner, hasOwner, refusal, whoRuns } from './owner.ts';
import type { Session } from './session.ts';

/** The client of commands and jobs, whose lane is already set. */
export type CommandClient = WorkspaceClient<object>;

export interface CommandContext {
  readonly session: Session;
  readonly config: WorkspaceConfig;
  /** Runs an admin operation in the process that owns the workspace. */
  request<Name extends AdminOperation>(name: Name, body: Asked<Name>): Promise<Answered<Name>>;
  /** Sends requests to the workspace itself, through the quota of the process that owns it. */
  readonly client: CommandClient;
  /** Present if no daemon runs and this process owns the data folder; nothing in it has been started. */
  readonly partition?: Partition | undefined;
}

/** Milliseconds that one request may take: the limit of the HTTP client plus the time to reach the daemon. */
const REQUEST_TIMEOUT = 35_000;

/**
 * Runs `work` with one configured workspace. If a daemon runs, each request goes through it and so through its quota; otherwise this
 * process locks the data folder, and with it the ledger.
 *
 * @param name the workspace's name; optional if only one is configured
 * @param patience milliseconds that all its requests together wait for the quota
 */
export async function withWorkspace<Result>(
  session: Session,
  { workspace: name, ...patience }: { readonly workspace?: string } & PatienceFlags,
  work: (context: CommandContext) => Promise<Result>,
): Promise<Result> {
  const config = chooseWorkspace(session.config, name);
  const { clock } = session.parts;
  const { data } = session.options;
  const { createWorkspaceClient, names } = await clientOf(config);
  const contextOf = (
    request: CommandContext['request'],
    sendWithin: Parameters<typeof withWaitLimit>[2],
    partition?: Partition,
  ): CommandContext => {
    const send = withWaitLimit(clock, patience, sendWithin);
    return { session, config, request, client: createWorkspaceClient({ ...names, send }), partition };
  };
  if (await hasOwner(data)) return work(contextOf(requestOf(data, config.name), sendThroughOwner(data, config.name)));
  const { sendAudited } = await import('../admin/access/audit.ts');
  const { compose } = await import('../daemon/compose.ts');
  const only = { ...session, config: { ...session.config, workspaces: [config], broken: [] } };
  const composition = await compose(only, session.parts);
  try {
    const [partition] = composition.workspaces.partitions();
    if (!partition) throw new SyncError('internal', 'the workspace did not open');
    const request: CommandContext['request'] = (operation, body) =>
      import('../admin/admin-operations.ts').then(({ longestAnswer, runAdminOperation }) => {
        const run = () => runAdminOperation(operation, partition, body, clock, whoRuns().actor);
        return withWaitNotice('an answer', longestAnswer(operation), run);
      });
    const context = contextOf(
      request,
      (each, within) => sendAudited(partition, each, { lane: 'interactive', patience: within }, whoRuns()),
      partition,
    );
    return await work(context);
  } finally {
    await composition.close();
  }
}

/** Loads the contract only here, because it takes long. */
async function clientOf({ workspace: { id: workspaceId, api } }: WorkspaceConfig) {
  const { createSend, createWorkspaceClient, keyRemedy } = await import('../workspace-api/typed-client.ts');
  const { apiOverrides } = await import('../workspace-api/contract.ts');
  return { createSend, createWorkspaceClient, keyRemedy, names: { workspaceId, api: apiOverrides.parse(api ?? {}) } };
}

/** Sends admin operations to the daemon that owns the data folder. */
function requestOf(dataFolder: string, workspace: string): CommandContext['request'] {
  return (name, body) =>
    import('../admin/admin-operations.ts').then(({ longestAnswer, OPERATIONS }) => {
      const [method, path] = OPERATIONS[name].route ?? ['POST', `questions/${name}`];
      return askOwner(dataFolder, method, `/admin/workspaces/${workspace}/${path}`, body, longestAnswer(name));
    });
}

/** Sends each request through the daemon that owns the data folder. */
function sendThroughOwner(dataFolder: string, workspace: string): Parameters<typeof withWaitLimit>[2] {
  return async (request, patience) => {
    const path = `/admin/workspaces/${workspace}/requests?patience=${patience}`;
    // The wait for the quota was already reported.
    const silence = patience + SILENCE;
    const forwarded = await askOwner<Forwarded>(dataFolder, 'POST', path, request, patience + REQUEST_TIMEOUT, silence);
    if ('failure' in forwarded) throw refusal(forwarded);
    return { ...forwarded.answer, body: Buffer.from(forwarded.answer.body, 'base64') };
  };
}

/** Returns the workspace with this name, or the only one. Throws `usage`, or the fault of its file. */
export function chooseWorkspace({ workspaces, broken }: LoadedConfig, name: string | undefined): WorkspaceConfig {
  const names = [...workspaces, ...broken].map((each) => each.name);
  const [only] = names.length === 1 ? names : [];
  const wanted = name ?? only;
  if (wanted === undefined) {
    throw new SyncError('usage', `several workspaces are configured (${names.join(', ')}): name one with --workspace`);
  }
  const found = workspaces.find((workspace) => workspace.name === wanted);
  if (found) return found;
  throw broken.find((each) => each.name === wanted)?.error ?? unknownName('workspace', wanted, names);
}

/** Flags of a command that needs a person's OAuth token. */
interface OAuthFlags {
  readonly workspace?: string;
  readonly url?: string;
  readonly oauthTokenFile?: string;
}

/**
 * Runs `work` with a client that carries the OAuth token of a person. Such requests count in no window (W73), so they go
 * straight to the workspace, also beside a running daemon. `flags.url` is needed where the workspace is the embedded one.
 */
export async function withOAuth<Result>(
  session: Session,
  flags: OAuthFlags,
  work: (context: Pick<CommandContext, 'client' | 'config'>) => Promise<Result>,
): Promise<Result> {
  const config = chooseWorkspace(session.config, flags.workspace);
  const { http } = session.parts;
  const baseUrl = flags.url ?? config.workspace.url;
  if (baseUrl === undefined) {
    throw new SyncError('usage', 'this workspace is the embedded one, whose address changes with each start', {
      hint: 'Name the address of its API with --url, or configure workspace.url.',
    });
  }
  const { oauthToken } = await import('../platform/config/tokens.ts');
  const token = oauthToken(environment(), flags.oauthTokenFile);
  session.scrubber.add(token);
  const { createSend, createWorkspaceClient, keyRemedy, names } = await clientOf(config);
  const send = createSend({ http, baseUrl, apiKey: () => token, api: names.api });
  const audibleSend = (request: Parameters<typeof send>[0]) =>
    withWaitNotice('the workspace', REQUEST_TIMEOUT, () => send(request, {}));
  try {
    return await work({ client: createWorkspaceClient({ ...names, send: audibleSend }), config });
  } catch (error) {
    const { code, message, status, hint } = asSyncError(error);
    if (hint !== keyRemedy(code)) throw error;
    throw new SyncError(code, message, { status, hint: TOKEN_REMEDIES[code], cause: error });
  } finally {
    await http.close();
  }
}

/** Remedies about a person's token. Those of the client are about the key of the configuration. */
const TOKEN_REMEDIES: { readonly [Code in ErrorCode]?: string } = {
  unauthorized: 'The OAuth token is wrong, or has ended: renew it, and give the command the new one.',
  forbidden: 'The OAuth token lacks the right for this: use the one of a workspace owner or admin.',
};

/** Flags that every command on a workspace takes. */
export type WorkspaceFlags = Flags & PatienceFlags & { readonly workspace?: string; readonly json?: boolean };
/** Flags of a workspace command that may need a person's OAuth token. */
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
  /** Whether the workspace does it only for people: its requests need an OAuth token, and use no quota. */
  readonly isForPeople?: boolean;
}

const EXIT_CODES = `
Exit codes: 0 done; 1 failed or refused; 2 wrong usage; 75 try again later: the quota is used up, or the data folder is
in use; 77 a credential was refused; 78 the configuration is wrong.`;

const TOKEN_HELP = `
The workspace does this only for people: set WORKSYNC_OAUTH_TOKEN, or WORKSYNC_OAUTH_TOKEN_FILE to a path, to the OAuth token of
an owner or admin (of any member for commands on agents), or name the file with --oauth-token-file. The token itself is never a
flag. These requests go straight to the workspace and use no quota.`;

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

/** A command that runs admin operations, and may send requests to the workspace. By default it uses no quota. */
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
