import { SyncError } from '../model/errors/sync-error.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import { withoutEnd } from '../platform/lib/text.ts';
import { LARGE } from '../platform/lib/yield.ts';
import { failureOf, readBody, readRaw, unreadable } from './answer.ts';
import {
  type Answered,
  API_VERSION,
  type ApiOverrides,
  fillPath,
  type Parameters,
  ROUTES,
  type Route,
  type RouteName,
  type Routes,
  VERSION_HEADER,
} from './contract.ts';
import type { ApiRequest, ApiResponse, Send } from './exchange.ts';
import type { ReadLarge } from './large-answers.ts';

export interface ApiAnswer<Body> {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
  /** The body as the server wrote it, without defaults. Present for a resource that clients change as a whole. */
  readonly raw?: unknown;
}

/**
 * One method for each route of the contract; each route's own comment names its rules, shapes and errors.
 *
 * A method resolves with a success only. Otherwise it throws `SyncError` with the server's `status` and `errorCode`:
 * `unauthorized` 401, `forbidden` 403, `not_found` 404, `conflict` 409 and 412, `rate_limited` 429 (with `retryAfter`,
 * milliseconds, where the server named a delay), `refused` any other 4xx, `server_failed` 5xx, `answer_malformed` a
 * success that is not what the contract promises; and whatever `send` throws.
 */
export type WorkspaceClient<Context> = {
  readonly [Name in keyof Routes]: (
    parameters: Parameters<Routes[Name]>,
    context: Context,
  ) => Promise<ApiAnswer<Answered<Routes[Name]>>>;
};

export interface ClientOptions<Context> {
  readonly send: Send<Context>;
  /** The workspace's id, or `current` (W2). */
  readonly workspaceId: string;
  /** Paths and methods that this server names differently; the sender handles header names. */
  readonly api?: ApiOverrides;
  /** May leave out unread parts of a large list. Absent: large answers are read like others. */
  readonly readLarge?: ReadLarge;
}

type Given = Readonly<Record<string, unknown>> & {
  readonly query?: object;
  readonly body?: unknown;
  /** Sent as `If-Match`. */
  readonly ifMatch?: string;
};

export function createWorkspaceClient<Context>(options: ClientOptions<Context>): WorkspaceClient<Context> {
  const { readLarge } = options;
  const call = (name: RouteName, route: Route) => async (given: Given, context: Context) => {
    const request = buildRequest(name, route, { ...given, workspaceId: options.workspaceId });
    const response = await options.send(request, context);
    if (response.status < 200 || response.status > 299) throw failureOf(response, request);
    const { status, headers } = response;
    const raw = route.isEditable && status !== 204 ? readRaw(route, response.body) : undefined;
    return { status, headers, body: await read(name, response, request), ...(raw !== undefined && { raw }) };
  };
  const read = async (name: RouteName, response: ApiResponse, request: ApiRequest): Promise<unknown> => {
    const { status, body } = response;
    if (status === 204) return undefined;
    try {
      return body.length > LARGE && readLarge ? await readLarge(name, body) : readBody(ROUTES[name], body);
    } catch (error) {
      throw unreadable(response, request, error);
    }
  };
  const methods = (Object.keys(ROUTES) as RouteName[]).map((name) => [name, call(name, routeOf(name, options.api))]);
  return Object.fromEntries(methods) as WorkspaceClient<Context>;
}

/** Returns the route as this server has it. */
function routeOf(name: RouteName, api: ApiOverrides | undefined): Route {
  return { ...ROUTES[name], ...api?.routes?.[name] };
}

function buildRequest(name: RouteName, route: Route, given: Given): ApiRequest {
  const query = encodeQuery(given.query);
  return {
    method: route.method,
    path: pathOf(route, given),
    ...(query === '' ? {} : { query }),
    headers: { accept: 'application/json', ...(given.ifMatch !== undefined && { 'if-match': given.ifMatch }) },
    ...(route.body === undefined ? {} : { body: given.body }),
    route: name,
  };
}

function pathOf(route: Route, given: Given): string {
  try {
    return fillPath(route.path, given);
  } catch (error) {
    throw new SyncError('refused', error instanceof Error ? error.message : 'an id is not valid', {
      cause: error,
      hint: 'An id consists of 1 to 64 letters, digits, - and _.',
    });
  }
}

export interface Cancellable {
  readonly signal?: AbortSignal;
}

/** The part of a context that reaches the wire; the rest is the sender's own. */
export interface SendContext extends Cancellable {
  /** Header of W3C Trace Context. Absent: none is sent. */
  readonly traceparent?: string | undefined;
}

export interface TransportOptions {
  readonly http: HttpClient;
  /** Ends in `/api/v1`; a final `/` is ignored. */
  readonly baseUrl: string;
  /** Read for every request, so that a rotated key is used at once. */
  readonly apiKey: () => string;
  readonly api?: Pick<ApiOverrides, 'versionHeader'>;
  /** Aborts the requests in flight that have no signal of their own. */
  readonly cut?: AbortSignal;
}

/** Largest answer accepted, bytes: a complete task list may be long. */
const LARGEST_ANSWER = 64 * 1024 * 1024;

/** Sends requests with bearer, version and content type (W5, W7, W13). Throws what `HttpClient` throws. */
export function createSend(options: TransportOptions): Send<SendContext> {
  const base = withoutEnd(options.baseUrl, '/');
  const versionHeader = options.api?.versionHeader ?? VERSION_HEADER;
  return (request, { signal = options.cut, traceparent }) =>
    options.http.request({
      method: request.method,
      url: `${base}${request.path}${request.query === undefined ? '' : `?${request.query}`}`,
      headers: {
        ...request.headers,
        authorization: `Bearer ${options.apiKey()}`,
        [versionHeader]: API_VERSION,
        ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(traceparent !== undefined && { traceparent }),
      },
      body: request.body === undefined ? undefined : JSON.stringify(request.body),
      signal,
      largestAnswer: LARGEST_ANSWER,
      target: 'workspace',
    });
}

/** Encodes query parameters: a list is repeated, `undefined` is left out. Returns '' when nothing is left. */
export function encodeQuery(query: object | undefined): string {
  const encoded = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of [value].flat()) if (one !== undefined) encoded.append(name, String(one));
  }
  return encoded.toString();
}
