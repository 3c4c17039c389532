import { SyncError } from '../model/errors/sync-error.ts';
import { environment } from '../platform/config/daemon-options.ts';
import { oauthToken } from '../platform/config/oauth-token.ts';
import { apiOverrides } from '../workspace-api/contract.ts';
import { createSend, createWorkspaceClient } from '../workspace-api/typed-client.ts';
import { audibly } from './patience.ts';
import type { Session } from './session.ts';
import { type CommandClient, chooseWorkspace, UNDER_WAY } from './workspace-client.ts';

/**
 * Runs `work` with a client that carries the OAuth token of an owner or admin. Such requests count in no window
 * (W73), so they go straight to the workspace, also beside a running daemon.
 *
 * @param url the API's address, ending in /api/v1; needed where the workspace is the embedded one
 */
export async function withOAuth<Result>(
  session: Session,
  { name, url }: { name: string | undefined; url: string | undefined },
  work: (client: CommandClient) => Promise<Result>,
): Promise<Result> {
  const { workspace } = chooseWorkspace(session.config, name);
  const baseUrl = url ?? workspace.url;
  if (baseUrl === undefined) {
    throw new SyncError('usage', 'this workspace is the embedded one, whose address changes with each start', {
      hint: 'Name the address of its API with --url, or configure workspace.url.',
    });
  }
  const token = oauthToken(environment());
  session.scrubber.add(token);
  const api = apiOverrides.parse(workspace.api ?? {});
  const send = createSend({ http: session.parts.http, baseUrl, apiKey: () => token, api });
  try {
    const aloud: typeof send = (request, context) => audibly('the workspace', UNDER_WAY, () => send(request, context));
    return await work(createWorkspaceClient({ send: (request) => aloud(request, {}), workspaceId: workspace.id, api }));
  } finally {
    await session.parts.http.close();
  }
}
