import type { ZodType } from 'zod';
import type { HttpAnswer, HttpRequest } from '../../platform/http/http-client.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import type { ConnectionDeps } from '../connector.ts';
import type { Budget } from './budget.ts';
import { parseAnswer, readAnswer } from './json.ts';
import { withAccessToken } from './oauth.ts';
import { type Refusals, refusalOf } from './refusal.ts';

/** A page of 100 items or more, each with a description of some hundred kilobytes at the most. */
const LARGEST_ANSWER = 32 * 1024 * 1024;
const TYPED = { 'content-type': 'application/json' };

type Query = Readonly<Record<string, string>>;

export interface RestOptions {
  /** Name of the vendor in metrics. */
  readonly target: string;
  /** Without a slash at its end. */
  readonly base: string;
  /** The vendor's own, and those of a credential that does not expire. */
  readonly headers: Readonly<Record<string, string>>;
  readonly refusals: Refusals;
  /** Parameters of every request; a request may replace them. */
  readonly query?: Query;
  /** A path as people may see it. */
  shown?(path: string): string;
  /** How much of the limit is left, or a pause that the vendor asked for. */
  readonly budget?: Budget;
}

interface Answered<Content> {
  readonly content: Content;
  readonly answer: HttpAnswer;
}

/** A JSON API over HTTP. Throws for everything but success, with what the vendor says about it. */
export interface Rest {
  /**
   * Gets a path and reads its JSON.
   *
   * @param keep which parts of the JSON to keep: see `HttpRequest`
   */
  get(path: string, query: Query, signal: AbortSignal, keep?: Shape | true): Promise<Answered<unknown>>;
  /** The same, as its schema has it. Throws `answer_malformed`. */
  read<Content>(
    expected: ZodType<Content>,
    path: string,
    query: Query,
    signal: AbortSignal,
    keep?: Shape | true,
  ): Promise<Answered<Content>>;
  /** The same by POST, with the question in JSON. It changes nothing at the vendor. */
  search<Content>(
    expected: ZodType<Content>,
    path: string,
    question: object,
    signal: AbortSignal,
    keep?: Shape | true,
  ): Promise<Answered<Content>>;
  /** Sends JSON, or a JSON Patch where it is a list; resolves with the JSON of the answer, undefined where it has none. */
  send(method: HttpRequest['method'], path: string, body: object, signal: AbortSignal, query?: Query): Promise<unknown>;
}

export function createRest(options: RestOptions, deps: Omit<ConnectionDeps, 'logger'>): Rest {
  const { target, base, refusals, budget, shown = (path) => path, query: always } = options;
  const plain = { accept: 'application/json', 'user-agent': 'worksync', ...options.headers };

  async function ask(path: string, query: Query, request: Omit<HttpRequest, 'target' | 'url'>, signal: AbortSignal) {
    budget?.require('fetch');
    const search = new URLSearchParams({ ...always, ...query }).toString();
    const url = search === '' ? base + path : `${base}${path}?${search}`;
    const send = (authorization: Readonly<Record<string, string>>) =>
      deps.http.request({
        ...request,
        url,
        headers: { ...plain, ...request.headers, ...authorization },
        target,
        signal,
      });
    const answer = deps.accessTokens
      ? await withAccessToken(
          deps.accessTokens,
          (token) => send(bearer(token)),
          ({ status }) => status === 401,
          signal,
        )
      : await send({});
    budget?.learn(answer);
    if (isFine(answer.status)) return answer;
    throw refusalOf(refusals, answer, `${request.method} ${shown(path)}`, deps.clock.now());
  }

  const rest: Rest = {
    async get(path, query, signal, keep) {
      const answer = await ask(path, query, { method: 'GET', keep, largestAnswer: LARGEST_ANSWER }, signal);
      return { content: readAnswer(answer, `GET ${shown(path)}`), answer };
    },
    async read(expected, path, query, signal, keep) {
      const { content, answer } = await rest.get(path, query, signal, keep);
      return { content: parseAnswer(expected, content, `GET ${shown(path)}`), answer };
    },
    async search(expected, path, question, signal, keep) {
      const asked = { method: 'POST', headers: TYPED, body: JSON.stringify(question) } as const;
      const answer = await ask(path, {}, { ...asked, keep, largestAnswer: LARGEST_ANSWER }, signal);
      const what = `POST ${shown(path)}`;
      return { content: parseAnswer(expected, readAnswer(answer, what), what), answer };
    },
    async send(method, path, body, signal, query = {}) {
      const headers = Array.isArray(body) ? { 'content-type': 'application/json-patch+json' } : TYPED;
      const answer = await ask(path, query, { method, headers, body: JSON.stringify(body) }, signal);
      return answer.body.length === 0 ? undefined : readAnswer(answer, `${method} ${shown(path)}`);
    },
  };
  return rest;
}

/** 203 is no success: a proxy on the way has replaced the answer. */
function isFine(status: number): boolean {
  return status === 200 || status === 201 || status === 202 || status === 204;
}

/** The header that carries a token; none where there is no token. */
export function bearer(token: string | undefined): Readonly<Record<string, string>> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

export function basic(user: string, password: string): Readonly<Record<string, string>> {
  return { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` };
}
