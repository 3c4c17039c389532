import type { HttpClient } from '../platform/http/http-client.ts';
import { withoutEnd } from '../platform/lib/text.ts';
import { API_VERSION, type ApiOverrides, VERSION_HEADER } from './contract.ts';
import type { ApiRequest, Send } from './exchange.ts';

/** The part of a context that reaches the wire; the rest is the sender's own. */
export interface Cancellable {
  readonly signal?: AbortSignal;
}

export interface TransportOptions {
  readonly http: HttpClient;
  /** Ends in `/api/v1`; a final `/` is ignored. */
  readonly baseUrl: string;
  /** Read for every request, so that a rotated key is used at once. */
  readonly apiKey: () => string;
  readonly api?: Pick<ApiOverrides, 'versionHeader'>;
  /** Largest answer accepted, bytes: a complete task list may be long. */
  readonly largestAnswer?: number;
}

const LARGEST_ANSWER = 64 * 1024 * 1024;

/** Sends requests with bearer, version and content type (W5, W7, W13). Throws what `HttpClient` throws. */
export function createSend(options: TransportOptions): Send<Cancellable> {
  const base = withoutEnd(options.baseUrl, '/');
  const versionHeader = options.api?.versionHeader ?? VERSION_HEADER;
  return (request, context) =>
    options.http.request({
      method: request.method,
      url: `${base}${request.path}${request.query === undefined ? '' : `?${request.query}`}`,
      headers: {
        ...request.headers,
        authorization: `Bearer ${options.apiKey()}`,
        [versionHeader]: API_VERSION,
        ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      body: bodyOf(request),
      signal: context.signal,
      largestAnswer: options.largestAnswer ?? LARGEST_ANSWER,
      target: 'workspace',
    });
}

function bodyOf(request: ApiRequest): string | undefined {
  return request.body === undefined ? undefined : JSON.stringify(request.body);
}
