import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer, HttpRequest } from '../../http/client.ts';
import type { Shape } from '../../lib/shape.ts';
import type { ConnectionDeps } from '../connector.ts';
import { readAnswer } from '../kit/json.ts';
import { refusal } from './answers.ts';
import { baseOf, type Options } from './options.ts';

/** A page of 100 issues, each with a description of some hundred kilobytes at the most. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

type Query = Readonly<Record<string, string>>;

/** The REST API of one Redmine. Everything but success is thrown. */
export interface Api {
  /**
   * Gets a path and reads its JSON.
   *
   * @param keep what is needed of it: see `HttpRequest`
   */
  get(path: string, query: Query, signal: AbortSignal, keep?: Shape): Promise<{ content: unknown; answer: HttpAnswer }>;
  put(path: string, body: object, signal: AbortSignal): Promise<void>;
}

export function createApi(options: Options, { http, clock }: ConnectionDeps): Api {
  const base = baseOf(options);
  const headers = {
    accept: 'application/json',
    'user-agent': 'worksync',
    ...(options.apiKey === undefined ? {} : { 'x-redmine-api-key': options.apiKey }),
  };
  async function ask(request: Omit<HttpRequest, 'target'>, path: string): Promise<HttpAnswer> {
    const answer = await http.request({ ...request, target: 'redmine' });
    if (answer.status === 200 || answer.status === 204) return answer;
    throw refusal(answer, `${request.method} ${path}`, clock.now());
  }
  return {
    async get(path, query, signal, keep) {
      const search = new URLSearchParams(query).toString();
      const url = search === '' ? base + path : `${base}${path}?${search}`;
      const answer = await ask({ method: 'GET', url, headers, signal, keep, largestAnswer: LARGEST_ANSWER }, path);
      return { content: readAnswer(answer, `GET ${path}`), answer };
    },
    async put(path, body, signal) {
      const typed = { ...headers, 'content-type': 'application/json' };
      await ask({ method: 'PUT', url: base + path, headers: typed, body: JSON.stringify(body), signal }, path);
    },
  };
}

/** For answers that are not what Redmine's reference promises. */
export function malformed(what: string): SyncError {
  return new SyncError('answer_malformed', what);
}
