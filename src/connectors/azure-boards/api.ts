import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer, HttpRequest } from '../../http/client.ts';
import type { Shape } from '../../lib/shape.ts';
import type { ConnectionDeps } from '../connector.ts';
import { readAnswer } from '../kit/json.ts';
import { askedWait, refusal } from './answers.ts';
import { apiBase, type Options } from './options.ts';

/** A page of 200 work items, each with a description of some hundred kilobytes at the most. */
const LARGEST_ANSWER = 32 * 1024 * 1024;
const VERSION = '7.1';

type Query = Readonly<Record<string, string>>;

/** The REST API of one organisation. Everything but success is thrown. */
export interface Api {
  /**
   * Gets a path and reads its JSON.
   *
   * @param keep what is needed of it: see `HttpRequest`
   */
  get(path: string, query: Query, signal: AbortSignal, keep?: Shape): Promise<Answered>;
  /** Sends JSON, or a JSON Patch; resolves with the JSON of the answer, or undefined where it has none. */
  send(request: Send, signal: AbortSignal): Promise<unknown>;
}

interface Send {
  readonly method: 'POST' | 'PUT' | 'PATCH';
  readonly path: string;
  readonly query?: Query;
  readonly body: object;
}

export interface Answered {
  readonly content: unknown;
  readonly answer: HttpAnswer;
}

/**
 * Azure slows down who uses much, and says so by `Retry-After` on good answers too: what was asked is answered, and the
 * next request waits.
 */
export function createApi(options: Options, deps: ConnectionDeps): Api {
  const base = apiBase(options);
  let quietUntil = 0;

  async function ask(request: Omit<HttpRequest, 'target'>, path: string): Promise<HttpAnswer> {
    const left = quietUntil - deps.clock.monotonic();
    if (left > 0)
      throw new SyncError('rate_limited', 'Azure DevOps asked for a pause with its last answer', { retryAfter: left });
    const answer = await deps.http.request({ ...request, target: 'azure-boards' });
    const asked = askedWait(answer, deps.clock.now());
    if (asked !== undefined) quietUntil = deps.clock.monotonic() + asked;
    if (answer.status === 200 || answer.status === 201 || answer.status === 204) return answer;
    throw refusal(answer, `${request.method} ${path}`, deps.clock.now());
  }

  const address = (path: string, query: Query) =>
    `${base}${path}?${new URLSearchParams({ 'api-version': VERSION, ...query }).toString()}`;

  return {
    async get(path, query, signal, keep) {
      const headers = headersOf(options);
      const url = address(path, query);
      const answer = await ask({ method: 'GET', url, headers, signal, keep, largestAnswer: LARGEST_ANSWER }, path);
      return { content: readAnswer(answer, `GET ${path}`), answer };
    },
    async send({ method, path, query = {}, body }, signal) {
      const type = Array.isArray(body) ? 'application/json-patch+json' : 'application/json';
      const headers = { ...headersOf(options), 'content-type': type };
      const answer = await ask(
        { method, url: address(path, query), headers, body: JSON.stringify(body), signal },
        path,
      );
      return answer.body.length === 0 ? undefined : readAnswer(answer, `${method} ${path}`);
    },
  };
}

/** A token goes as the password of nobody; without a redirect to the page for signing in. */
function headersOf({ token, accessToken }: Options): Record<string, string> {
  const basic = token === undefined ? undefined : `Basic ${Buffer.from(`:${token}`).toString('base64')}`;
  const authorization = basic ?? (accessToken === undefined ? undefined : `Bearer ${accessToken}`);
  return {
    accept: 'application/json',
    'user-agent': 'worksync',
    'x-tfs-fedauthredirect': 'Suppress',
    ...(authorization === undefined ? {} : { authorization }),
  };
}

/** For answers that are not what the reference of the API promises. */
export function malformed(what: string): SyncError {
  return new SyncError('answer_malformed', what);
}
