import type { IncomingHttpHeaders } from 'node:http';
import { asSyncError } from '../../model/errors.ts';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { createServer, type Server, type ServerReply, type ServerRequest } from '../../platform/http/server.ts';
import { problemsOf, successesOf } from '../../workspace-api/contract/route.ts';
import {
  API_VERSION,
  BASE_PATH,
  ID_PATTERN,
  LIMITS,
  ROUTES,
  type Route,
  type RouteName,
  versionHeaderOf,
} from '../../workspace-api/contract.ts';
import { type Caller, requireAdmin, requireUser, resolveWorkspace } from '../access/caller-rights.ts';
import { agentHandlers, sessionHandlers } from '../agents/agents.ts';
import { documentHandlers } from '../documents/documents.ts';
import { ASSET_ADDRESS, addFileTransfer, fileHandlers, UPLOAD_ADDRESS } from '../files/files.ts';
import { apiKeyHandlers } from '../keys/keys.ts';
import { pullRequestHandlers } from '../pull-requests/pull-requests.ts';
import { taskHandlers, workItemHandlers } from '../tasks/tasks.ts';
import { webhookHandlers } from '../webhooks/webhooks.ts';
import { ApiError, errorBody, etagOf, invalid, isNotModified, notFound } from './api-error.ts';
import { addReference, OPENAPI_ADDRESS } from './api-reference.ts';
import { Existing, type Handlers, type Service } from './call.ts';
import { missingRoutes } from './variant.ts';

/** A request on its way to the service, before any of it was read. */
interface ArrivingRequest {
  readonly method: string;
  /** Path and query as received. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

interface LeavingAnswer {
  readonly status: number;
  readonly body: string;
}

/** A fault instead: the connection is cut, or another answer is given. */
export type Fault = 'cut' | { readonly status: number; readonly body?: string };

/**
 * The network between client and service, for tests. A hook may wait (a delay), and may return a fault instead. `before` acts on
 * the way in: nothing has been counted, checked or applied. `after` acts on the way out: the effects of the request are
 * committed.
 */
export interface Faults {
  before?(request: ArrivingRequest): Promise<Fault | undefined>;
  after?(request: ArrivingRequest, answer: LeavingAnswer): Promise<Fault | undefined>;
}

/** One handler for each route of the contract; a route without one does not compile. */
const HANDLERS: Handlers = {
  ...taskHandlers,
  ...workItemHandlers,
  ...documentHandlers,
  ...fileHandlers,
  ...pullRequestHandlers,
  ...apiKeyHandlers,
  ...webhookHandlers,
  ...agentHandlers,
  ...sessionHandlers,
};

interface Admission {
  readonly caller: Caller;
  /** Settles when the count of this request is durable. */
  readonly counted: Promise<void> | undefined;
}

/** A request once it was admitted. */
interface Admitted {
  admission: Admission | null;
}

const JSON_TYPE = 'application/json; charset=utf-8';

/** Addresses without credentials: the description of the API, and uploads, which are signed instead. */
const OPEN_ADDRESSES: ReadonlySet<string | undefined> = new Set([OPENAPI_ADDRESS, UPLOAD_ADDRESS]);

/** A video of the largest size must get through a slow line. Unknown callers are refused at the head of their request. */
const REQUEST_TIMEOUT = 10 * 60_000;

/**
 * The steps of every request, in this order: credentials (401), quota (429), version (400), route (404, 405), body size (413),
 * rights (403), workspace (403), schemas (400), handler, `ETag`. 401 and 429 count nothing; every request that passes both is
 * counted, however it ends (W72), and its answer waits until the count is durable.
 */
export function createPipeline(service: Service, faults?: Faults, trustedProxies?: readonly string[]): Server {
  const server = createServer({
    bodyLimit: LIMITS.jsonBody,
    requestTimeout: REQUEST_TIMEOUT,
    trustedProxies,
    failureBody: (status, message) => errorBody(status, message, 'bad_request'),
  });
  if (faults) addFaults(server, faults);
  server.decorateRequest('admission', null);
  const { variant } = service;
  const versionHeader = versionHeaderOf(variant.headerPrefix);
  const missing = missingRoutes(variant);
  const served = SERVED.filter(({ name }) => !missing.has(name));
  const explainMiss = missExplainer(served);
  server.addHook('onRequest', (request) => admit(service, request, versionHeader));
  server.setNotFoundHandler((request) => {
    throw explainMiss(request.url);
  });
  server.setErrorHandler((error, request, reply) => refuse(service, error, request, reply));
  const kept = createKeptAnswers(() => service.commits.count());
  for (const each of served) addRoute(server, service, each, kept);
  addFileTransfer(server, service, (request) => enter(service, request));
  addReference(server, variant);
  return server;
}

async function admit(service: Service, request: ServerRequest, versionHeader: string): Promise<void> {
  if (!isApiAddress(request.url) || OPEN_ADDRESSES.has(request.routeOptions.url)) return;
  const found = service.access.authenticate(request.headers.authorization);
  const caller = found instanceof Promise ? await found : found;
  (request as unknown as Admitted).admission = { caller, counted: count(service, caller) };
  checkVersion(request.headers, versionHeader);
}

/** API keys share their workspace's quota; OAuth tokens have none (W72, W73). Throws 429. */
function count({ quotaLog }: Service, caller: Caller): Promise<void> | undefined {
  if (caller.kind !== 'key' || caller.workspaceId === null) return undefined;
  return quotaLog.take(caller.workspaceId, caller.credentialId);
}

function addRoute(server: Server, service: Service, { name, route, url }: Served, kept: KeptAnswers): void {
  const handler = HANDLERS[name] as (service: Service, call: unknown) => Promise<unknown>;
  const { method } = route;
  const [usual] = successesOf(route);
  server.route({
    method,
    url,
    handler: async (request, reply) => {
      const { counted, ...entered } = await enter(service, request, route.access);
      const key = KEPT_ROUTES.has(name) ? `${entered.workspaceId} ${request.url}` : undefined;
      const present = key === undefined ? undefined : kept.find(key);
      if (present !== undefined) {
        await counted;
        return giveRead(request, reply, present);
      }
      const query = route.query && check(route.query, request.query);
      const body = checkBody(route, request.body, request.headers['content-type']);
      const origin = service.originFor(request);
      const before = service.commits.count();
      const ifMatch = request.headers['if-match'];
      const answer = await handler(service, { ...entered, origin, query, body, ifMatch });
      await counted;
      if (method !== 'GET') return giveWritten(reply, usual!, answer);
      const text = JSON.stringify(answer);
      const read = { body: text, etag: etagOf(text) };
      if (key !== undefined) kept.keep(key, before, read);
      return giveRead(request, reply, read);
    },
  });
}

/** Checks rights, ids and workspace of an admitted request. */
async function enter(service: Service, request: ServerRequest, access?: Route['access']) {
  const { caller, counted } = (request as unknown as Admitted).admission!;
  if (access === 'admin') requireAdmin(caller);
  if (access === 'user') requireUser(caller);
  const { workspaceId: named, ...ids } = checkIds(request.params as Record<string, string>);
  const workspaceId = await resolveWorkspace(service, caller, named);
  return { caller, counted, workspaceId, ids };
}

/** A text that cannot be an id names nothing. */
function checkIds(parameters: Record<string, string>): Record<string, string> {
  for (const id of Object.values(parameters)) if (!ID_PATTERN.test(id)) throw notFound('address');
  return parameters;
}

function giveWritten(reply: ServerReply, usual: number, answer: unknown): ServerReply {
  if (answer === undefined) return reply.code(usual).send();
  const [status, body] = answer instanceof Existing ? [200, answer.body] : [usual, answer];
  return reply.code(status).header('content-type', JSON_TYPE).send(JSON.stringify(body));
}

function giveRead(request: ServerRequest, reply: ServerReply, { body, etag }: KeptAnswer): ServerReply {
  reply.header('content-type', JSON_TYPE).header('etag', etag);
  if (isNotModified(request.headers['if-none-match'], etag)) return reply.code(304).send();
  return reply.code(200).send(body);
}

async function refuse(service: Service, error: unknown, request: ServerRequest, reply: ServerReply): Promise<void> {
  const refusal = await settled(service, error, request);
  reply
    .code(refusal.status)
    .headers(refusal.headers)
    .header('content-type', JSON_TYPE)
    .send(JSON.stringify(errorBody(refusal.status, refusal.message, refusal.errorCode)));
}

/** Returns the refusal once the request's count is durable; if it cannot be made durable, returns that failure. */
async function settled(service: Service, error: unknown, request: ServerRequest): Promise<ApiError> {
  try {
    await (request as unknown as Admitted).admission?.counted;
    return refusalOf(service, error);
  } catch (failure) {
    return refusalOf(service, failure);
  }
}

/** Hides the details of a fault from the client; the log has them. */
function refusalOf({ logger }: Service, error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { statusCode: status, message } = error as { statusCode?: number; message: string };
  if (status === 413) return new ApiError('payload_too_large', `a body has at most ${LIMITS.jsonBody} bytes`);
  if (status !== undefined && status < 500) return new ApiError('bad_request', message);
  logger.error({ err: error }, 'a request failed');
  if (asSyncError(error).code === 'disk_full') return new ApiError('storage_full', 'the disk of the service is full');
  return new ApiError('internal_error', 'the service failed to answer this request');
}

function addFaults(server: Server, faults: Faults): void {
  const { before, after } = faults;
  if (before) {
    server.addHook('onRequest', async (request, reply) => {
      const fault = await before(request);
      if (fault !== undefined) return inflict(fault, request, reply);
    });
  }
  if (after) {
    server.addHook('onSend', async (request, reply, payload) => {
      const body = typeof payload === 'string' ? payload : '';
      const fault = await after(request, { status: reply.statusCode, body });
      if (fault === undefined) return payload;
      if (fault === 'cut') return cut(request, payload);
      reply.code(fault.status).removeHeader('content-length');
      return fault.body ?? '';
    });
  }
}

async function inflict(fault: Fault, request: ServerRequest, reply: ServerReply): Promise<unknown> {
  if (fault !== 'cut') return reply.code(fault.status).send(fault.body ?? '');
  reply.hijack();
  request.raw.socket.destroy();
  return reply;
}

function cut<Payload>(request: ServerRequest, payload: Payload): Payload {
  request.raw.socket.destroy();
  return payload;
}

/** An absent version means 2; any other is refused (W6). Throws 400. */
function checkVersion(headers: IncomingHttpHeaders, name: string): void {
  const version = headers[name.toLowerCase()];
  if (version === undefined || version === API_VERSION) return;
  throw new ApiError('unsupported_api_version', `${name}: only version ${API_VERSION} is served`);
}

/** The body as the route wants it; unknown fields are ignored. Throws 400. */
function checkBody(route: Route, body: unknown, contentType: string | undefined): unknown {
  if (route.body === undefined) return undefined;
  if (!Buffer.isBuffer(body) || body.length === 0) {
    if (route.body.safeParse(undefined).success) return undefined;
    throw new ApiError('bad_request', 'a JSON body is required');
  }
  if (!/^application\/json\s*(;|$)/i.test(contentType ?? ''))
    throw new ApiError('bad_request', 'Content-Type must be application/json');
  return check(route.body, readJson(body));
}

function readJson(body: Buffer): unknown {
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) throw new ApiError('bad_request', `malformed JSON: ${error.message}`);
    throw error;
  }
}

/** The value as the route wants it; unknown fields are ignored. Throws 400. */
function check(schema: NonNullable<Route['body']>, value: unknown): unknown {
  const checked = schema.safeParse(value);
  if (checked.success) return checked.data;
  throw invalid(problemsOf(checked.error));
}

/** An answer to a read as it goes out. */
interface KeptAnswer {
  readonly body: string;
  readonly etag: string;
}

type KeptAnswers = ReturnType<typeof createKeptAnswers>;

/** Reads of one resource that depend on rows alone: not on the time, the caller or another server. */
const KEPT_ROUTES: ReadonlySet<RouteName> = new Set(['getTask', 'getDocument', 'listWorkItems']);

/** Bounds the memory: answers of at most 64 KiB, 512 of them. */
const LARGEST = 65_536;
const MOST = 512;

/**
 * Answers to reads, kept in memory until the next commit of anything. A client that polls something unchanged costs no query. One
 * process holds the file, and all writes go through `commits`, so an answer that was read since the last commit is still true.
 */
function createKeptAnswers(commits: () => number) {
  const kept = new Map<string, KeptAnswer>();
  let valid = commits();
  const dropOutdated = () => {
    if (valid === commits()) return;
    kept.clear();
    valid = commits();
  };
  return {
    find(key: string) {
      dropOutdated();
      return kept.get(key);
    },
    /** @param before the number of commits before the read began; one since then makes the answer worthless */
    keep(key: string, before: number, answer: KeptAnswer) {
      dropOutdated();
      if (before === valid && answer.body.length <= LARGEST && kept.size < MOST) kept.set(key, answer);
    },
  };
}

/** One address that is served: a route at one of its paths, by one of its methods. */
interface Served {
  readonly name: RouteName;
  readonly route: Route;
  /** As the HTTP server wants it: `/api/v1/tasks/:taskId`. */
  readonly url: string;
}

const SERVED: readonly Served[] = (Object.entries(ROUTES) as [RouteName, Route][]).flatMap(([name, route]) =>
  [route, ...(route.alsoBy === undefined ? [] : [{ ...route, method: route.alsoBy }])].flatMap((served) =>
    [route.path, ...(route.alsoAt === undefined ? [] : [route.alsoAt])].map((path) => ({
      name,
      route: served,
      url: BASE_PATH + path.replace(/\{(\w+)\}/g, ':$1'),
    })),
  ),
);

/** Whether a request belongs to the API: then it must carry credentials, also where no route is found. */
function isApiAddress(url: string): boolean {
  return url === BASE_PATH || url.startsWith(`${BASE_PATH}/`) || url.startsWith(`${BASE_PATH}?`);
}

const TRANSFERS = [
  { url: UPLOAD_ADDRESS, route: { method: 'PUT' } },
  { url: ASSET_ADDRESS, route: { method: 'GET' } },
] as const;

/** Explains why no route of those served was found: another method (405 with `Allow`), or no such address (404). */
function missExplainer(served: readonly Served[]): (url: string) => ApiError {
  const patterns = [...served, ...TRANSFERS].map(({ url, route }) => ({
    method: route.method,
    pattern: new RegExp(`^${url.replace(/:\w+/g, '[^/]+')}$`),
  }));
  return (url) => {
    const path = url.split('?', 1)[0]!;
    const methods = patterns.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
    if (methods.length === 0) return notFound('address');
    const allow = [...new Set(methods)].sort().join(', ');
    return new ApiError('method_not_allowed', `this address takes ${allow}`, { allow });
  };
}
