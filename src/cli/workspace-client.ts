import type { AdminOperation, Answered, Asked } from '../admin/admin-operations.ts';
import { unknownName } from '../admin/named.ts';
import type { Partition } from '../daemon/partition.ts';
import { SyncError } from '../model/errors.ts';
import { environment } from '../platform/config/daemon-options.ts';
import type { LoadedConfig } from '../platform/config/load.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { oauthToken } from '../platform/config/tokens.ts';
import type { Forwarded } from '../web/admin-answers.ts';
import type { WorkspaceClient } from '../workspace-api/typed-client.ts';
import { askOwner, hasOwner, refusal, whoRuns } from './owner.ts';
import { audibly, type PatienceFlags, patienceOf, patiently, SILENCE } from './patience.ts';
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

/** Milliseconds that one request may take: the limit of the HTTP client, and the way to the daemon. */
const UNDER_WAY = 35_000;

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
    sendWithin: Parameters<typeof patiently>[2],
    partition?: Partition,
  ): CommandContext => {
    const send = patiently(clock, patienceOf(patience), sendWithin);
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
        return audibly('an answer', longestAnswer(operation), run);
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
  const { createSend, createWorkspaceClient } = await import('../workspace-api/typed-client.ts');
  const { apiOverrides } = await import('../workspace-api/contract.ts');
  return { createSend, createWorkspaceClient, names: { workspaceId, api: apiOverrides.parse(api ?? {}) } };
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
function sendThroughOwner(dataFolder: string, workspace: string): Parameters<typeof patiently>[2] {
  return async (request, patience) => {
    const path = `/admin/workspaces/${workspace}/requests?patience=${patience}`;
    // The wait for the quota was already reported.
    const silence = patience + SILENCE;
    const forwarded = await askOwner<Forwarded>(dataFolder, 'POST', path, request, patience + UNDER_WAY, silence);
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
export interface OAuthFlags {
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
  const token = oauthToken(environment(), flags.oauthTokenFile);
  session.scrubber.add(token);
  const { createSend, createWorkspaceClient, names } = await clientOf(config);
  const send = createSend({ http, baseUrl, apiKey: () => token, api: names.api });
  const audibleSend = (request: Parameters<typeof send>[0]) =>
    audibly('the workspace', UNDER_WAY, () => send(request, {}));
  try {
    return await work({ client: createWorkspaceClient({ ...names, send: audibleSend }), config });
  } finally {
    await http.close();
  }
}
