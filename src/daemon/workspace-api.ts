import type { WorkspaceConfig } from '../config/schema.ts';
import type { Converter } from '../convert/converter.ts';
import { readLargeBy } from '../convert/parse-in-worker.ts';
import type { Upstream } from '../gateway/upstream.ts';
import type { HttpClient } from '../http/http-client.ts';
import { createResponseCapture, type ResponseCapture } from '../learn/capture-responses.ts';
import { createRouteOf } from '../learn/route-of.ts';
import type { Lease } from '../lease/holder.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Random } from '../lib/random.ts';
import type { WakeSignal } from '../lib/wake-signal.ts';
import type { DirectContext } from '../operator/open-workspace.ts';
import type { SendContext } from '../outbox/send-context.ts';
import type { Store } from '../store/database.ts';
import { nextRevision } from '../store/revision.ts';
import type { Throttle } from '../throttle/throttle.ts';
import { apiOverrides } from '../workspace/contract.ts';
import type { Send } from '../workspace/exchange.ts';
import type { WorkspaceClient } from '../workspace/typed-client.ts';
import { fencedHttpClient } from './fenced-http-client.ts';
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
