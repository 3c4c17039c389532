import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { ProcessContext } from '../../daemon/daemon-context.ts';
import { gitProviders } from '../../daemon/embedded.ts';
import { ownProxies } from '../../platform/config/daemon-options.ts';
import { OWN_COMMAND } from '../../platform/lib/own-program.ts';
import { OWN_VARIANT } from '../../reference-service/http/variant.ts';
import { createWorkspaceService, type Reached } from '../../reference-service/service.ts';
import { endOnSignals } from '../signals.ts';

export interface ServeOptions {
  readonly port: number;
  readonly host: string;
  readonly file: string;
  /** Requests per long and per short window; 0 lifts a limit. */
  readonly quota: { readonly requests: number; readonly burst: number };
  readonly allowPrivateWebhooks: boolean;
  readonly secretKey?: Buffer;
  /** Behaves as the specification reads literally, without our extensions. */
  readonly literal: boolean;
  /** The prefix of its own header names; absent: `X-Service-`. */
  readonly headers?: string;
  readonly reached: Reached;
}

/** The values that a client needs; `--json` prints them in one line. */
type Served = Awaited<ReturnType<typeof serveWorkspace>>;

/** Both windows of W69 and W70, milliseconds. */
const WINDOW = 15 * 60_000;
const BURST_WINDOW = 60_000;

/** `worksync workspace serve`: the reference service alone, until a signal ends it. */
export async function serveWorkspace(options: ServeOptions, parts: ProcessContext) {
  const { clock, random, logger } = parts;
  mkdirSync(dirname(options.file), { recursive: true });
  const quota = { ...options.quota, window: WINDOW, burstWindow: BURST_WINDOW };
  const { file, secretKey, allowPrivateWebhooks, literal: isLiteral, headers, reached } = options;
  const service = await createWorkspaceService({
    file,
    quota,
    clock,
    random,
    logger,
    secretKey,
    allowPrivateWebhooks,
    variant: { ...OWN_VARIANT, isLiteral, ...(headers && { headerPrefix: headers }) },
    reached,
    proxies: ownProxies(() => undefined),
    meter: parts.metrics.meter,
    providers: gitProviders(parts),
  });
  endOnSignals({
    ...parts,
    async close(report) {
      report('the service', false);
      await service.close();
      report('the HTTP client', true);
      await parts.http.close();
    },
  });
  const url = await service.listen({ host: options.host, port: options.port });
  const { workspaceId, apiKey, isKeyNew, oauthToken, isTokenNew } = await service.startCredentials();
  // The key of an owner, and the token, are shown only by the start that created them. They stay valid after a restart.
  return { url, workspaceId, apiKey: isKeyNew ? apiKey : null, oauthToken: isTokenNew ? oauthToken : null };
}

/** Describes the service for people: its credentials if they can be shown, otherwise how to create others. */
export function describeServed({ url, apiKey, oauthToken }: Served, file: string): string {
  const head = `The workspace service listens at ${url}`;
  const shown = [
    ...(apiKey === null ? [] : [`  key    ${apiKey}`]),
    ...(oauthToken === null ? [] : [`  token  ${oauthToken}`]),
  ];
  if (shown.length > 0)
    return [head, ...shown, 'worksync shows these only once. They work until they are revoked.'].join('\n');
  const token = `${OWN_COMMAND} workspace token --db ${file} --user Owner --role owner`;
  return `${head}
The key and the token that the first start showed still work. To create others:
  ${token}
  WORKSYNC_OAUTH_TOKEN="$(${token})" ${OWN_COMMAND} keys create --url ${url} --description "what for"`;
}
