import { asSyncError } from '../../model/errors/sync-error.ts';
import { createServer, type Server, type ServerReply, type ServerRequest } from '../../platform/http/server.ts';
import { ID_PATTERN, LIMITS, type Route, type RouteName, versionHeaderOf } from '../../workspace-api/contract.ts';
import { type Caller, requireAdmin, requireUser, resolveWorkspace } from '../access/caller-rights.ts';
import { addFileTransfer } from '../files/file-transfer.ts';
import { UPLOAD_ADDRESS } from '../files/files.ts';
import { ApiError, errorBody, notFound } from './api-error.ts';
import { addReference, OPENAPI_ADDRESS } from './api-reference.ts';
import type { Answer, Handlers, Service } from './call.ts';
import { checkBody, checkQuery, checkVersion } from './checks.ts';
import { etagOf, isNotModified } from './etag.ts';
import type { Fault, Faults } from './faults.ts';
import { createKeptAnswers, KEPT_ROUTES, type KeptAnswer, type KeptAnswers } from './kept-answers.ts';
import type { Statistics } from './key-statistics.ts';
import type { QuotaLog } from './quota-log.ts';
import { isApiAddress, missExplainer, SERVED, type Served } from './routing.ts';
import { missingRoutes } from './variant.ts';

/**
 * The steps of every request, in this order: credentials (401), quota (429), version (400), route (404, 405), body size (413),
 * rights (403), workspace (403), schemas (400), handler, `ETag`. 401 and 429 count nothing; every request that passes both is
 * counted, however it ends (W72), and its answer waits until the count is durable.
 */
export interface PipelineDeps {
  readonly service: Service;
  readonly handlers: Handlers<RouteName>;
  readonly quotaLog: QuotaLog;
  readonly statistics: Statistics;
  readonly faults?: Faults;
  /** Returns the beginning of the service's addresses for the sender of this request, without a slash at the end. */
  readonly originFor: (request: ServerRequest) => string;
  readonly trustedProxies?: readonly string[];
}

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

export function createPipeline(deps: PipelineDeps): Server {
  const server = createServer({
    bodyLimit: LIMITS.jsonBody,
    requestTimeout: REQUEST_TIMEOUT,
    trustedProxies: deps.trustedProxies,
    failureBody: (status, message) => errorBody(status, message, 'bad_request'),
  });
  if (deps.faults) addFaults(server, deps.faults);
  server.decorateRequest('admission', null);
  const { variant } = deps.service;
  const versionHeader = versionHeaderOf(variant.headerPrefix);
  const missing = missingRoutes(variant);
  const served = SERVED.filter(({ name }) => !missing.has(name));
  const explainMiss = missExplainer(served);
  server.addHook('onRequest', (request) => admit(deps, request, versionHeader));
  server.setNotFoundHandler((request) => {
    throw explainMiss(request.url);
  });
  server.setErrorHandler((error, request, reply) => refuse(deps, error, request, reply));
  const kept = createKeptAnswers(() => deps.service.commits.count());
  for (const each of served) addRoute(server, deps, each, kept);
  addFileTransfer(server, deps.service, (request) => enter(deps, request, 'any'));
  addReference(server, variant);
  return server;
}

async function admit(deps: PipelineDeps, request: ServerRequest, versionHeader: string): Promise<void> {
  if (!isApiAddress(request.url) || OPEN_ADDRESSES.has(request.routeOptions.url)) return;
  const found = deps.service.access.authenticate(request.headers.authorization);
  const caller = found instanceof Promise ? await found : found;
  (request as unknown as Admitted).admission = { caller, counted: count(deps, caller) };
  checkVersion(request.headers, versionHeader);
}

/** API keys share their workspace's quota; OAuth tokens have none (W72, W73). Throws 429. */
function count(deps: PipelineDeps, caller: Caller): Promise<void> | undefined {
  if (caller.kind !== 'key' || caller.workspaceId === null) return undefined;
  try {
    const counted = deps.quotaLog.take(caller.workspaceId);
    deps.statistics.accepted(caller.credentialId);
    return counted;
  } catch (error) {
    deps.statistics.refused(caller.credentialId);
    throw error;
  }
}

function addRoute(server: Server, deps: PipelineDeps, { name, route, url }: Served, kept: KeptAnswers): void {
  const handler = deps.handlers[name] as (call: unknown) => Promise<Answer<unknown>>;
  server.route({
    method: route.method,
    url,
    handler: async (request, reply) => {
      const { counted, ...entered } = await enter(deps, request, route.access);
      const key = KEPT_ROUTES.has(name) ? `${entered.workspaceId} ${request.url}` : undefined;
      const present = key === undefined ? undefined : kept.find(key);
      if (present !== undefined) {
        await counted;
        return giveRead(request, reply, present);
      }
      const query = checkQuery(route, request.query);
      const body = checkBody(route, request.body, request.headers['content-type']);
      const origin = deps.originFor(request);
      const before = deps.service.commits.count();
      const ifMatch = request.headers['if-match'];
      const answer = await handler({ ...entered, origin, query, body, ifMatch });
      await counted;
      if (request.method !== 'GET') return giveWritten(reply, answer);
      const read = readAnswerOf(answer);
      if (key !== undefined) kept.keep(key, before, read);
      return giveRead(request, reply, read);
    },
  });
}

/** Checks rights, ids and workspace of an admitted request. */
async function enter(deps: PipelineDeps, request: ServerRequest, access: Route['access']) {
  const { caller, counted } = (request as unknown as Admitted).admission!;
  if (access === 'admin') requireAdmin(caller);
  if (access === 'user') requireUser(caller);
  const { workspaceId: named, ...ids } = checkIds(request.params as Record<string, string>);
  const workspaceId = await resolveWorkspace(deps.service.database, caller, named);
  return { caller, counted, workspaceId, ids };
}

/** A text that cannot be an id names nothing. */
function checkIds(parameters: Record<string, string>): Record<string, string> {
  for (const id of Object.values(parameters)) if (!ID_PATTERN.test(id)) throw notFound('address');
  return parameters;
}

function giveWritten(reply: ServerReply, { status, body }: Answer<unknown>): ServerReply {
  if (body === undefined) return reply.code(status).send();
  return reply.code(status).header('content-type', JSON_TYPE).send(JSON.stringify(body));
}

/** Every read answers 200 with a body. */
function readAnswerOf(answer: Answer<unknown>): KeptAnswer {
  const body = JSON.stringify(answer.body);
  return { body, etag: etagOf(body) };
}

function giveRead(request: ServerRequest, reply: ServerReply, { body, etag }: KeptAnswer): ServerReply {
  reply.header('content-type', JSON_TYPE).header('etag', etag);
  if (isNotModified(request.headers['if-none-match'], etag)) return reply.code(304).send();
  return reply.code(200).send(body);
}

async function refuse(deps: PipelineDeps, error: unknown, request: ServerRequest, reply: ServerReply): Promise<void> {
  const refusal = await settled(deps, error, request);
  reply
    .code(refusal.status)
    .headers(refusal.headers)
    .header('content-type', JSON_TYPE)
    .send(JSON.stringify(errorBody(refusal.status, refusal.message, refusal.errorCode)));
}

/** Returns the refusal once the request's count is durable; if it cannot be made durable, returns that failure. */
async function settled(deps: PipelineDeps, error: unknown, request: ServerRequest): Promise<ApiError> {
  try {
    await (request as unknown as Admitted).admission?.counted;
    return refusalOf(deps, error);
  } catch (failure) {
    return refusalOf(deps, failure);
  }
}

/** Hides the details of a fault from the client; the log has them. */
function refusalOf({ service }: PipelineDeps, error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { statusCode: status, message } = error as { statusCode?: number; message: string };
  if (status === 413) return new ApiError('payload_too_large', `a body has at most ${LIMITS.jsonBody} bytes`);
  if (status !== undefined && status < 500) return new ApiError('bad_request', message);
  service.logger.error({ err: error }, 'a request failed');
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
