import { z } from 'zod';
import { asSyncError, type ErrorCode, SyncError } from '../model/errors.ts';
import { itemLinesIn } from '../model/task.ts';
import type { AnswerRoom } from '../platform/http/admission.ts';
import type { HttpAnswer, HttpClient } from '../platform/http/http-client.ts';
import { parseJson } from '../platform/http/parse-json.ts';
import { LARGE } from '../platform/lib/concurrency.ts';
import { keep, type Shape } from '../platform/lib/shape.ts';
import { withoutEnd } from '../platform/lib/text.ts';
import {
  type Answered,
  API_VERSION,
  type ApiErrorCode,
  type ApiOverrides,
  ERROR_CODES,
  fillPath,
  type Parameters,
  ROUTES,
  type Route,
  type RouteName,
  type Routes,
  VERSION_HEADER,
} from './contract.ts';

/** One request as `send` gets it. */
export interface ApiRequest {
  readonly method: Route['method'];
  /** Relative to the base address; starts with `/`; ids are checked and encoded. */
  readonly path: string;
  /** Encoded, without `?`; absent where there is none. */
  readonly query?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Plain JSON value; absent where there is none. */
  readonly body?: unknown;
  readonly route: RouteName;
}

export interface ApiResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Sends a request and returns the answer whatever its status. `context` is the sender's own. */
export type Send<Context> = (request: ApiRequest, context: Context) => Promise<ApiResponse>;

const SECOND = 1_000;
/** A hint outside these bounds is taken as the nearer one: a server cannot stop us for longer than its long window. */
const SHORTEST_WAIT = SECOND;
const LONGEST_WAIT = 900 * SECOND;

/** Pure. Returns the body of a successful answer in the form of the contract, without its envelope. Throws `answer_malformed`. */
export function readBody(route: Route, body: Uint8Array): unknown {
  if (route.response === undefined) return undefined;
  const parsed = route.response.safeParse(unwrap(route, parseBody(body)));
  if (parsed.success) return parsed.data;
  const places = parsed.error.issues.map((issue) => issue.path.join('.')).join(', ');
  throw new SyncError('answer_malformed', `fields of the answer are missing or invalid: ${places}`);
}

/** Returns the body of a successful answer as the server wrote it, without its envelope; undefined if it is no JSON. */
function readRaw(route: Route, body: Uint8Array): unknown {
  if (body.length > LARGE) return undefined;
  try {
    return unwrap(route, parseJson(body));
  } catch {
    return undefined;
  }
}

function parseBody(body: Uint8Array): unknown {
  try {
    return parseJson(body);
  } catch (error) {
    throw new SyncError('answer_malformed', 'the answer is not JSON', { cause: error });
  }
}

/** A success whose body cannot be read. */
function unreadable(response: ApiResponse, request: ApiRequest, thrown: unknown): SyncError {
  const { code, message, cause } = asSyncError(thrown);
  return new SyncError(code, `${nameOf(request)}: ${message}`, { status: response.status, cause });
}

const CODE_OF: Readonly<Record<number, ErrorCode>> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  409: 'conflict',
  412: 'conflict',
  429: 'rate_limited',
  507: 'workspace_full',
};

/**
 * The failure that an answer outside 2xx stands for. A known `errorCode` decides, else the status does; the message is for
 * people only.
 */
export function failureOf(response: ApiResponse, request: ApiRequest): SyncError {
  const body = readErrorObject(response);
  const status = meantStatus(response.status, body?.errorCode);
  const code = codeOf(status);
  const message = `${nameOf(request)}: ${response.status} ${body?.message ?? 'without an error object'}`;
  return new SyncError(code, message, {
    status,
    own: body?.own,
    errorCode: body?.errorCode,
    hint: REMEDY_OF[body?.errorCode ?? ''] ?? keyRemedy(code) ?? remedyOfTaskList(request, status, body?.message),
    retryAfter: status === 429 ? retryAfter(response, body?.message) : undefined,
  });
}

/** Remedies for codes of the workspace that say more than the status. */
const REMEDY_OF: Readonly<Record<string, string>> = {
  provider_not_connected:
    'The member behind this credential has no token at the provider that works: store one with "worksync workspace connect-provider".',
};

/** Returns the remedy if the failure concerns the key of the configuration. */
export function keyRemedy(code: ErrorCode): string | undefined {
  if (code === 'unauthorized')
    return 'The key is wrong or revoked. Create a key in the workspace, and put it where workspace.apiKey reads it, usually the variable WORKSYNC_API_KEY.';
  if (code === 'forbidden')
    return 'The key of workspace.apiKey, usually from the variable WORKSYNC_API_KEY, lacks the right for this.';
  return undefined;
}

/** A refused task list usually means a wrong address or version header. */
function remedyOfTaskList({ route }: ApiRequest, status: number, message = ''): string | undefined {
  if (route !== 'listTasks') return undefined;
  if (status === 404) return 'Correct the base address of the API (workspace.url): it usually ends in /api/v1.';
  return status === 400 && /version/i.test(message)
    ? 'Set workspace.api.versionHeader to the name of the header that the workspace reads the version from.'
    : undefined;
}

/** Statuses that mean the same with every `errorCode`. */
const PLAIN: ReadonlySet<number> = new Set([401, 412, 429]);

function meantStatus(status: number, errorCode: string | undefined): number {
  if (status < 400 || PLAIN.has(status) || errorCode === undefined) return status;
  return Object.hasOwn(ERROR_CODES, errorCode) ? ERROR_CODES[errorCode as ApiErrorCode] : status;
}

function codeOf(status: number): ErrorCode {
  const named = CODE_OF[status];
  if (named !== undefined) return named;
  if (status >= 500) return 'server_failed';
  return status >= 400 ? 'refused' : 'answer_malformed';
}

interface ErrorBody {
  readonly message?: string;
  readonly errorCode?: string;
  /** Gateways in between answer with a `message` alone; only the workspace adds an `errorCode`, or the status as `code`. */
  readonly own: boolean;
}

function readErrorObject({ status, body }: ApiResponse): ErrorBody | undefined {
  try {
    const { code, message, errorCode } = (parseJson(body) ?? {}) as Readonly<Record<string, unknown>>;
    const stated = typeof errorCode === 'string' && errorCode !== '' ? errorCode : undefined;
    const text = typeof message === 'string' ? message : undefined;
    const own = stated !== undefined || (text !== undefined && code !== undefined && Number(code) === status);
    return { own, ...(text !== undefined && { message: text }), ...(stated !== undefined && { errorCode: stated }) };
  } catch {
    return undefined;
  }
}

/**
 * The delay that the server requests, bounded (ms): `Retry-After` in seconds, else `<n>` of the message (W68). It is a hint
 * only; undefined where there is none.
 */
function retryAfter(response: ApiResponse, message: string | undefined): number | undefined {
  const header = response.headers['retry-after']?.trim();
  const seconds = /^\d{1,9}$/.test(header ?? '') ? header : message?.match(/retry in (\d{1,9}) second/)?.[1];
  if (seconds === undefined) return undefined;
  return Math.min(LONGEST_WAIT, Math.max(SHORTEST_WAIT, Number(seconds) * SECOND));
}

function nameOf(request: ApiRequest): string {
  return `${request.method} ${request.path}`;
}

/** Names under which servers put the array of a list, besides the name of the resource. */
const ARRAYS = ['items', 'data', 'results'];

/** Names of the token of the next page. */
const CURSORS = ['nextCursor', 'next_cursor', 'next', 'cursor'];

/**
 * Pure. Converts an answer to the form of the contract by removing its envelope. A list may be a bare array, or the field with its
 * name, `items`, `data` or `results`; a single resource may be the field with its name. A list gets `nextCursor` if there is a next
 * page, and `isLast`: whether it is the last page, null if the answer does not say so. Returns anything else unchanged.
 */
export function unwrap({ response }: Pick<Route, 'response'>, content: unknown): unknown {
  const { object, id } = objectOf(response);
  if (object === undefined) return content;
  if (id !== undefined) return unwrapResource(id, content);
  const list = Object.entries(object.shape).find(([, field]) => field instanceof z.ZodArray)?.[0];
  return list === undefined ? content : unwrapList(list, content);
}

/** The object that a schema describes, whatever prepares its input, and the id of the resource; a list has none. */
function objectOf(schema: unknown): { readonly object?: z.ZodObject; readonly id?: string } {
  if (!(schema instanceof z.ZodType)) return {};
  const id = schema.meta()?.id;
  const { object, ...inner } =
    schema instanceof z.ZodPipe ? objectOf(schema.out) : { object: schema instanceof z.ZodObject ? schema : undefined };
  return { object, ...inner, ...(typeof id === 'string' && { id }) };
}

function unwrapList(name: string, content: unknown): unknown {
  if (Array.isArray(content)) return { [name]: content, isLast: null };
  if (!isObject(content)) return content;
  const field = [name, ...ARRAYS].find((each) => Array.isArray(content[each]));
  return field === undefined ? content : { ...content, [name]: content[field], ...pageOf(content) };
}

/** Where the list goes on. A next page that cannot be requested leaves the list incomplete. */
function pageOf(content: Fields): { readonly nextCursor?: string | null; readonly isLast: boolean | null } {
  const stated = CURSORS.filter((field) => Object.hasOwn(content, field)).map((field) => content[field]);
  const next = stated.find((value) => value !== null && value !== undefined && value !== '');
  if (next !== undefined) {
    const cursor = cursorOf(next);
    return { ...(cursor !== undefined && { nextCursor: cursor }), isLast: false };
  }
  if (content['hasMore'] === true || content['has_more'] === true) return { isLast: false };
  const isStated = stated.length > 0 || content['hasMore'] === false || content['has_more'] === false;
  return { nextCursor: null, isLast: isStated ? true : null };
}

/** A token, or the `cursor` of an address. */
function cursorOf(next: unknown): string | undefined {
  if (typeof next === 'number') return String(next);
  if (typeof next !== 'string') return undefined;
  if (!/^(https?:|\/|\?)/.test(next)) return next;
  return URL.parse(next, 'http://next.invalid')?.searchParams.get('cursor') ?? undefined;
}

function unwrapResource(id: string, content: unknown): unknown {
  if (!isObject(content)) return content;
  const name = id.charAt(0).toLowerCase() + id.slice(1);
  const nested = content[name];
  const isBare = [`${name}Id`, 'identifier'].some((identity) => Object.hasOwn(content, identity));
  return isObject(nested) && !isBare ? nested : content;
}

type Fields = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Reads the body of a success that is too large for the main thread, as `readLargeAnswer` does, in another thread. The caller
 * must not use the bytes afterwards. Throws `answer_malformed`, `over_budget`.
 */
export type ReadLarge = (route: RouteName, body: Buffer) => Promise<unknown>;

/** The fields that the daemon reads of the one list without pages. All other answers are read completely. */
const READ: Readonly<Partial<Record<RouteName, Shape>>> = {
  listTasks: {
    tasks: {
      ...{ taskId: true, key: true, title: true, status: true },
      ...{ workspaceId: true, source: true, createdAt: true, updatedAt: true },
      ...{ description: true, reporterUserId: true },
    },
    ...{ nextCursor: true, isLast: true, unreadable: true },
  },
};

/** Pure. Returns the body as the contract has it, without fields that no code reads. Throws `answer_malformed`. */
export function readLargeAnswer(route: RouteName, body: Uint8Array): unknown {
  const content = readBody(ROUTES[route], body);
  const shape = READ[route];
  const kept = shape === undefined ? content : keep(content, shape);
  return route === 'listTasks' ? withoutTexts(kept as TaskList) : kept;
}

interface TaskList {
  readonly tasks: readonly { readonly description?: unknown }[];
}

/** Keeps the one line of a description that names the item for which the task was made. */
function withoutTexts(list: TaskList): TaskList {
  const tasks = list.tasks.map((task) =>
    typeof task.description === 'string' ? { ...task, description: itemLinesIn(task.description) } : task,
  );
  return { ...list, tasks };
}

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

interface ClientOptions<Context> {
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

/** The largest file that the workspace holds, bytes (W51). */
export const LARGEST_PASSED = 100 * 1024 * 1024;

/** A request as a caller sent it to the gateway, on its way to the workspace. */
export interface PassedRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD';
  /** Below the base address; starts with `/`; as the caller spelled it. */
  readonly path: string;
  /** The query with its `?`; empty if there is none. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  /** The part of the server's budget that the answer takes. */
  readonly room?: AnswerRoom;
  /** The caller's own credential; absent if a gateway token uses the daemon's key. */
  readonly authorization?: string;
  /** The caller for the use of the quota; see `model/caller.ts`. */
  readonly caller: string;
}

export interface PassedAnswer extends HttpAnswer {
  /** The time when the request was sent, epoch milliseconds. */
  readonly sentAt: number;
  /** The revision as of which the answer is true; see `currentRevision` in `store/meta.ts`. */
  readonly asOf: number;
}
