// Design: src/decisions/pages-and-admin.md

import { NOBODY } from '../../admin/access/audit.ts';
import type { Actor } from '../../admin/open-workspace.ts';
import { type Identity, isSignedBody, type Signed } from '../../cluster/replicas.ts';
import { canAccess } from '../../model/caller.ts';
import { SyncError } from '../../model/errors.ts';
import { USER_HEADER } from '../../platform/http/daemon-client.ts';
import { isSafe } from '../../platform/http/http-client.ts';
import type { Addressed, RouteAccess, RouteNeeds } from '../../platform/http/origin.ts';
import type { Server, ServerReply, ServerRequest } from '../../platform/http/server.ts';
import { isSameSecret } from '../../platform/lib/digest.ts';
import { asTyped, OWN_COMMAND } from '../../platform/lib/own-program.ts';
import type { Logger } from '../../platform/lib/telemetry.ts';
import { type Elsewhere, forwardRequest } from '../forward-request.ts';
import { sendPage } from '../html-document.ts';
import { loginPage, REFUSALS, type Refusal, refusalPage } from './access-refusals.ts';
import type { Caller, Callers, LoggedIn, Sessions } from './callers.ts';

export interface AccessOptions {
  readonly callers: Callers;
  readonly sessions: Sessions;
  /** The workspace that a gateway token is for; undefined where there is no such token. */
  readonly gatewayToken: (secret: string) => Promise<{ readonly id: string; readonly workspace: string } | undefined>;
  /** The host and the origin that a request names, and its connection. */
  readonly addressed: (request: ServerRequest) => Addressed;
  /** Metrics answer to everybody. */
  readonly openMetrics?: boolean;
  /** Whether sessions are also accepted over connections that others can read. */
  readonly insecurePages?: boolean;
  /** Absent: no other process works on these workspaces. */
  readonly elsewhere?: Elsewhere | undefined;
  readonly logger: Logger;
}

export interface GuardedRoute {
  readonly method: string;
  readonly url: string;
  readonly needs: RouteNeeds;
}

const CALLER = 'caller';
/** Checks an admitted request again. */
const AGAIN = 'admittedAgain';
const SIGNED = 'signed';

/** Headers of every answer that a browser may get. Our forms must send their origin, hence the referrer policy. */
const HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

const A_YEAR = 31_536_000;

/** The caller: known in every handler of a route that is not public. */
export function callerOf(request: ServerRequest): Caller {
  const caller = request.getDecorator<Caller | null>(CALLER);
  if (caller === null) throw new SyncError('internal', 'a route asks for its caller and is open to everybody');
  return caller;
}

/** Returns the caller of a request that another process of the installation forwarded; undefined if none did. */
export function signedBy(request: ServerRequest): Identity | undefined {
  return request.getDecorator<Signed | null>(SIGNED)?.identity;
}

/**
 * Whether the caller of a long request may still get its answer: the session or the token may have ended meanwhile. Its present
 * rights decide.
 */
export async function isStillIn(request: ServerRequest): Promise<boolean> {
  const again = request.getDecorator<(() => Promise<Refusal | undefined>) | null>(AGAIN);
  return again !== null && (await again()) === undefined;
}

/** Returns the author of a change, for the audit. A command states its own user. */
export function actorOf(request: ServerRequest): Actor {
  const { session, token, role } = callerOf(request);
  if (session) return `session ${shortOf(session)} (${role})`;
  if (!token) return NOBODY;
  const user = request.headers[USER_HEADER];
  if (token.isOwn)
    return `command ${typeof user === 'string' && USER.test(user) ? decodeURIComponent(user) : ''}`.trim();
  return `token ${shortOf(token)} (${role})`;
}

/** A name as `encodeURIComponent` writes it. */
const USER = /^(?:[\w.!~*'()-]|%[2-7][0-9A-E]){1,100}$/;

/** The digest of the credential that a request shows: one for all requests of a browser that is logged in, or of a token. */
export function credentialOf(request: ServerRequest): string {
  const { session, token } = callerOf(request);
  return (session ?? token)?.digest ?? '';
}

function shortOf({ digest }: { readonly digest: string }): string {
  return digest.slice(0, 8);
}

/**
 * The one place that decides on access. Each route declares its needs (`RouteNeeds`); a route without them, or that does not
 * exist, is for administrators. The origin of a connection proves nothing.
 *
 * A caller shows a token (`Authorization: Bearer`), or the cookie of a session. It gets 401 without a valid one, 429 if its
 * address sent too many wrong ones, 403 if it lacks the right.
 *
 * A browser sends its cookie with requests of other sites' pages too. So a session is only accepted under a name of ours (a page
 * may point its own name to this machine) and over a connection that nobody else can read; requests from pages of another origin
 * are refused; and a change also needs the token that only our pages contain. There is no CORS.
 *
 * Returns the routes, as they are added.
 */
export function guardRoutes(server: Server, options: AccessOptions): readonly GuardedRoute[] {
  const routes: GuardedRoute[] = [];
  server.decorateRequest(CALLER, null);
  server.decorateRequest(AGAIN, null);
  server.decorateRequest(SIGNED, null);
  server.addHook('onRoute', ({ method: methods, config, url }) => {
    for (const method of [methods].flat()) routes.push(guarded({ method, url, needs: config ?? {} }));
  });
  // Creates no promise if no check is needed: most requests are deliveries, or go through the gateway.
  server.addHook('onRequest', (request, reply, goOn) => {
    const { access = 'admin', ...needs } = needsOf(request);
    // No browser sends these requests, and each delivery pays for the headers of its answer.
    if (access === 'webhook') return goOn();
    reply.headers(HEADERS);
    if (request.protocol === 'https') reply.header('strict-transport-security', `max-age=${A_YEAR}`);
    const signed = options.elsewhere?.replicas.verify(request);
    if (signed === 'wrong') return void refuse(request, reply, 'no_replica');
    if (signed) request.setDecorator(SIGNED, signed);
    if (access === 'public') return goOn();
    const decide = () =>
      signed
        ? admitPassedOn(request, { access, ...needs }, signed.identity, options)
        : admit(request, { access, ...needs }, options);
    request.setDecorator(AGAIN, decide);
    decide().then(
      (refusal) => (refusal === undefined ? goOn() : refuse(request, reply, refusal)),
      (error: Error) => goOn(error),
    );
  });
  server.addHook('preHandler', (request, reply, goOn) => {
    const refusal = refusalOfBody(request);
    if (refusal) return void refuse(request, reply, refusal);
    const { elsewhere } = options;
    const caller = request.getDecorator<Caller | null>(CALLER);
    // One hop: a forwarded request is answered here.
    if (!elsewhere || !caller || request.getDecorator(SIGNED) !== null) return goOn();
    forwardRequest(request, reply, caller, elsewhere).then(
      (isPassed) => (isPassed ? undefined : goOn()),
      (error: Error) => goOn(error),
    );
  });
  answerErrors(server, options.logger);
  return routes;
}

/** A route that gives too much access is a fault of ours, and is found at the start. */
function guarded(route: GuardedRoute): GuardedRoute {
  const { method, url, needs } = route;
  const isForReading = needs.access === 'read' || needs.access === 'metrics' || needs.access === 'gateway';
  if (isForReading && isChange(route))
    throw new SyncError('internal', `${method} ${url}: a route for readers must not change anything`);
  return route;
}

function refusalOfBody(request: ServerRequest): Refusal | undefined {
  const signed = request.getDecorator<Signed | null>(SIGNED);
  if (signed && !isSignedBody(signed, request.body)) return 'no_replica';
  if (!isChange(request) || !needsOf(request).form) return undefined;
  const session = request.getDecorator<Caller | null>(CALLER)?.session;
  return !session || isPageToken(session, formOf(request).get('page')) ? undefined : 'stale_page';
}

/** Uses the matched route and not the text of the address, because a path has many spellings. */
function needsOf(request: ServerRequest): RouteNeeds {
  if (!request.is404) return request.routeOptions.config;
  // Without a route, the address only answers 404.
  return /^\/api\/v1(?:[/?]|$)/.test(request.url) ? { access: 'public' } : {};
}

/** Whether another process forwarded the request, which is then answered for this process alone. */
export function isPassedOn(request: ServerRequest): boolean {
  return request.getDecorator(SIGNED) !== null;
}

type Needs = RouteNeeds & { readonly access: RouteAccess };

/** The caller of open metrics. */
const EVERYBODY: Caller = { role: 'read', workspaces: null };

async function admit(request: ServerRequest, needs: Needs, options: AccessOptions): Promise<Refusal | undefined> {
  const addressed = options.addressed(request);
  if (needs.access === 'login') return admitStranger(request, addressed);
  if (needs.access === 'gateway') return admitJob(request, options);
  if (needs.access === 'replica') return 'no_replica';
  const isOpen = needs.access === 'metrics' && options.openMetrics;
  const caller = isOpen ? EVERYBODY : await identify(request, addressed, options);
  if (typeof caller === 'string') return caller;
  request.setDecorator(CALLER, caller);
  return refusalOfRights(request, needs, caller) ?? refusalOfChange(request, needs, caller, addressed);
}

/**
 * Accepts a caller that another process has admitted, and checks its rights again. The other process has checked what a browser
 * must show.
 */
async function admitPassedOn(
  request: ServerRequest,
  needs: Needs,
  identity: Identity,
  { elsewhere }: AccessOptions,
): Promise<Refusal | undefined> {
  const { role, workspaces, session, token, gatewayToken } = identity;
  if (!(await elsewhere?.isStillKnown(identity))) return 'unauthorized';
  if (needs.access === 'login' || (needs.access === 'gateway') !== (gatewayToken !== undefined)) return 'unauthorized';
  const access = { role, workspaces };
  const caller: Caller = {
    ...{ ...access, gatewayToken },
    session: session && { ...access, ...session },
    token: token && { ...access, ...token },
  };
  request.setDecorator(CALLER, caller);
  return needs.access === 'gateway' ? undefined : refusalOfRights(request, needs, caller);
}

/** A login must come from a page of ours. */
function admitStranger(request: ServerRequest, { origin }: Addressed): Refusal | undefined {
  if (origin === undefined) return 'foreign_host';
  if (!isChange(request)) return undefined;
  if (request.headers.origin !== origin) return 'foreign_origin';
  return isForm(request) ? undefined : 'unsupported_type';
}

/** Admits a job with a gateway token and nothing else. Such tokens cannot be guessed, so a wrong one locks no address out. */
async function admitJob(request: ServerRequest, { gatewayToken }: AccessOptions): Promise<Refusal | undefined> {
  const secret = bearerOf(request);
  const token = secret === undefined ? undefined : await gatewayToken(secret);
  if (!token) return 'no_gateway_token';
  request.setDecorator(CALLER, {
    role: 'read',
    workspaces: [token.workspace],
    gatewayToken: token.id,
  } satisfies Caller);
  return undefined;
}

function bearerOf({ headers }: ServerRequest): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1];
}

async function identify(
  request: ServerRequest,
  { origin, isTls, isPrivate }: Addressed,
  { callers, sessions, insecurePages }: AccessOptions,
): Promise<Caller | Refusal> {
  const { authorization, cookie } = request.headers;
  if (authorization !== undefined) {
    const secret = bearerOf(request);
    const found = secret === undefined ? 'wrong' : callers.bearer(secret, request.ip);
    if (found === 'wrong') return 'unauthorized';
    if (found === 'limited') return 'too_many';
    return { role: found.role, workspaces: found.workspaces, token: found };
  }
  if (origin === undefined) return 'foreign_host';
  const session = await sessions.find(cookie, isTls);
  if (session === undefined) return 'unauthorized';
  return isPrivate || insecurePages ? { ...session, session } : 'insecure';
}

function refusalOfRights({ params }: ServerRequest, { access, filters }: Needs, caller: Caller): Refusal | undefined {
  if (access === 'session') return caller.session ? undefined : 'unauthorized';
  if (access === 'admin' && caller.role !== 'admin') return 'read_only';
  if (caller.workspaces === null || filters) return undefined;
  const { workspace } = params as { readonly workspace?: string };
  return workspace !== undefined && canAccess(caller, workspace) ? undefined : 'limited';
}

function refusalOfChange(
  request: ServerRequest,
  { form }: Needs,
  { session }: Caller,
  { origin }: Addressed,
): Refusal | undefined {
  const given = request.headers.origin;
  if (given !== undefined && given !== origin) return 'foreign_origin';
  if (!isChange(request)) return undefined;
  if (session && given === undefined) return 'foreign_origin';
  if (form ? !isForm(request) : !isJson(request)) return 'unsupported_type';
  // A form has the token among its fields, which are not read yet.
  if (!session || form) return undefined;
  return isPageToken(session, request.headers['x-page-token']) ? undefined : 'stale_page';
}

function isChange({ method }: { readonly method: string }): boolean {
  return !isSafe(method);
}

const JSON_TYPE = /^application\/json(?:; *charset=utf-8)?$/i;
const FORM_TYPE = /^application\/x-www-form-urlencoded(?:; *charset=utf-8)?$/i;

function isJson({ headers }: ServerRequest): boolean {
  return JSON_TYPE.test(headers['content-type'] ?? '');
}

function isForm({ headers }: ServerRequest): boolean {
  return FORM_TYPE.test(headers['content-type'] ?? '');
}

/** The fields of a form that one of our pages sent. */
export function formOf({ body }: ServerRequest): URLSearchParams {
  return new URLSearchParams(Buffer.isBuffer(body) ? body.toString() : '');
}

function isPageToken({ pageToken }: LoggedIn, given: unknown): boolean {
  return typeof given === 'string' && isSameSecret(given, pageToken);
}

/** Answers programs with JSON, and people who open an address with a page. */
function refuse(request: ServerRequest, reply: ServerReply, code: Refusal): ServerReply {
  const { status, message } = REFUSALS[code];
  reply.code(status);
  if (status === 401) reply.header('www-authenticate', 'Bearer');
  if (status === 429) reply.header('retry-after', '10');
  if (!(request.headers.accept ?? '').includes('text/html'))
    return reply.send({ error: code, message: asTyped(message, OWN_COMMAND, []) });
  return sendPage(reply, code === 'unauthorized' ? loginPage() : refusalPage(message));
}

/** Keeps the text of an error in the log, because it may contain anything. */
function answerErrors(server: Server, logger: Logger): void {
  server.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'not_found' }));
  server.setErrorHandler((error, request, reply) => {
    const status = (error as { statusCode?: number }).statusCode ?? 500;
    if (status < 500) return reply.code(status).send({ error: 'refused' });
    logger.error({ error, route: request.routeOptions.url }, 'request failed');
    return reply.code(status).send({ error: 'internal' });
  });
}
