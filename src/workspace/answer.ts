import type { ErrorCode } from '../errors/codes.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import { parseJson } from '../http/parse-json.ts';
import { errorObject, type Route } from './contract.ts';
import type { ApiRequest, ApiResponse } from './exchange.ts';

const SECOND = 1_000;
/** A hint outside these bounds is taken as the nearer one: a server cannot stop us for longer than its long window. */
const SHORTEST_WAIT = SECOND;
const LONGEST_WAIT = 900 * SECOND;

/** Pure: the body of a success as the contract has it. Throws `answer_malformed`. */
export function readBody(route: Route, body: Uint8Array): unknown {
  if (route.response === undefined) return undefined;
  const parsed = route.response.safeParse(parseBody(body));
  if (parsed.success) return parsed.data;
  const places = parsed.error.issues.map((issue) => issue.path.join('.')).join(', ');
  throw new SyncError('answer_malformed', `fields of the answer are missing or invalid: ${places}`);
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
  429: 'rate_limited',
};

/** What an answer outside 2xx means. Decided by status alone; `errorCode` is passed on, the message is for people. */
export function failureOf(response: ApiResponse, request: ApiRequest): SyncError {
  const told = readErrorObject(response.body);
  const message = `${nameOf(request)}: ${response.status} ${told?.message ?? 'without an error object'}`;
  return new SyncError(codeOf(response.status), message, {
    status: response.status,
    errorCode: told?.errorCode,
    hint: REMEDY_OF[told?.errorCode ?? ''],
    retryAfter: response.status === 429 ? retryAfter(response, told?.message) : undefined,
  });
}

/** Where the workspace's own code tells more than the status: what helps. */
const REMEDY_OF: Readonly<Record<string, string>> = {
  provider_not_connected:
    'The member behind this credential has no token at the provider that works: store one with "worksync workspace connect-provider".',
};

function codeOf(status: number): ErrorCode {
  const named = CODE_OF[status];
  if (named !== undefined) return named;
  if (status >= 500) return 'server_failed';
  return status >= 400 ? 'refused' : 'answer_malformed';
}

/** Tolerant: a proxy in between answers what it likes. */
const toldBy = errorObject.partial({ code: true, errorCode: true });

function readErrorObject(body: Buffer): { message: string; errorCode?: string } | undefined {
  try {
    return toldBy.parse(parseJson(body));
  } catch {
    return undefined;
  }
}

/**
 * The delay that the server asks for, milliseconds, bounded: `Retry-After` in seconds, else `<n>` of the message
 * (W68). It is a hint only; undefined where there is none.
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
