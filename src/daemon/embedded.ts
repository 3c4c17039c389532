import { join } from 'node:path';
import { ownProxies } from '../platform/config/proxies.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { createWorkspaceService } from '../reference-service/service.ts';
import { gitProviders } from './git-providers.ts';
import type { Parts } from './parts.ts';

/** The reference service that this process runs for a workspace without a `url`. */
export interface Embedded {
  /** Ends in `/api/v1`. */
  readonly url: string;
  /** The daemon's own key: made at the first start, and kept encrypted. */
  readonly apiKey: string;
  /** An owner's token. */
  readonly oauthToken: string;
  statistics(): Promise<EmbeddedStatistics>;
  close(): Promise<void>;
}

interface EmbeddedStatistics {
  readonly pullRequests: number;
  readonly links: number;
  /** Requests received with the daemon's key since it started, and how many of them were refused by the quota. */
  readonly requests: number;
  readonly rateLimited: number;
}

/** Starts it on a free loopback port, on its own file beside the workspace's database. */
export async function startEmbedded(
  { config, folder, secretKey }: { config: WorkspaceConfig; folder: string; secretKey?: Buffer },
  parts: Pick<Parts, 'clock' | 'random' | 'logger' | 'http' | 'metrics'>,
): Promise<Embedded> {
  const { clock, random, logger } = parts;
  const service = await createWorkspaceService({
    file: join(folder, `${config.name}.service.db`),
    clock,
    random,
    logger: logger.child({ service: config.name }),
    quota: config.quota,
    meter: parts.metrics.meter,
    secretKey,
    providers: gitProviders(parts),
    // Everything else of the embedded service is local too.
    allowPrivateWebhooks: true,
    proxies: ownProxies(() => undefined),
  });
  const url = await service.listen({ host: '127.0.0.1', port: 0 });
  const { apiKey, apiKeyId, oauthToken } = await service.startCredentials();
  return {
    url,
    apiKey,
    oauthToken,
    async statistics() {
      const { pullRequests, workItems, requests } = await service.statistics();
      const own = requests.get(apiKeyId);
      return { pullRequests, links: workItems, requests: own?.received ?? 0, rateLimited: own?.refused ?? 0 };
    },
    close: () => service.close(),
  };
}
