import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import closeWithGrace from 'close-with-grace';
import { gitProviders } from '../daemon/git-providers.ts';
import type { Parts } from '../daemon/parts.ts';
import { createWorkspaceService, type Reached } from '../workspace-service/service.ts';

export interface ServeOptions {
  readonly port: number;
  readonly host: string;
  readonly file: string;
  /** Requests per long and per short window; 0 lifts a limit. */
  readonly quota: { readonly requests: number; readonly burst: number };
  readonly allowPrivateWebhooks: boolean;
  readonly secretKey?: Buffer;
  /** How clients reach it. */
  readonly reached: Reached;
}

/** What a client needs; with `--json` the one line that is printed. */
export interface Served {
  /** Ends in `/api/v1`. */
  readonly url: string;
  readonly workspaceId: string;
  readonly apiKey: string;
  /** Of an owner. */
  readonly oauthToken: string;
}

/** Both windows of the specification, milliseconds (section 8). */
const WINDOW = 15 * 60_000;
const BURST_WINDOW = 60_000;

/** `worksync workspace serve`: the reference service alone, until a signal ends it. */
export async function serveWorkspace(options: ServeOptions, parts: Parts): Promise<Served> {
  const { clock, random, logger } = parts;
  mkdirSync(dirname(options.file), { recursive: true });
  const quota = { ...options.quota, window: WINDOW, burstWindow: BURST_WINDOW };
  const { file, secretKey, allowPrivateWebhooks, reached } = options;
  const service = await createWorkspaceService({
    file,
    quota,
    clock,
    random,
    logger,
    secretKey,
    allowPrivateWebhooks,
    reached,
    meter: parts.metrics.meter,
    providers: gitProviders(parts),
  });
  closeWithGrace({ delay: 8_000, logger: false }, async () => {
    await service.close();
    await parts.http.close();
  });
  const url = await service.listen({ host: options.host, port: options.port });
  const { workspaceId, apiKey, oauthToken } = await service.mintStartCredentials();
  return { url, workspaceId, apiKey, oauthToken };
}
