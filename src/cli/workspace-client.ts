import type { WorkspaceConfig } from '../config/schema.ts';
import type { Forwarded } from '../daemon/admin.ts';
import { compose } from '../daemon/compose.ts';
import { clientOver } from '../daemon/workspace-door.ts';
import { SyncError } from '../errors/sync-error.ts';
import type { Send, WorkspaceClient } from '../workspace/client.ts';
import { askOwner, hasOwner } from './owner.ts';
import type { Session } from './session.ts';

/** What a command of people or jobs calls; its lane is set already. */
export type CommandClient = WorkspaceClient<object>;

/**
 * Runs `work` with a client of one configured workspace. Where a daemon runs, each request goes through it and so
 * through its quota; otherwise this process takes the data folder, and with it the ledger, for itself.
 *
 * @param name the workspace's name; may be left out where one is configured
 */
export async function withWorkspace<Result>(
  session: Session,
  name: string | undefined,
  work: (client: CommandClient) => Promise<Result>,
): Promise<Result> {
  const config = chooseWorkspace(session.config.workspaces, name);
  const { data } = session.options;
  const door = { workspaceId: config.workspace.id, api: config.workspace.api };
  if (await hasOwner(data)) return work(clientOver<object>(sendThroughOwner(data, config.name), door));
  const composition = await compose({ ...session, config: { ...session.config, workspaces: [config] } }, session.parts);
  try {
    const send = composition.partitions[0]?.send;
    if (!send) throw new SyncError('internal', 'the workspace did not open');
    return await work(clientOver<object>((request) => send(request, { lane: 'interactive' }), door));
  } finally {
    await composition.close();
  }
}

/** Each request goes through the daemon that owns the data folder. */
export function sendThroughOwner(dataFolder: string, workspace: string): Send<object> {
  return async (request) => {
    const path = `/admin/workspaces/${workspace}/requests`;
    const forwarded = await askOwner<Forwarded>(dataFolder, 'POST', path, request);
    if ('failure' in forwarded) {
      const { code, message, hint } = forwarded.failure;
      throw new SyncError(code, message, { hint });
    }
    return { ...forwarded.answer, body: Buffer.from(forwarded.answer.body, 'base64') };
  };
}

/** The workspace with this name, or the only one. Throws `usage`. */
export function chooseWorkspace(workspaces: readonly WorkspaceConfig[], name: string | undefined): WorkspaceConfig {
  const found = name === undefined ? workspaces[0] : workspaces.find((workspace) => workspace.name === name);
  const names = workspaces.map((workspace) => workspace.name).join(', ');
  if (name === undefined && workspaces.length > 1) {
    throw new SyncError('usage', `several workspaces are configured (${names}): name one with --workspace`);
  }
  if (!found) throw new SyncError('usage', `there is no workspace "${name}"; configured: ${names}`);
  return found;
}
