import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { systemClock, systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import type { StartCredentials } from '../../../src/reference-service/access/administration.ts';
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

/** `file`: an existing database to serve, which stays when the test service is closed. */
export type TestServiceOptions = Partial<WorkspaceServiceOptions>;

export interface TestService extends StartCredentials {
  readonly service: WorkspaceService;
  /** Ends in `/api/v1`. */
  readonly url: string;
  readonly file: string;
  client(credential?: string): WorkspaceClient<Cancellable>;
  close(): Promise<void>;
}

/**
 * Starts a real workspace service on a free loopback port, with its own database in a temporary folder and the specified quota.
 * Webhooks may go to receivers of the test.
 */
export async function startWorkspaceService({
  file: given,
  clock = systemClock(),
  quota = SPECIFIED_QUOTA,
  allowPrivateWebhooks = true,
  ...options
}: TestServiceOptions = {}): Promise<TestService> {
  const folder = await mkdtemp(join(tmpdir(), 'worksync-service-'));
  const file = given ?? join(folder, 'service.db');
  await makeServiceTables(file);
  const own = { random: systemRandom(), logger: silentLogger };
  const service = await createWorkspaceService({ ...own, ...options, file, clock, quota, allowPrivateWebhooks });
  const url = await service.listen({ host: '127.0.0.1', port: 0 });
  const start = await service.startCredentials();
  const http = createHttpClient();
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
