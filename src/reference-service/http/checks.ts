import type { IncomingHttpHeaders } from 'node:http';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { problemsOf } from '../../workspace-api/contract/value-schemas.ts';
import { API_VERSION, type Route } from '../../workspace-api/contract.ts';
import { ApiError, invalid } from './api-error.ts';

/** An absent version means 2; any other is refused (W6). Throws 400. */
export function checkVersion(headers: IncomingHttpHeaders, name: string): void {
  const version = headers[name.toLowerCase()];
  if (version === undefined || version === API_VERSION) return;
  throw new ApiError('unsupported_api_version', `${name}: only version ${API_VERSION} is served`);
}

/** Query parameters as the route wants them; unknown ones are ignored. Throws 400. */
export function checkQuery(route: Route, query: unknown): unknown {
  return route.query === undefined ? undefined : check(route.query, query);
}

/** The body as the route wants it; unknown fields are ignored. Throws 400. */
export function checkBody(route: Route, body: unknown, contentType: string | undefined): unknown {
  if (route.body === undefined) return undefined;
  if (!isPresent(body)) {
    if (route.body.safeParse(undefined).success) return undefined;
    throw new ApiError('bad_request', 'a JSON body is required');
  }
  if (!/^application\/json\s*(;|$)/i.test(contentType ?? ''))
    throw new ApiError('bad_request', 'Content-Type must be application/json');
  return check(route.body, readJson(body));
}

function isPresent(body: unknown): body is Buffer {
  return Buffer.isBuffer(body) && body.length > 0;
}

function readJson(body: Buffer): unknown {
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) throw new ApiError('bad_request', `malformed JSON: ${error.message}`);
    throw error;
  }
}

function check(schema: NonNullable<Route['body']>, value: unknown): unknown {
  const checked = schema.safeParse(value);
  if (checked.success) return checked.data;
  throw invalid(problemsOf(checked.error));
}
