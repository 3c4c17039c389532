import { asSyncError, type SyncError } from '../errors/sync-error.ts';
import { type AddressGuard, createAddressGuard } from '../http/address-guard.ts';
import type { HttpAnswer } from '../http/client.ts';
import type { Server, ServerRequest } from '../http/server.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import type { Random } from '../lib/random.ts';
import { BASE_PATH } from '../workspace/contract.ts';
import { type Cache, createCache } from './cache.ts';
import { type Caller, type Callers, createCallers } from './callers.ts';
import { learn, learnUnknown } from './learn.ts';
import type { Passage, PassedRequest } from './passage.ts';
import { workspaceOf } from './route-of.ts';

export interface GatewayOptions {
  readonly passages: readonly Passage[];
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
}

export interface Gateway {
  /** Someone wrote to this workspace otherwise than through the gateway: its cached reads end. */
  changed(workspace: string): void;
}

/** Wrong credentials that one address may try: each costs a slot of the quota. */
const PATIENCE = { burst: 5, perSecond: 1 / 60 };

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** What of a request goes on to the workspace. The rest is between the caller and us. */
const PASSED_ON = ['accept', 'content-type', 'if-none-match', 'if-match', 'range', 'x-service-api-version'];
/** What of an answer goes back to the caller. */
const PASSED_BACK = [
  'content-type',
  'content-disposition',
  'content-range',
  'content-security-policy',
  'etag',
  'location',
  'retry-after',
  'allow',
  'x-content-type-options',
];

/**
 * The workspace API on the daemon's own port: jobs and scripts point their base address here. Everything goes through
 * the one throttle, in the interactive lane; reads that were answered a moment ago are answered from memory, but only to
 * callers whom the workspace is known to accept (`callers.ts`). Any HTTP client works unchanged.
 */
export function gatewayRoutes(server: Server, options: GatewayOptions): Gateway {
  const { passages, clock, random } = options;
  const desk = new Desk(options, createCallers({ passages, clock, random }), createCache(clock));
  server.route({
    method: [...METHODS],
    url: `${BASE_PATH}/*`,
    handler: async (request, reply) => {
      const { status, headers, body } = await desk.serve(request);
      return reply.code(status).headers(headers).send(body);
    },
  });
  return { changed: (workspace) => desk.cache.forget(workspace) };
}

/** An answer to the caller. */
interface Outgoing {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | string | undefined;
}

class Desk {
  readonly cache: Cache;
  readonly #options: GatewayOptions;
  readonly #callers: Callers;
  readonly #guard: AddressGuard;

  constructor(options: GatewayOptions, callers: Callers, cache: Cache) {
    this.#options = options;
    this.#callers = callers;
    this.#guard = createAddressGuard(options.clock, PATIENCE);
    this.cache = cache;
  }

  async serve(request: ServerRequest): Promise<Outgoing> {
    const { authorization } = request.headers;
    const path = pathOf(request);
    if (path === undefined) return refuse(400, 'bad_request', 'the path is not acceptable');
    if (authorization === undefined) return refuse(401, 'unauthorized', 'missing or invalid credentials');
    const caller = await this.#callers.identify(authorization);
    // Made-up credentials must not spend the quota.
    if (caller.kind === 'unknown' && !this.#guard.admits(request.ip)) {
      return refuse(401, 'unauthorized', 'missing or invalid credentials');
    }
    const passage = choose(this.#options.passages, caller, path);
    if (passage === undefined) return this.#refuseUnclear(caller, path);
    const passed = passedRequest(request, path, caller);
    const started = this.#options.clock.now();
    try {
      const answered = await this.#answer(passage, caller, passed, authorization);
      if (answered.status === 401) this.#guard.failed(request.ip);
      return answered;
    } catch (error) {
      return await this.#failed(passage, passed, asSyncError(error), started);
    }
  }

  async #answer(
    passage: Passage,
    caller: Caller,
    passed: PassedRequest,
    authorization: string | undefined,
  ): Promise<Outgoing> {
    const isCacheable = passed.method === 'GET' && passed.headers['range'] === undefined && caller.kind !== 'unknown';
    if (!isCacheable) return outgoing(await this.#pass(passage, passed, authorization), passed);
    const address = `${passed.path}${passed.query} ${passed.headers['accept'] ?? ''}`;
    const found = this.cache.fresh(passage.name, address, passage.settings.freshFor);
    if (found) {
      this.#options.meter.count('gateway_requests_total', { outcome: 'cached' });
      return outgoing(found.answer, passed, found.age);
    }
    // Conditions are the caller's own; what is kept must be whole.
    const { 'if-none-match': _, ...headers } = passed.headers;
    const whole = { ...passed, headers };
    const answer = await this.cache.shared(passage.name, address, () => this.#pass(passage, whole, authorization));
    return outgoing(answer, passed, 0);
  }

  /** Puts the request through the throttle and learns from the answer. */
  async #pass(passage: Passage, passed: PassedRequest, authorization: string | undefined): Promise<HttpAnswer> {
    const { clock, meter } = this.#options;
    const waiting = new AbortController();
    const served = new AbortController();
    void sleep(clock, passage.settings.longestWait, served.signal).then(() => waiting.abort());
    const sentAt = clock.now();
    try {
      const answer = await passage.pass(passed, waiting.signal);
      meter.count('gateway_requests_total', { outcome: 'passed' });
      if (answer.status === 401 || answer.status === 403) this.#callers.refused(authorization);
      else if (answer.status < 400) this.#callers.accepted(authorization, passage);
      if (!isRead(passed.method)) this.cache.forget(passage.name);
      await learn(passage, passed, answer, { sentAt, now: clock.now(), random: this.#options.random });
      return answer;
    } finally {
      served.abort();
    }
  }

  async #failed(passage: Passage, passed: PassedRequest, error: SyncError, started: number): Promise<Outgoing> {
    const { clock, meter, logger } = this.#options;
    if (error.code === 'aborted') {
      meter.count('gateway_requests_total', { outcome: 'refused' });
      return tooMany(passage.nextSlotAt(), clock.now());
    }
    meter.count('gateway_requests_total', { outcome: 'failed' });
    logger.warn({ error, workspace: passage.name, method: passed.method }, 'passing through failed');
    if (isRead(passed.method) || error.code === 'unreachable') {
      return refuse(502, 'workspace_unreachable', 'the workspace gave no usable answer');
    }
    this.cache.forget(passage.name);
    await learnUnknown(passage, passed, { now: clock.now(), sentAt: started, random: this.#options.random });
    return refuse(504, 'outcome_unknown', 'no answer came: it is not known whether the request was carried out');
  }

  #refuseUnclear(caller: Caller, path: string): Outgoing {
    if (caller.kind === 'token') return refuse(403, 'workspace_forbidden', 'this token is for another workspace');
    const named = workspaceOf(path);
    if (named !== undefined && named !== 'current') {
      return refuse(403, 'workspace_forbidden', 'the workspace cannot be accessed');
    }
    const message = 'several workspaces are configured: name one in the path, or use a gateway token';
    return refuse(400, 'bad_request', message);
  }
}

/** Below the base path, as it was spelled; undefined for what could leave its place when somebody decodes it again. */
function pathOf(request: ServerRequest): string | undefined {
  const path = request.url.slice(BASE_PATH.length).split('?', 1)[0] as string;
  return /\/\.{1,2}(?:\/|$)|%2e|%2f|%5c|\\/i.test(path) ? undefined : path;
}

/**
 * The workspace that a request is for. What the caller is known for decides; then the path; an unknown caller that
 * names none is only clear where there is one workspace.
 */
function choose(passages: readonly Passage[], caller: Caller, path: string): Passage | undefined {
  const named = workspaceOf(path);
  const isNamed = named !== undefined && named !== 'current';
  if (caller.kind !== 'unknown') {
    const { passage } = caller;
    return isNamed && passage.workspaceId !== 'current' && named !== passage.workspaceId ? undefined : passage;
  }
  if (passages.length === 1) return passages[0];
  return isNamed ? passages.find(({ workspaceId, name }) => workspaceId === named || name === named) : undefined;
}

function passedRequest(request: ServerRequest, path: string, caller: Caller): PassedRequest {
  const at = request.url.indexOf('?');
  const headers: Record<string, string> = {};
  for (const name of PASSED_ON) {
    const value = request.headers[name];
    if (typeof value === 'string') headers[name] = value;
  }
  return {
    method: request.method as PassedRequest['method'],
    path,
    query: at === -1 ? '' : request.url.slice(at),
    headers,
    ...(Buffer.isBuffer(request.body) ? { body: request.body } : {}),
    ...(caller.kind === 'token' ? {} : { authorization: request.headers.authorization ?? '' }),
  };
}

/** @param age whole seconds; absent for an answer that was not and will not be held */
function outgoing(answer: HttpAnswer, { method, headers: asked }: PassedRequest, age?: number): Outgoing {
  const headers: Record<string, string> = age === undefined ? {} : { age: String(age) };
  for (const name of PASSED_BACK) {
    const value = answer.headers[name];
    if (value !== undefined) headers[name] = value;
  }
  const isKnown = method === 'GET' && answer.status === 200 && names(asked['if-none-match'], headers['etag']);
  const status = isKnown ? 304 : answer.status;
  return { status, headers, body: status === 204 || status === 304 ? undefined : answer.body };
}

/** If-None-Match compares weakly (RFC 9110, section 13.1.2). */
function names(condition: string | undefined, etag: string | undefined): boolean {
  if (condition === undefined || etag === undefined) return false;
  const plain = (tag: string) => tag.trim().replace(/^W\//, '');
  return condition.trim() === '*' || condition.split(',').some((tag) => plain(tag) === plain(etag));
}

/** The specification's own words and form (section 7), with the delay that is really expected. */
function tooMany(slotAt: number | null, now: number): Outgoing {
  const seconds = Math.max(1, Math.ceil(((slotAt ?? now) - now) / 1_000));
  const refusal = refuse(429, 'rate_limit_exceeded', `standard rate limit exceeded, retry in ${seconds} seconds`);
  return { ...refusal, headers: { ...refusal.headers, 'retry-after': String(seconds) } };
}

function refuse(code: number, errorCode: string, message: string): Outgoing {
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  return { status: code, headers, body: JSON.stringify({ code, message, errorCode }) };
}

function isRead(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}
