import type { GitProvider } from '../connectors/connector.ts';
import { connectors } from '../connectors/registry.ts';
import { ownProxies, serviceDatabase } from '../platform/config/daemon-options.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { OWN_VARIANT } from '../reference-service/http/variant.ts';
import { createWorkspaceService } from '../reference-service/service.ts';
import type { DaemonContext, ProcessContext } from './daemon-context.ts';

/** The reference service that this process runs for a workspace without a `url`. */
export type Embedded = Awaited<ReturnType<typeof startEmbedded>>;

/** Starts the service on a free loopback port, on a file of its own beside the database. */
export async function startEmbedded(context: DaemonContext, config: WorkspaceConfig) {
  const { clock, random, logger, metrics, folder, secretKey } = context;
  const service = await createWorkspaceService({
    file: serviceDatabase(folder.path, config.name),
    clock,
    random,
    logger: logger.child({ service: config.name }),
    quota: config.quota,
    meter: metrics.meter,
    secretKey,
    providers: gitProviders(context),
    variant: { ...OWN_VARIANT, statuses: config.workspace.statuses },
    // Allowed because everything else of the embedded service is local too.
    allowPrivateWebhooks: true,
    proxies: ownProxies(() => undefined),
  });
  const url = await service.listen({ host: '127.0.0.1', port: 0 });
  const { apiKey, apiKeyId, oauthToken } = await service.startCredentials();
  return {
    /** Ends in `/api/v1`. */
    url,
    /** The daemon's own key: created at the first start, and stored encrypted. */
    apiKey,
    /** The token of an owner. */
    oauthToken,
    /** `requests` are those received with the daemon's key since the start; `rateLimited` counts those that the quota refused. */
    async statistics() {
      const { pullRequests, workItems, requests } = await service.statistics();
      const own = requests.get(apiKeyId);
      return { pullRequests, links: workItems, requests: own?.received ?? 0, rateLimited: own?.refused ?? 0 };
    },
    close: () => service.close(),
  };
}

/** Returns the git providers that members can write to, by the id of the connector. */
export function gitProviders(
  context: Pick<ProcessContext, 'http' | 'clock' | 'logger'>,
): Readonly<Record<string, GitProvider>> {
  return Object.fromEntries(connectors.flatMap(({ id, git }) => (git ? [[id, git(context)]] : [])));
}
