import { z } from 'zod';
import type { ErrorCode } from '../model/errors/codes.ts';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import { parseJson } from '../platform/http/parse-json.ts';
import { LARGE } from '../platform/lib/yield.ts';
import { type ApiErrorCode, ERROR_CODES, type Route } from './contract.ts';
import type { ApiRequest, ApiResponse } from './exchange.ts';

const SECOND = 1_000;
/** A hint outside these bounds is taken as the nearer one: a server cannot stop us for longer than its long window. */
const SHORTEST_WAIT = SECOND;
const LONGEST_WAIT = 900 * SECOND;

/** Pure: the body of a success as the contract has it, without what it came wrapped in. Throws `answer_malformed`. */
export function readBody(route: Route, body: Uint8Array): unknown {
  if (route.response === undefined) return undefined;
  const parsed = route.response.safeParse(unwrap(route, parseBody(body)));
  if (parsed.success) return parsed.data;
  const places = parsed.error.issues.map((issue) => issue.path.join('.')).join(', ');
  throw new SyncError('answer_malformed', `fields of the answer are missing or invalid: ${places}`);
}

/** The body of a success as the server wrote it, without what it came wrapped in; undefined if it is no JSON. */
export function readRaw(route: Route, body: Uint8Array): unknown {
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
export function unreadable(response: ApiResponse, request: ApiRequest, thrown: unknown): SyncError {
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
 * Pure: an answer as the contract has it, whatever it came wrapped in. A list may be a bare array, or stand under its name,
 * `items`, `data` or `results`; a single resource may stand under its name. A list gets `nextCursor` where there is a next
 * page, and `isLast`: whether it is the last page, null where the answer does not say so. What fits nothing is returned as it
 * is.
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
  const held = [name, ...ARRAYS].find((field) => Array.isArray(content[field]));
  return held === undefined ? content : { ...content, [name]: content[held], ...pageOf(content) };
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
  const held = content[name];
  const isBare = [`${name}Id`, 'identifier'].some((identity) => Object.hasOwn(content, identity));
  return isObject(held) && !isBare ? held : content;
}

type Fields = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
