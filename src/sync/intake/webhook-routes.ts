// Design: src/decisions/webhooks.md

import type { IncomingHttpHeaders } from 'node:http';
import type { VerifiedRequest } from '../../connectors/connector.ts';
import type { DeliverySource } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import { groupOfAddress } from '../../platform/http/address-group.ts';
import { createAddressGuard } from '../../platform/http/address-guard.ts';
import type { Server, ServerReply, ServerRequest } from '../../platform/http/server.ts';
import { type Clock, sleep, systemClock } from '../../platform/lib/clock.ts';
import { sha256Of } from '../../platform/lib/digest.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import type { Tracer } from '../../platform/lib/tracer.ts';
import type { Appended, AppendedRow } from '../../store/append-deliveries.ts';
import { packBodyAsync } from '../../store/bodies.ts';
import type { ActiveConnection } from './active-connection.ts';
import type { Collector } from './collector.ts';
import { receiveSpan } from './intake-spans.ts';

/** Receives the webhooks of one connection. */
export interface Receiver {
  readonly active: Pick<ActiveConnection, 'name' | 'secrets'> & {
    readonly connector: Pick<ActiveConnection['connector'], 'largestDelivery' | 'verify' | 'accepted'>;
  };
  /** `webhook` unless told. */
  readonly source?: DeliverySource;
  /** A shared key that `GET` and `HEAD` verify; absent: they are refused. */
  readonly sharedKey?: {
    /** Compares in constant time. */
    matches(headers: IncomingHttpHeaders): boolean;
    /** Whether deliveries carry no signature: then a guessed key is enough to forge one. */
    readonly isOnlyProof: boolean;
  };
  /** How long the sender waits for the answer, milliseconds. A delivery that is not stored by then is answered 503. */
  readonly answerWithin?: number;
  readonly collector: Collector;
  readonly meter: Meter;
  readonly logger: Logger;
  readonly tracer?: Tracer;
}

export interface WebhookDeps {
  /** Undefined where there is no such workspace or connection. Called for each request. */
  readonly find: (workspace: string, connection: string) => Receiver | undefined;
  /** Whether it is configured and did not start: its senders are asked to repeat. */
  readonly isBroken: (workspace: string) => boolean;
  readonly clock: Clock;
  /** The largest `largestDelivery` of all connectors, bytes. */
  readonly largestDelivery: number;
}

type Path = { Params: { workspace: string; connection: string } };
type Head = { readonly params: Path['Params']; readonly headers: IncomingHttpHeaders; readonly ip: string };

const ROUTE = '/webhooks/:workspace/:connection';

/** Where the webhooks of a connection come in, below the address of the daemon. */
export function webhookPathOf(workspace: string, connection: string): string {
  return `/webhooks/${workspace}/${connection}`;
}

/** The same, seen from where the daemon has this address. */
export function webhookUrlOf(publicUrl: string, workspace: string, connection: string): string {
  return `${publicUrl}${webhookPathOf(workspace, connection)}`;
}

const JSON_TYPE = 'application/json; charset=utf-8';
/** Seconds that a sender is told to wait where the error names no time. */
const RETRY_AFTER = 30;

/** Wrong keys of one address, in one burst and per second, before worksync stops comparing keys from there. */
const WRONG_KEYS = { burst: 60, perSecond: 1 };

/**
 * `POST /webhooks/:workspace/:connection`: verify over the raw bytes, append, answer. No payload is read here.
 *
 * 202 `{"delivery":"new"|"repeated"|"revived"}` once the delivery is durable, whatever its body says (200 for a vendor that
 * takes nothing else for success); 401 `{"error":"signature_missing"|"signature_mismatch"}`, the first also where no secret is
 * configured, and 400 where a signed request does not name its event or id: nothing is stored; 404 for what is not configured;
 * 413; 415 for a compressed body; 503 with `Retry-After` where the delivery could not be stored, or the workspace did not start.
 * Where more comes in than can be held or looked at, the worst address is refused first: 429 with `Retry-After` where it is one
 * that keeps failing, else 503.
 *
 * `GET` and `HEAD` with a shared key: 204 if it is right, 401 if not, both without a body. After too many wrong keys from one
 * address all requests from there are answered 429 and no key is compared; deliveries that are signed too are exempt, because
 * senders may share an address.
 */
export function webhookRoutes(server: Server, deps: WebhookDeps): void {
  const wrongKeys = createAddressGuard(deps.clock, WRONG_KEYS);
  // Senders wait in real time.
  const network = systemClock();
  const receiverOf = ({ workspace, connection }: Path['Params']) => deps.find(workspace, connection);
  const refuse = (receiver: Receiver, address: string, error: string) => {
    server.traffic.failed(address);
    const connection = receiver.active.name;
    receiver.meter.count('deliveries_total', { connection, outcome: 'refused' });
    receiver.logger.warn({ connection, code: error, address }, 'delivery refused');
    if (receiver.sharedKey && error.startsWith('signature_')) wrongKeys.failed(groupOfAddress(address));
  };

  const refusalOfHead = ({ params, headers, ip }: Head): readonly [status: number, error: string] | undefined => {
    const receiver = receiverOf(params);
    if (!receiver) return deps.isBroken(params.workspace) ? [503, 'workspace_unavailable'] : [404, 'not_found'];
    if (receiver.active.secrets.length === 0) return [401, 'signature_missing'];
    if (receiver.sharedKey?.isOnlyProof && !wrongKeys.admits(groupOfAddress(ip))) return [429, 'signature_mismatch'];
    if (headers['content-encoding']) return [415, 'refused'];
    const length = Number(headers['content-length'] ?? 0);
    return length > receiver.active.connector.largestDelivery ? [413, 'payload_too_large'] : undefined;
  };

  server.post<Path>(ROUTE, {
    config: { door: 'webhook' },
    bodyLimit: deps.largestDelivery,
    // Everything that can be refused before the body is read.
    onRequest: (request, reply, goOn) => {
      reply.type(JSON_TYPE);
      const refusal = refusalOfHead(request);
      if (!refusal) return goOn();
      const [status, error] = refusal;
      if (status === 429 || status === 503) reply.header('retry-after', RETRY_AFTER);
      reply.code(status).send(errorBody(error));
    },
    errorHandler: (thrown, _request, reply) => {
      const status = (thrown as { statusCode?: number }).statusCode ?? 500;
      if (status === 429 || status === 503) reply.header('retry-after', RETRY_AFTER);
      reply
        .code(status)
        .type(JSON_TYPE)
        .send(errorBody(CODE_OF_STATUS[status] ?? 'refused'));
    },
    handler: async (request, reply) => {
      const receiver = receiverOf(request.params);
      if (!receiver) return reply.code(404).send(errorBody('not_found'));
      const from = deps.clock.now();
      const arrivedAt = network.monotonic();
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
      // Known only here where the sender named no length.
      if (body.length > receiver.active.connector.largestDelivery)
        return reply.code(413).send(errorBody('payload_too_large'));
      const turn = server.traffic.turn(request.ip, body.length);
      if (turn) await turn;
      const verified = await verify(receiver, { headers: request.headers, body }, deps.clock.now());
      if (verified.error) {
        refuse(receiver, request.ip, verified.error.code);
        return reply.code(statusOf(verified.error)).send(errorBody(verified.error.code));
      }
      const row = await appendInTime(receiver, verified, body, arrivedAt);
      if (row instanceof SyncError)
        return reply.code(503).header('retry-after', retryAfter(row)).send(errorBody(row.code));
      const { accepted = 202 } = receiver.active.connector;
      const came = { connection: receiver.active.name, event: verified.event, status: accepted, from };
      receiver.tracer?.record(receiveSpan(row, { ...came, to: deps.clock.now() }));
      return reply.code(accepted).send(ACCEPTED[row.appended]);
    },
  });

  const refuseMethod = (request: ServerRequest, reply: ServerReply) => {
    const allow = receiverOf(request.params as Path['Params'])?.sharedKey ? 'GET, HEAD, POST' : 'POST';
    return reply.code(405).header('allow', allow).type(JSON_TYPE).send(errorBody('refused'));
  };
  server.route<Path>({
    method: ['GET', 'HEAD'],
    url: ROUTE,
    config: { door: 'webhook' },
    handler: (request, reply) => {
      const receiver = receiverOf(request.params);
      if (!receiver && deps.isBroken(request.params.workspace))
        return reply.code(503).header('retry-after', RETRY_AFTER).send();
      if (!receiver?.sharedKey) return refuseMethod(request, reply);
      if (!wrongKeys.admits(groupOfAddress(request.ip)))
        return reply.code(429).header('retry-after', RETRY_AFTER).send();
      if (receiver.sharedKey.matches(request.headers)) return reply.code(204).send();
      refuse(receiver, request.ip, 'signature_mismatch');
      return reply.code(401).send();
    },
  });
  server.route({
    method: ['PUT', 'PATCH', 'DELETE', 'OPTIONS'],
    url: ROUTE,
    config: { door: 'webhook' },
    handler: refuseMethod,
  });

  /** An append that takes too long goes on: the sender's next attempt finds the delivery stored. */
  async function appendInTime(receiver: Receiver, verified: VerifiedRequest, body: Buffer, arrivedAt: number) {
    const appended = append(receiver, verified, body);
    if (receiver.answerWithin === undefined) return appended;
    const done = new AbortController();
    const late = sleep(network, arrivedAt + receiver.answerWithin - network.monotonic(), done.signal).then(
      () => new SyncError('database_failed', 'the delivery could not be stored in time'),
    );
    return Promise.race([appended, late]).finally(() => done.abort());
  }
}

const CODE_OF_STATUS: Readonly<Record<number, string>> = { 413: 'payload_too_large', 500: 'internal' };

const ACCEPTED: Readonly<Record<Appended, string>> = {
  new: '{"delivery":"new"}',
  repeated: '{"delivery":"repeated"}',
  revived: '{"delivery":"revived"}',
};

function statusOf({ code }: SyncError): number {
  if (code === 'internal') return 500;
  return code.startsWith('signature_') ? 401 : 400;
}

function errorBody(error: string): string {
  return JSON.stringify({ error });
}

function retryAfter(error: SyncError): number {
  return error.retryAfter === undefined ? RETRY_AFTER : Math.max(1, Math.ceil(error.retryAfter / 1000));
}

type Verification = (VerifiedRequest & { readonly error?: undefined }) | { readonly error: SyncError };

/** Fails closed: whatever `verify` throws is a refusal. */
async function verify(
  { active }: Receiver,
  request: Parameters<ActiveConnection['connector']['verify']>[0],
  now: number,
): Promise<Verification> {
  try {
    return await active.connector.verify(request, active.secrets, now);
  } catch (error) {
    return { error: asSyncError(error) };
  }
}

/** What became of the delivery, or why it could not be stored. */
async function append(
  { active, source = 'webhook', collector, meter, logger }: Receiver,
  verified: VerifiedRequest,
  body: Buffer,
): Promise<AppendedRow | SyncError> {
  const key = verified.deliveryId ?? (await sha256Of(body));
  const connection = active.name;
  try {
    const packed = await packBodyAsync(body);
    const row = await collector.append({ connection, key, source, event: verified.event, body, packed });
    const { appended: outcome, id: delivery } = row;
    meter.count('deliveries_total', { connection, outcome });
    logger.debug(
      { delivery, key, connection, event: verified.event, bytes: body.length, outcome },
      'delivery accepted',
    );
    return row;
  } catch (thrown) {
    const error = asSyncError(thrown);
    meter.count('deliveries_total', { connection, outcome: 'failed' });
    logger.error({ key, connection, code: error.code, error }, 'delivery not stored');
    return error;
  }
}
