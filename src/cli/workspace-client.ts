import { unknownName } from '../admin/named.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { environment } from '../platform/config/daemon-options.ts';
import type { LoadedConfig } from '../platform/config/load.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Forwarded } from '../web/admin-answers.ts';
import type { WorkspaceClient } from '../workspace-api/typed-client.ts';
import { askOwner, hasOwner, refusal, whoRuns } from './owner.ts';
import { type PatienceFlags, patienceOf, patiently, SILENCE } from './patience.ts';
import type { Session } from './session.ts';
import { say } from './setting.ts';

/** The client of commands and jobs, whose lane is already set. */
export type CommandClient = WorkspaceClient<object>;

/** Milliseconds that one request may take: the limit of the HTTP client, and the way to the daemon. */
export const UNDER_WAY = 35_000;

/**
 * Runs `work` with a client of one configured workspace. If a daemon runs, each request goes through it and so through its quota;
 * otherwise this process locks the data folder, and with it the ledger.
 *
 * @param name the workspace's name; optional if only one is configured
 * @param patience milliseconds that all its requests together wait for the quota
 */
export async function withWorkspace<Result>(
  session: Session,
  { workspace: name, ...patience }: { readonly workspace?: string } & PatienceFlags,
  work: (client: CommandClient, config: WorkspaceConfig) => Promise<Result>,
): Promise<Result> {
  const config = chooseWorkspace(session.config, name);
  const { data } = session.options;
  reportUnusedKey(config);
  const clientOf = await clientFactory(session, config, patience);
  if (await hasOwner(data)) return work(clientOf(sendThroughOwner(data, config.name)), config);
  const { sendAudited } = await import('../admin/audit.ts');
  const { compose } = await import('../daemon/compose.ts');
  const composition = await compose(onlyOf(session, config), session.parts);
  try {
    const [partition] = composition.workspaces.partitions();
    if (!partition) throw new SyncError('internal', 'the workspace did not open');
    const client = clientOf((request, within) =>
      sendAudited(partition, request, { lane: 'interactive', patience: within }, whoRuns()),
    );
    return await work(client, config);
  } finally {
    await composition.close();
  }
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

/** Creates clients for any way of sending. They wait for the quota as the flags require. */
export async function clientFactory(
  { parts }: Session,
  { workspace }: WorkspaceConfig,
  patience: PatienceFlags,
): Promise<(send: Parameters<typeof patiently>[2]) => CommandClient> {
  const { createWorkspaceClient } = await import('../workspace-api/typed-client.ts');
  const { apiOverrides } = await import('../workspace-api/contract.ts');
  const names = { workspaceId: workspace.id, api: apiOverrides.parse(workspace.api ?? {}) };
  return (send) => createWorkspaceClient({ ...names, send: patiently(parts.clock, patienceOf(patience), send) });
}

/** Sends each request through the daemon that owns the data folder. */
export function sendThroughOwner(dataFolder: string, workspace: string): Parameters<typeof patiently>[2] {
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

/** Limits a session to one workspace. */
export function onlyOf(session: Session, workspace: WorkspaceConfig): Session {
  return { ...session, config: { ...session.config, workspaces: [workspace], broken: [] } };
}
