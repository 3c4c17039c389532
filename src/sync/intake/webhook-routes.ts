// Design: src/decisions/webhooks.md

import type { IncomingHttpHeaders } from 'node:http';
import type { Connector, VerifiedRequest, WebhookRequest } from '../../connectors/connector.ts';
import type { DeliveryOrigin } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { createAddressGuard, groupOfAddress } from '../../platform/http/addresses.ts';
import type { Server, ServerReply } from '../../platform/http/server.ts';
import { type Clock, sleep, systemClock } from '../../platform/lib/clock.ts';
import { sha256Of } from '../../platform/lib/digest.ts';
import type { Appended, AppendedRow } from '../../store/deliveries/append-deliveries.ts';
import { packBodyAsync } from '../../store/deliveries/inbox.ts';
import type { StoreContext } from '../../store/store-context.ts';
import { type Collector, receiveSpan } from './append.ts';

/** Receives the webhooks of one connection. */
export interface Receiver extends Pick<StoreContext, 'meter' | 'logger' | 'tracer'> {
  /** The name of the connection. */
  readonly name: string;
  readonly secrets: readonly string[];
  readonly connector: Pick<Connector<unknown>, 'largestDelivery' | 'verify' | 'accepted'>;
  /** Default: `webhook`. */
  readonly source?: DeliveryOrigin;
  /** The shared key that `GET` and `HEAD` verify. If absent, both methods are rejected. */
  readonly sharedKey?: {
    /** Compares in constant time. */
    matches(headers: IncomingHttpHeaders): boolean;
    /** Whether deliveries carry no signature. Then a guessed key suffices to forge one. */
    readonly isOnlyProof: boolean;
  };
  /** How long the sender waits for an answer, milliseconds. A delivery that is not stored by then is answered 503. */
  readonly answerWithin?: number;
  readonly collector: Collector;
}

/** Returns the receiver for a connection of a workspace; undefined if none is configured. */
export type FindReceiver = (workspace: string, connection: string) => Receiver | undefined;

const ROUTE = '/webhooks/:workspace/:connection';

type Path = { Params: { workspace: string; connection: string } };
/** The part of a request that is known before its body is read. */
type Head = { readonly params: Path['Params']; readonly headers: IncomingHttpHeaders; readonly ip: string };
type Request = Head & { readonly body: unknown };

/** Returns the path of the webhooks of a connection, below the address of the daemon. */
export function webhookPathOf(workspace: string, connection: string): string {
  return `/webhooks/${workspace}/${connection}`;
}

/** Returns the address of the webhooks of a connection, if the daemon is reached at `publicUrl`. */
export function webhookUrlOf(publicUrl: string, workspace: string, connection: string): string {
  return `${publicUrl}${webhookPathOf(workspace, connection)}`;
}

const JSON_TYPE = 'application/json; charset=utf-8';
/** `Retry-After` if the error names no time, seconds. */
const RETRY_AFTER = 30;

/** The wrong keys of one address, in a burst and per second, above which worksync compares no keys from there. */
const WRONG_KEYS = { burst: 60, perSecond: 1 };

type RouteContext = ReturnType<typeof createContext>;

function createContext(
  { traffic }: Server,
  clock: Clock,
  find: FindReceiver,
  isBroken: (workspace: string) => boolean,
) {
  return {
    clock,
    find,
    isBroken,
    traffic,
    wrongKeys: createAddressGuard(clock, WRONG_KEYS),
    /** The real time, in which senders wait. */
    networkClock: systemClock(),
  };
}

/**
 * `POST /webhooks/:workspace/:connection`: verifies the signature over the raw bytes, appends the delivery, answers. It
 * does not parse the payload.
 *
 * - 202 `{"delivery":"new"|"repeated"|"revived"}`: the delivery is durable. 200 for a vendor that accepts only 200.
 * - 400: the signed request does not name its event or id. Nothing is stored.
 * - 401 `{"error":"signature_missing"|"signature_mismatch"|"signature_expired"}`: `signature_missing` also if no secret is configured.
 * - 404: workspace or connection is not configured.
 * - 413, 415: the body is too large, or compressed.
 * - 503 with `Retry-After`: the delivery could not be stored, or the workspace did not start.
 *
 * Under overload, the address with the most failures is rejected first: 429 with `Retry-After` if it keeps failing,
 * else 503.
 *
 * `GET` and `HEAD` with a shared key: 204 if it is right, 401 if not, both without a body. After too many wrong keys
 * from one address, all requests from there are answered 429, and no key is compared. Deliveries that are also signed
 * are exempt, because senders may share an address.
 *
 * @param isBroken whether the workspace is configured, but did not start. Its senders get 503, so that they repeat
 * @param largestDelivery the largest of all connectors, bytes
 */
export function webhookRoutes(
  server: Server,
  clock: Clock,
  find: FindReceiver,
  isBroken: (workspace: string) => boolean,
  largestDelivery: number,
): void {
  const context = createContext(server, clock, find, isBroken);
  const config = { access: 'webhook' } as const;
  server.post<Path>(ROUTE, {
    config,
    bodyLimit: largestDelivery,
    onRequest: (request, reply, proceed) => {
      reply.type(JSON_TYPE);
      const rejection = rejectionByHead(context, request);
      if (!rejection) return proceed();
      sendError(reply, ...rejection);
    },
    errorHandler: (thrown, _request, reply) => {
      const status = (thrown as { statusCode?: number }).statusCode ?? 500;
      sendError(reply.type(JSON_TYPE), status, CODE_OF_STATUS[status] ?? 'refused');
    },
    handler: (request, reply) => receive(context, request, reply),
  });
  server.route<Path>({
    method: ['GET', 'HEAD'],
    url: ROUTE,
    config,
    handler: (request, reply) => verifySharedKey(context, request, reply),
  });
  server.route<Path>({
    method: OTHER_METHODS,
    url: ROUTE,
    config,
    handler: (request, reply) => rejectMethod(receiverOf(context, request), reply),
  });
  // Without this route, an incomplete address would be answered like a page: log in.
  server.route({
    method: [...OTHER_METHODS, 'GET', 'HEAD', 'POST'],
    url: '/webhooks/*',
    config,
    onRequest: (_request, reply) => void sendError(reply.type(JSON_TYPE), 404, 'not_found'),
    handler: (_request, reply) => reply,
  });
}

const OTHER_METHODS = ['PUT', 'PATCH', 'DELETE', 'OPTIONS'];

const CODE_OF_STATUS: Readonly<Record<number, string>> = { 413: 'payload_too_large', 500: 'internal' };

const ACCEPTED: Readonly<Record<Appended, string>> = {
  new: '{"delivery":"new"}',
  repeated: '{"delivery":"repeated"}',
  revived: '{"delivery":"revived"}',
};

/** Receives one delivery: admit, verify, append, answer. */
async function receive(context: RouteContext, request: Request, reply: ServerReply): Promise<ServerReply> {
  const { clock, networkClock, traffic } = context;
  // The connection may have been removed, or have new secrets, since the head of the request arrived.
  const receiver = receiverOf(context, request);
  if (!receiver) return sendError(reply, 404, 'not_found');
  const from = clock.now();
  const arrivedAt = networkClock.monotonic();
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  // The size is known only now if the sender named no length.
  if (body.length > receiver.connector.largestDelivery) return sendError(reply, 413, 'payload_too_large');
  const turn = traffic.turn(request.ip, body.length);
  if (turn) await turn;

  const verified = await verify(receiver, { headers: request.headers, body }, clock.now());
  if (verified instanceof SyncError) {
    recordRejection(context, receiver, request.ip, verified.code);
    return sendError(reply, statusOf(verified), verified.code);
  }

  const row = await appendInTime(receiver, verified, body, { networkClock, arrivedAt });
  if (row instanceof SyncError) return sendError(reply, 503, row.code, retryAfterOf(row));

  const { accepted = 202 } = receiver.connector;
  const span = { connection: receiver.name, event: verified.event, status: accepted, from, to: clock.now() };
  receiver.tracer?.record(receiveSpan(row, span));
  return reply.code(accepted).send(ACCEPTED[row.appended]);
}

function receiverOf({ find }: RouteContext, { params }: Pick<Head, 'params'>): Receiver | undefined {
  return find(params.workspace, params.connection);
}

/** Returns why a delivery is rejected before its body is read; undefined if its receiver was found and accepts it. */
function rejectionByHead(context: RouteContext, head: Head): readonly [status: number, error: string] | undefined {
  const { params, headers, ip } = head;
  const receiver = receiverOf(context, head);
  if (!receiver) return context.isBroken(params.workspace) ? [503, 'workspace_unavailable'] : [404, 'not_found'];
  if (receiver.secrets.length === 0) return [401, 'signature_missing'];
  const isKeyOnlyProof = receiver.sharedKey?.isOnlyProof === true;
  if (isKeyOnlyProof && !context.wrongKeys.admits(groupOfAddress(ip))) return [429, 'signature_mismatch'];
  if (headers['content-encoding']) return [415, 'refused'];
  const length = Number(headers['content-length'] ?? 0);
  if (length > receiver.connector.largestDelivery) return [413, 'payload_too_large'];
  return undefined;
}

/** Fails closed: returns whatever `verify` throws as an error. */
async function verify(
  { connector, secrets }: Receiver,
  request: WebhookRequest,
  now: number,
): Promise<VerifiedRequest | SyncError> {
  try {
    return await connector.verify(request, secrets, now);
  } catch (error) {
    return asSyncError(error);
  }
}

/**
 * Appends the delivery, or returns an error in time. A late append goes on, so the sender's next attempt finds it
 * stored.
 */
async function appendInTime(
  receiver: Receiver,
  verified: VerifiedRequest,
  body: Buffer,
  { networkClock, arrivedAt }: { readonly networkClock: Clock; readonly arrivedAt: number },
): Promise<AppendedRow | SyncError> {
  const appended = append(receiver, verified, body);
  if (receiver.answerWithin === undefined) return appended;
  const done = new AbortController();
  const left = arrivedAt + receiver.answerWithin - networkClock.monotonic();
  const late = sleep(networkClock, left, done.signal).then(
    () => new SyncError('database_failed', 'the delivery could not be stored in time'),
  );
  return Promise.race([appended, late]).finally(() => done.abort());
}

/** Returns the appended row, or the error for which the delivery could not be stored. */
async function append(
  { name: connection, source = 'webhook', collector, meter, logger }: Receiver,
  verified: VerifiedRequest,
  body: Buffer,
): Promise<AppendedRow | SyncError> {
  const key = verified.deliveryId ?? (await sha256Of(body));
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

/** Counts a rejected request against its address. */
function recordRejection(
  { traffic, wrongKeys }: RouteContext,
  receiver: Receiver,
  address: string,
  error: string,
): void {
  const { name: connection, meter, logger, sharedKey } = receiver;
  traffic.failed(address);
  meter.count('deliveries_total', { connection, outcome: 'refused' });
  logger.warn({ connection, code: error, address }, 'delivery refused');
  if (sharedKey && error.startsWith('signature_')) wrongKeys.failed(groupOfAddress(address));
}

function verifySharedKey(context: RouteContext, request: Request, reply: ServerReply): ServerReply {
  const { wrongKeys, isBroken } = context;
  const receiver = receiverOf(context, request);
  if (!receiver && isBroken(request.params.workspace)) return withRetryAfter(reply.code(503)).send();
  if (!receiver?.sharedKey) return rejectMethod(receiver, reply);
  if (!wrongKeys.admits(groupOfAddress(request.ip))) return withRetryAfter(reply.code(429)).send();
  if (receiver.sharedKey.matches(request.headers)) return reply.code(204).send();
  recordRejection(context, receiver, request.ip, 'signature_mismatch');
  return reply.code(401).send();
}

function rejectMethod(receiver: Receiver | undefined, reply: ServerReply): ServerReply {
  const allow = receiver?.sharedKey ? 'GET, HEAD, POST' : 'POST';
  return sendError(reply.header('allow', allow).type(JSON_TYPE), 405, 'refused');
}

function statusOf({ code }: SyncError): number {
  if (code === 'internal') return 500;
  return code.startsWith('signature_') ? 401 : 400;
}

function sendError(reply: ServerReply, status: number, error: string, retryAfter?: number): ServerReply {
  if (status === 429 || status === 503) withRetryAfter(reply, retryAfter);
  return reply.code(status).send(JSON.stringify({ error }));
}

function withRetryAfter(reply: ServerReply, seconds = RETRY_AFTER): ServerReply {
  return reply.header('retry-after', seconds);
}

/** Returns whole seconds. */
function retryAfterOf(error: SyncError): number {
  return error.retryAfter === undefined ? RETRY_AFTER : Math.max(1, Math.ceil(error.retryAfter / 1000));
}
