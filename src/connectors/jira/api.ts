import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer, HttpRequest } from '../../http/client.ts';
import type { ConnectionDeps } from '../connector.ts';
import { readAnswer } from '../kit/json.ts';
import { refusal } from './answers.ts';
import { apiBase, type Options, tenantBase } from './options.ts';

/** A page of 100 issues, each with a description of some hundred kilobytes at the most. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

type Query = Readonly<Record<string, string>>;

/** The REST API of one connection. Everything but success is thrown. */
export interface Api {
  /** Gets a path and reads its JSON. */
  get(path: string, query: Query, signal: AbortSignal): Promise<Answered>;
  /** Writes; resolves with the JSON of the answer, or undefined where it has none. */
  send(method: 'POST' | 'PUT', path: string, body: object, signal: AbortSignal): Promise<unknown>;
  /** What the site tells everybody about itself, without a credential. */
  tenant(signal: AbortSignal): Promise<unknown>;
}

export interface Answered {
  readonly content: unknown;
  readonly answer: HttpAnswer;
}

export function createApi(options: Options, deps: ConnectionDeps): Api {
  const base = apiBase(options);
  async function ask(request: Omit<HttpRequest, 'target'>): Promise<HttpAnswer> {
    const answer = await deps.http.request({ ...request, target: 'jira' });
    if (answer.status === 200 || answer.status === 201 || answer.status === 204) return answer;
    throw refusal(answer, `${request.method} ${new URL(request.url).pathname}`, deps.clock.now());
  }
  return {
    async get(path, query, signal) {
      const search = new URLSearchParams(query).toString();
      const url = search === '' ? base + path : `${base}${path}?${search}`;
      const answer = await ask({
        method: 'GET',
        url,
        headers: headersOf(options),
        signal,
        largestAnswer: LARGEST_ANSWER,
      });
      return { content: readAnswer(answer, `GET ${path}`), answer };
    },
    async send(method, path, body, signal) {
      const headers = { ...headersOf(options), 'content-type': 'application/json' };
      const answer = await ask({ method, url: base + path, headers, body: JSON.stringify(body), signal });
      return answer.body.length === 0 ? undefined : readAnswer(answer, `${method} ${path}`);
    },
    async tenant(signal) {
      const url = `${tenantBase(options)}/_edge/tenant_info`;
      return readAnswer(await ask({ method: 'GET', url, headers: PLAIN, signal }), 'GET /_edge/tenant_info');
    },
  };
}

const PLAIN = { accept: 'application/json', 'user-agent': 'worksync' };

function headersOf({ email, token }: Options): Record<string, string> {
  if (token === undefined) return PLAIN;
  const authorization =
    email === undefined ? `Bearer ${token}` : `Basic ${Buffer.from(`${email}:${token}`).toString('base64')}`;
  return { ...PLAIN, authorization };
}

/** For answers that are not what Jira's reference promises. */
export function malformed(what: string): SyncError {
  return new SyncError('answer_malformed', what);
}
