import { SyncError } from '../model/errors/sync-error.ts';
import { environment } from '../platform/config/daemon-options.ts';
import { oauthToken } from '../platform/config/oauth-token.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { apiOverrides } from '../workspace-api/contract.ts';
import { createSend, createWorkspaceClient } from '../workspace-api/typed-client.ts';
import { audibly } from './patience.ts';
import type { Session } from './session.ts';
import { type CommandClient, chooseWorkspace, UNDER_WAY } from './workspace-client.ts';

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
  work: (client: CommandClient, config: WorkspaceConfig) => Promise<Result>,
): Promise<Result> {
  const config = chooseWorkspace(session.config, flags.workspace);
  const { workspace } = config;
  const baseUrl = flags.url ?? workspace.url;
  if (baseUrl === undefined) {
    throw new SyncError('usage', 'this workspace is the embedded one, whose address changes with each start', {
      hint: 'Name the address of its API with --url, or configure workspace.url.',
    });
  }
  const token = oauthToken(environment(), flags.oauthTokenFile);
  session.scrubber.add(token);
  const api = apiOverrides.parse(workspace.api ?? {});
  const send = createSend({ http: session.parts.http, baseUrl, apiKey: () => token, api });
  try {
    const aloud: typeof send = (request, context) => audibly('the workspace', UNDER_WAY, () => send(request, context));
    const client = createWorkspaceClient({ send: (request) => aloud(request, {}), workspaceId: workspace.id, api });
    return await work(client, config);
  } finally {
    await session.parts.http.close();
  }
}
