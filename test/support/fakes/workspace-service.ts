import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { type Clock, systemClock } from '../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { noSteps } from '../../../src/platform/lib/steps.ts';
import type { StartCredentials } from '../../../src/reference-service/access/administration.ts';
import type { Faults } from '../../../src/reference-service/http/faults.ts';
import type { Quota } from '../../../src/reference-service/http/quota-log.ts';
import {
  createWorkspaceService,
  type WorkspaceService,
  type WorkspaceServiceOptions,
} from '../../../src/reference-service/service.ts';
import {
  type Cancellable,
  createSend,
  createWorkspaceClient,
  type WorkspaceClient,
} from '../../../src/workspace-api/typed-client.ts';
import { makeServiceTables } from '../harness/templates.ts';

export const SPECIFIED_QUOTA: Quota = { requests: 200, window: 900_000, burst: 40, burstWindow: 60_000 };
export const NO_QUOTA: Quota = { ...SPECIFIED_QUOTA, requests: 0, burst: 0 };

export interface TestServiceOptions {
  readonly clock?: Clock;
  /** The specified one unless told. */
  readonly quota?: Quota;
  readonly faults?: Faults;
  readonly providers?: WorkspaceServiceOptions['providers'];
  readonly secretKey?: Buffer;
  readonly variant?: WorkspaceServiceOptions['variant'];
  /** Webhooks may go to receivers of the test, unless told. */
  readonly allowPrivateWebhooks?: boolean;
  /** An existing database to serve; it stays when the test service is closed. */
  readonly file?: string;
}

export interface TestService extends StartCredentials {
  readonly service: WorkspaceService;
  /** Ends in `/api/v1`. */
  readonly url: string;
  readonly file: string;
  /** A typed client with the API key, or with the credential given. */
  client(credential?: string): WorkspaceClient<Cancellable>;
  close(): Promise<void>;
}

/** A real workspace service on a free loopback port, with its own database in a temporary folder. */
export async function startWorkspaceService(options: TestServiceOptions = {}): Promise<TestService> {
  const folder = await mkdtemp(join(tmpdir(), 'worksync-service-'));
  const file = options.file ?? join(folder, 'service.db');
  await makeServiceTables(file);
  const service = await createWorkspaceService({
    file,
    clock: options.clock ?? systemClock(),
    random: systemRandom(),
    logger: silentLogger,
    quota: options.quota ?? SPECIFIED_QUOTA,
    faults: options.faults,
    providers: options.providers,
    secretKey: options.secretKey,
    variant: options.variant,
    allowPrivateWebhooks: options.allowPrivateWebhooks ?? true,
  });
  const url = await service.listen({ host: '127.0.0.1', port: 0 });
  const start = await service.startCredentials();
  const http = createHttpClient({ steps: noSteps, meter: silentMeter });
  return {
    ...start,
    service,
    url,
    file,
    client: (credential = start.apiKey) =>
      createWorkspaceClient<Cancellable>({
        send: createSend({ http, baseUrl: url, apiKey: () => credential }),
        workspaceId: 'current',
      }),
    async close() {
      await http.close();
      await service.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
