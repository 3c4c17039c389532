import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer, HttpRequest } from '../../http/client.ts';
import type { Shape } from '../../lib/shape.ts';
import type { ConnectionDeps } from '../connector.ts';
import { readAnswer } from '../kit/json.ts';
import { withAccessToken } from '../kit/oauth.ts';
import { refusal } from './answers.ts';
import { apiBase, type Options, tenantBase } from './options.ts';

/** A page of 100 issues, each with a description of some hundred kilobytes at the most. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

type Query = Readonly<Record<string, string>>;

/** The REST API of one connection. Everything but success is thrown. */
export interface Api {
  /**
   * Gets a path and reads its JSON.
   *
   * @param keep what is needed of it: see `HttpRequest`
   */
  get(path: string, query: Query, signal: AbortSignal, keep?: Shape): Promise<Answered>;
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
  const { accessTokens } = deps;

  /** With the credential of the moment. */
  async function authorised(request: Omit<HttpRequest, 'target'> & { readonly signal: AbortSignal }) {
    const send = (authorization: Record<string, string>) =>
      deps.http.request({ ...request, headers: { ...request.headers, ...authorization }, target: 'jira' });
    if (accessTokens === undefined) return send(fixedCredential(options));
    const bearer = (token: string) => send({ authorization: `Bearer ${token}` });
    return withAccessToken(accessTokens, bearer, ({ status }) => status === 401, request.signal);
  }

  async function ask(request: Parameters<typeof authorised>[0]): Promise<HttpAnswer> {
    return taken(await authorised(request), request);
  }

  function taken(answer: HttpAnswer, request: Pick<HttpRequest, 'method' | 'url'>): HttpAnswer {
    if (answer.status === 200 || answer.status === 201 || answer.status === 204) return answer;
    throw refusal(answer, `${request.method} ${new URL(request.url).pathname}`, deps.clock.now());
  }
  return {
    async get(path, query, signal, keep) {
      const search = new URLSearchParams(query).toString();
      const url = search === '' ? base + path : `${base}${path}?${search}`;
      const answer = await ask({
        method: 'GET',
        url,
        headers: PLAIN,
        signal,
        keep,
        largestAnswer: LARGEST_ANSWER,
      });
      return { content: readAnswer(answer, `GET ${path}`), answer };
    },
    async send(method, path, body, signal) {
      const headers = { ...PLAIN, 'content-type': 'application/json' };
      const answer = await ask({ method, url: base + path, headers, body: JSON.stringify(body), signal });
      return answer.body.length === 0 ? undefined : readAnswer(answer, `${method} ${path}`);
    },
    async tenant(signal) {
      const url = `${tenantBase(options)}/_edge/tenant_info`;
      const request = { method: 'GET', url, headers: PLAIN, signal } as const;
      return readAnswer(
        taken(await deps.http.request({ ...request, target: 'jira' }), request),
        'GET /_edge/tenant_info',
      );
    },
  };
}

const PLAIN = { accept: 'application/json', 'user-agent': 'worksync' };

function fixedCredential({ email, token }: Options): Record<string, string> {
  if (token === undefined) return {};
  const authorization =
    email === undefined ? `Bearer ${token}` : `Basic ${Buffer.from(`${email}:${token}`).toString('base64')}`;
  return { authorization };
}

/** For answers that are not what Jira's reference promises. */
export function malformed(what: string): SyncError {
  return new SyncError('answer_malformed', what);
}
