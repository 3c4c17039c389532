import type { DirectContext } from '../admin/open-workspace.ts';
import { fencedHttpClient } from '../cluster/fenced-http-client.ts';
import type { Lease } from '../cluster/holder.ts';
import type { Upstream } from '../gateway/upstream.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Random } from '../platform/lib/random.ts';
import type { WakeSignal } from '../platform/lib/wake-signal.ts';
import type { Store } from '../store/database.ts';
import { nextRevision } from '../store/revision.ts';
import type { SendContext } from '../sync/outbox/send-context.ts';
import type { Throttle } from '../sync/quota/throttle.ts';
import type { Converter } from '../sync/worker/converter.ts';
import { readLargeBy } from '../sync/worker/converter.ts';
import { createResponseCapture, type ResponseCapture } from '../workspace-api/capture/capture-responses.ts';
import { createRouteOf } from '../workspace-api/capture/route-of.ts';
import { apiOverrides } from '../workspace-api/contract.ts';
import type { Send } from '../workspace-api/exchange.ts';
import type { WorkspaceClient } from '../workspace-api/typed-client.ts';
import { clientOver, directSend, forwardRequest, outboxClient, throughThrottle } from './workspace-send.ts';

/** Where the workspace's API is, and with which key it is asked. */
export interface WorkspaceAddress {
  readonly baseUrl: string;
  readonly apiKey: () => string;
}

export interface WorkspaceApiDeps {
  readonly config: WorkspaceConfig;
  readonly address: WorkspaceAddress;
  readonly lease: Lease;
  readonly http: HttpClient;
  readonly converter: Converter;
  readonly store: Store;
  readonly throttle: Throttle;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly inbox: WakeSignal;
  readonly outbox: WakeSignal;
  /** Told that a write was sent. */
  readonly onWrite: () => void;
}

/** Every way in which a partition asks its workspace; all of them go through the one throttle. */
export interface WorkspaceApi {
  readonly send: Send<DirectContext>;
  readonly client: WorkspaceClient<DirectContext>;
  readonly outboxClient: WorkspaceClient<SendContext>;
  /** For callers of the gateway. */
  readonly pass: Upstream['pass'];
  readonly learn: ResponseCapture;
  /** Ends the requests in flight without waiting for their answers. */
  cut(): void;
}

export function openWorkspaceApi(deps: WorkspaceApiDeps): WorkspaceApi {
  const { config, address, lease, store, throttle, clock, random, logger, inbox, outbox } = deps;
  const cut = new AbortController();
  const door = {
    http: fencedHttpClient(deps.http, lease),
    baseUrl: address.baseUrl,
    workspaceId: config.workspace.id,
    apiKey: address.apiKey,
    api: config.workspace.api,
    cut: lease.lost ? AbortSignal.any([cut.signal, lease.lost]) : cut.signal,
    readLarge: readLargeBy(deps.converter),
  };
  const through = throughThrottle(throttle, clock, (record) =>
    store.commit(async (transaction) => {
      await record(transaction);
      return nextRevision(transaction);
    }),
  );
  const routeOf = createRouteOf(apiOverrides.parse(config.workspace.api ?? {}));
  const learn = createResponseCapture({
    store,
    routeOf,
    readLarge: door.readLarge,
    inbox,
    outbox,
    clock,
    random,
    logger,
  });
  const sendThrough = directSend(door, through, clock, learn);
  const send: typeof sendThrough = async (request, context) => {
    try {
      return await sendThrough(request, context);
    } finally {
      if (request.method !== 'GET') deps.onWrite();
    }
  };
  return {
    send,
    client: clientOver(send, door),
    outboxClient: outboxClient(door),
    pass: forwardRequest(door, clock, through),
    learn,
    cut: () => cut.abort(),
  };
}
