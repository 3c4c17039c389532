import { entity } from '../model/change.ts';
import { asSyncError, type SyncError } from '../model/errors.ts';
import { createAddressGuard, groupOfAddress, type Patience } from '../platform/http/addresses.ts';
import { type AnswerRoom, createAnswerRoom, type MemoryBudget } from '../platform/http/admission.ts';
import { isSafe, isSuccess } from '../platform/http/http-client.ts';
import type { Server, ServerReply, ServerRequest } from '../platform/http/server.ts';
import { type Clock, sleep } from '../platform/lib/clock.ts';
import type { Meter } from '../platform/lib/telemetry.ts';
import { enqueueReads } from '../store/workspace/workspace-reads.ts';
import { wasNotSent } from '../workspace-api/capture-responses.ts';
import { BASE_PATH } from '../workspace-api/contract.ts';
import { LARGEST_PASSED, type PassedAnswer, type PassedRequest } from '../workspace-api/typed-client.ts';
import { type Cache, createCache } from './cache.ts';
import {
  type Destination,
  destinationOf,
  type GatewayForwarding,
  passedRequest,
  pathOf,
  variantOf,
} from './destination.ts';
import {
  type Caller,
  type Callers,
  type CallersOptions,
  createCallers,
  type Known,
  type Stranger,
} from './known-callers.ts';
import { aged, type Outgoing, outgoing, refuse, retrySoon, tooMany, unauthorized } from './outgoing.ts';
import type { Upstream } from './upstream.ts';

export interface GatewayOptions extends CallersOptions {
  /** The open workspaces. */
  readonly upstreams: () => readonly Upstream[];
  /** The other processes of the installation; absent: there are none. */
  readonly elsewhere?: GatewayForwarding | undefined;
  readonly meter: Meter;
}

export interface Gateway {
  /** Drops the cached reads of a workspace that was written to without the gateway. */
  changed(workspace: string): void;
}

const MOST_ADDRESSES = 1_000;

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** Seconds after which an address with too many wrong credentials may try another. */
const NEXT_TRIAL = 60;
/** Seconds after which an address with too many refused requests may send another body while memory is short. */
const NEXT_BODY = 10;

/**
 * The workspace API on the daemon's own port: jobs and scripts use it as their base address. Everything goes through the one
 * throttle, in the interactive lane. Recent reads are answered from memory, but only to callers that the workspace is known to
 * accept (`known-callers.ts`). Any HTTP client works unchanged.
 */
export function gatewayRoutes(server: Server, options: GatewayOptions): Gateway {
  const gateway = new GatewayHandler(options, server.traffic.bodies);
  const users = new RoomUsers();
  // A scope of its own, so that its errors have the form of the workspace's errors.
  void server.register(
    async (scope) => {
      scope.setErrorHandler((error, _request, reply) => give(reply, refusalOf(error)));
      scope.setNotFoundHandler((_request, reply) => give(reply, refuse(404, 'not_found', 'there is no such address')));
      scope.route({
        method: [...METHODS],
        url: '/*',
        config: { access: 'public' },
        // A cached answer needs no promise, which would be most of its cost.
        handler: (request, reply) => {
          const cached = gateway.recall(request);
          return cached
            ? void give(reply, cached)
            : gateway.serve(request).then((answer) => give(reply, answer, users));
        },
      });
    },
    { prefix: BASE_PATH },
  );
  return { changed: (workspace) => gateway.cache.forget(workspace) };
}

function give(reply: ServerReply, { status, headers, body, isTheirs, room }: Outgoing, users?: RoomUsers): ServerReply {
  if (room) users?.add(room, reply.raw);
  if (isTheirs && reply.request.passage) reply.request.passage.isAnswered = true;
  return reply.code(status).headers(headers).send(body);
}

/** The answer to a request that the server refuses: its body is too large, compressed, cut off, or one of too many. */
function refusalOf(error: unknown): Outgoing {
  const status = (error as { statusCode?: number }).statusCode ?? 500;
  if (status === 413) return refuse(413, 'payload_too_large', 'a body has at most 1048576 bytes');
  if (status === 429) return tooMany(NEXT_BODY);
  if (status === 503) return OVERLOADED;
  if (status < 500) return refuse(status, 'bad_request', 'the request is not acceptable');
  return refuse(500, 'internal_error', 'the gateway failed to answer this request');
}

/** The replies that send the same answer. Its memory is free when all have ended. */
class RoomUsers {
  readonly #counts = new WeakMap<AnswerRoom, number>();

  add(room: AnswerRoom, raw: ServerReply['raw']): void {
    this.#change(room, 1);
    const end = () => {
      if (this.#change(room, -1) === 0) room.leave();
    };
    if (raw.destroyed || raw.closed) end();
    else raw.once('close', end);
  }

  #change(room: AnswerRoom, by: 1 | -1): number {
    const count = (this.#counts.get(room) ?? 0) + by;
    this.#counts.set(room, count);
    return count;
  }
}

/** A request that may be forwarded, with its caller and destination. */
interface GatewayCall {
  readonly caller: Known | Stranger;
  readonly authorization: string;
  readonly destination: Destination;
  readonly passed: PassedRequest;
  readonly request: ServerRequest;
  /** The time of arrival, by the monotonic clock. */
  readonly since: number;
}

class GatewayHandler {
  readonly cache: Cache;
  readonly #options: GatewayOptions;
  readonly #callers: Callers;
  readonly #throttle: ReturnType<typeof createCredentialThrottle>;
  readonly #asked = new Set<string>();
  /** Addresses in the cache by their spelling, so that a repeated spelling is not parsed again. */
  readonly #addresses = new Map<string, string>();
  readonly #bodies: MemoryBudget;

  constructor(options: GatewayOptions, bodies: MemoryBudget) {
    this.#options = options;
    this.#bodies = bodies;
    this.#callers = createCallers(options);
    this.#throttle = createCredentialThrottle(options.clock);
    this.cache = createCache(options.clock);
  }

  /** The fast path: a known caller, a known address, a cached answer. */
  recall(request: ServerRequest): Outgoing | undefined {
    if (!isCacheable(request)) return undefined;
    const upstream = this.#callers.recall(request.headers.authorization)?.upstream;
    const address = upstream && this.#addresses.get(spellingOf(upstream, request));
    return address === undefined ? undefined : this.#cached(upstream as Upstream, address, request);
  }

  async serve(request: ServerRequest): Promise<Outgoing> {
    const path = pathOf(request.url);
    if (path === undefined) return refuse(400, 'bad_request', 'the path is not acceptable');
    const signed = this.#options.elsewhere?.signedBy(request);
    const caller = await this.#identify(request, signed?.gatewayToken);
    const isDoubtful = caller.kind === 'stranger' && !caller.credible;
    if (!isDoubtful) return this.#serveCaller(caller, request, path);
    const address = signed?.ip ?? request.ip;
    if (!(await this.#throttle.enter(address))) return tooMany(NEXT_TRIAL);
    let answered: Outgoing | undefined;
    try {
      // Another request may have identified the caller meanwhile.
      answered = await this.#serveCaller(await this.#callers.identify(request.headers.authorization), request, path);
      return answered;
    } finally {
      this.#throttle.leave(address, answered?.status === 401);
    }
  }

  #identify({ headers }: ServerRequest, gatewayToken: string | undefined): Promise<Caller> {
    return gatewayToken === undefined
      ? this.#callers.identify(headers.authorization)
      : this.#callers.withToken(gatewayToken);
  }

  async #serveCaller(caller: Caller, request: ServerRequest, path: string): Promise<Outgoing> {
    const { upstreams, clock, elsewhere } = this.#options;
    const { authorization = '' } = request.headers;
    if (caller.kind === 'nobody') return unauthorized();
    if (caller.kind === 'elsewhere')
      return elsewhere ? elsewhere.pass(caller.workspace, request, this.#roomOf(request), caller.id) : unauthorized();
    if (caller.kind !== 'stranger') request.passage = { workspace: caller.upstream.name };
    const places = { upstreams: upstreams(), elsewhere: elsewhere?.places() ?? [] };
    const destination = await destinationOf(places, caller, path);
    if ('status' in destination) return destination;
    if ('elsewhere' in destination)
      return elsewhere?.pass(destination.elsewhere.name, request, this.#roomOf(request)) ?? unauthorized();
    request.passage = { workspace: destination.upstream.name };
    const passed = passedRequest(request, destination, caller);
    const call: GatewayCall = { caller, authorization, destination, passed, request, since: clock.monotonic() };
    try {
      return isCacheable(request) ? await this.#read(call, request) : await this.#pass(call);
    } catch (error) {
      return this.#failed(call, asSyncError(error));
    }
  }

  /** A read that may be answered from memory, or together with others. */
  async #read(call: GatewayCall, request: ServerRequest): Promise<Outgoing> {
    const { caller, authorization, passed } = call;
    const { upstream, isProof } = call.destination;
    const address = `${passed.path}${passed.query} ${variantOf(request, upstream.settings.versionHeader)}`;
    if (caller.kind !== 'stranger') {
      if (this.#addresses.size >= MOST_ADDRESSES) this.#addresses.clear();
      this.#addresses.set(spellingOf(upstream, request), address);
      const found = this.#cached(upstream, address, request);
      if (found) return found;
    } else if (!this.#callers.isKey(authorization, upstream)) {
      return this.#pass(call);
    }
    // Conditions belong to the caller; the cached answer must be complete.
    const { 'if-none-match': condition, ...headers } = passed.headers;
    const whole = { ...call, passed: { ...passed, headers } };
    const flight = caller.kind === 'stranger' ? `${address} ${caller.name}` : address;
    const reading = { workspace: upstream.name, address, flight };
    const { answer, joined } = await this.cache.shared(reading, isProof, () => this.#pass(whole));
    // A refusal of another caller does not apply to this one. Some servers answer 404 if a caller has no access.
    const isTheirs = joined && [401, 403, 404].includes(answer.status);
    return aged(isTheirs ? await this.#pass(whole) : answer, 0, condition);
  }

  /** Returns the cached answer. */
  #cached(upstream: Upstream, address: string, { headers }: ServerRequest): Outgoing | undefined {
    const found = this.cache.fresh(upstream.name, address, upstream.settings.freshFor);
    if (!found) return undefined;
    this.#options.meter.count('gateway_requests_total', { outcome: 'cached' });
    return aged(found.answer, found.age, headers['if-none-match']);
  }

  /** Sends the request through the throttle, and records the answer. */
  async #pass(call: GatewayCall): Promise<Outgoing> {
    const room = this.#roomOf(call.request);
    try {
      return outgoing(await this.#exchange(call, room), room);
    } catch (error) {
      room.leave();
      throw error;
    }
  }

  #roomOf({ ip }: ServerRequest): AnswerRoom {
    return createAnswerRoom(this.#bodies, groupOfAddress(ip), LARGEST_PASSED);
  }

  async #exchange(call: GatewayCall, room: AnswerRoom): Promise<PassedAnswer> {
    const { upstream, isProof } = call.destination;
    const { passed, authorization, since } = call;
    const answer = await this.#send(upstream, { ...passed, room });
    this.#options.meter.count('gateway_requests_total', { outcome: 'passed' });
    if (answer.status === 401 || answer.status === 403) this.#callers.refused(authorization);
    else if (answer.status < 400) this.#callers.accepted(authorization, { upstream, since, isProved: isProof });
    if (!isSafe(passed.method)) this.cache.forget(upstream.name);
    if (isProof) await upstream.capture.answered(passed, answer);
    else await this.#onUnproved(call, answer.status);
    return answer;
  }

  async #send(upstream: Upstream, passed: PassedRequest): Promise<PassedAnswer> {
    const waiting = new AbortController();
    const served = new AbortController();
    void sleep(this.#options.clock, upstream.settings.longestWait, served.signal).then(() => waiting.abort());
    try {
      return await upstream.pass(passed, waiting.signal);
    } finally {
      served.abort();
    }
  }

  /**
   * After a write of an unproven caller, worksync reads the workspace with the daemon's own key, because only those answers are
   * certainly this workspace's.
   */
  async #onUnproved(call: GatewayCall, status: number): Promise<void> {
    await call.destination.upstream.capture.unproved(call.passed, status);
    if (isSuccess(status)) await this.#checkKeyOnce(call);
  }

  /**
   * A key was accepted, but the daemon cannot know for which workspace, because its own was empty when it was read. One read
   * decides; it is not repeated, because the workspace may still be empty.
   */
  async #checkKeyOnce({ authorization, destination: { upstream } }: GatewayCall): Promise<void> {
    if (this.#asked.has(upstream.name) || !this.#callers.isKey(authorization, upstream)) return;
    if ((await upstream.workspaceId()) !== undefined) return;
    this.#asked.add(upstream.name);
    const now = this.#options.clock.now();
    await upstream.store.commit((transaction) => enqueueReads(transaction, [entity.readTasks], now));
    upstream.outbox.notify();
  }

  async #failed(call: GatewayCall, error: SyncError): Promise<Outgoing> {
    const { clock, meter } = this.#options;
    const { passed } = call;
    const { upstream } = call.destination;
    if (error.code === 'aborted') {
      meter.count('gateway_requests_total', { outcome: 'refused' });
      return tooMany(Math.max(1, Math.ceil((upstream.nextSlotAt() - clock.now()) / 1_000)));
    }
    meter.count('gateway_requests_total', { outcome: 'failed' });
    upstream.logger.warn({ error, method: passed.method }, 'forwarding failed');
    if (error.code === 'over_budget' && isSafe(passed.method)) return OVERLOADED;
    if (error.code === 'answer_malformed')
      return refuse(502, 'answer_malformed', 'the answer of the workspace is malformed');
    if (isSafe(passed.method) || wasNotSent(error)) {
      return refuse(502, 'workspace_unreachable', 'the workspace sent no usable answer');
    }
    this.cache.forget(upstream.name);
    await upstream.capture.failed(passed, error);
    return refuse(504, 'outcome_unknown', 'no answer came: the outcome of the request is unknown');
  }
}

const OVERLOADED = retrySoon('overloaded', 'too many large requests or answers are on their way: repeat the request');

function isCacheable({ method, headers }: Pick<ServerRequest, 'method' | 'headers'>): boolean {
  return method === 'GET' && headers['range'] === undefined;
}

function spellingOf({ name, settings }: Upstream, request: ServerRequest): string {
  return `${name} ${variantOf(request, settings.versionHeader)} ${request.url}`;
}

/** Wrong credentials that one address may try, and how soon it may try another. */
const PATIENCE: Patience = { burst: 5, perSecond: 1 / 60 };

/**
 * Credentials that the workspace has not accepted lately, by the address they come from: each costs a slot of the
 * quota to try, so an address may get few of them wrong, and has few tried at a time.
 */
export function createCredentialThrottle(clock: Clock) {
  const guard = createAddressGuard(clock, PATIENCE);
  const rooms = new Map<string, { inside: number; readonly waiting: (() => void)[] }>();
  const roomOf = (address: string) => {
    const room = rooms.get(address) ?? { inside: 0, waiting: [] };
    rooms.set(address, room);
    return room;
  };
  const callNext = (address: string) => {
    const room = roomOf(address);
    room.waiting.shift()?.();
    if (room.inside === 0 && room.waiting.length === 0) rooms.delete(address);
  };
  return {
    /** Waits for a place; `leave` must follow. Returns false if this address got too many wrong: then nothing is tried. */
    async enter(address: string): Promise<boolean> {
      const room = roomOf(address);
      // Each of those inside may turn out to be wrong.
      while (guard.admits(address) && room.inside >= guard.left(address)) {
        await new Promise<void>((admit) => room.waiting.push(admit));
      }
      if (guard.admits(address)) {
        rooms.set(address, room);
        room.inside++;
        return true;
      }
      // Then nobody else has a reason to wait either.
      callNext(address);
      return false;
    },
    /** @param isWrong the workspace did not know the credential */
    leave(address: string, isWrong: boolean): void {
      const room = roomOf(address);
      if (isWrong) guard.failed(address);
      room.inside--;
      callNext(address);
    },
  };
}
