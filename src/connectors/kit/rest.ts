import type { ZodType } from 'zod';
import type { HttpAnswer, HttpRequest } from '../../platform/http/http-client.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import { withoutEnd } from '../../platform/lib/text.ts';
import type { AccessTokens, ConnectionDeps } from '../connector.ts';
import { parseAnswer, readAnswer } from './payload.ts';
import { type Budget, type Refusals, refusalOf } from './refusal.ts';

/** Bytes. Enough for a page of 100 or more items, each with a description of some hundred kilobytes. */
const LARGEST_ANSWER = 32 * 1024 * 1024;
const JSON_BODY = { 'content-type': 'application/json' };

type Query = Readonly<Record<string, string>>;
type Keep = Shape | true;
type Method = HttpRequest['method'];

export interface RestOptions {
  /** Name of the vendor in metrics. */
  readonly target: string;
  /** Without a slash at its end. */
  readonly base: string;
  /** The headers that the vendor requires, and those of a credential that does not expire. */
  readonly headers: Readonly<Record<string, string>>;
  readonly refusals: Refusals;
  /** Parameters of every request; a request may replace them. */
  readonly query?: Query;
  /** Returns a path as messages may show it, without names of people or projects. */
  shown?(path: string): string;
  /** The rest of the rate limit, or a pause that the vendor requires. */
  readonly budget?: Budget;
}

export type Rest = ReturnType<typeof createRest>;

/** A JSON API over HTTP. Every method throws for anything but success; the error contains the vendor's message. */
export function createRest(options: RestOptions, deps: Omit<ConnectionDeps, 'logger'>) {
  const { target, base, refusals, budget, shown = (path) => path, query: commonQuery } = options;
  const commonHeaders = { accept: 'application/json', 'user-agent': 'worksync', ...options.headers };

  async function request(
    path: string,
    query: Query,
    given: Omit<HttpRequest, 'target' | 'url'>,
    signal: AbortSignal,
  ): Promise<HttpAnswer> {
    budget?.require('fetch');
    const search = new URLSearchParams({ ...commonQuery, ...query }).toString();
    const url = search === '' ? base + path : `${base}${path}?${search}`;
    const send = (authorization: Readonly<Record<string, string>>) =>
      deps.http.request({
        ...given,
        url,
        headers: { ...commonHeaders, ...given.headers, ...authorization },
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
    budget?.update(answer);
    if (isAccepted(answer.status)) return answer;
    throw refusalOf(refusals, answer, `${given.method} ${shown(path)}`, deps.clock.now());
  }

  /** @param keep which parts of the JSON to keep: see `HttpRequest` */
  async function get(path: string, query: Query, signal: AbortSignal, keep?: Keep) {
    const answer = await request(path, query, { method: 'GET', keep, largestAnswer: LARGEST_ANSWER }, signal);
    return { content: readAnswer(answer, `GET ${shown(path)}`), answer };
  }

  return {
    get,
    /** Throws `answer_malformed`. */
    async read<Content>(expected: ZodType<Content>, path: string, query: Query, signal: AbortSignal, keep?: Keep) {
      const { content, answer } = await get(path, query, signal, keep);
      return { content: parseAnswer(expected, content, `GET ${shown(path)}`), answer };
    },
    /** Reads a list by a POST request whose JSON body is the search. Changes nothing at the vendor. */
    async search<Content>(expected: ZodType<Content>, path: string, search: object, signal: AbortSignal, keep?: Keep) {
      const body = JSON.stringify(search);
      const given = { method: 'POST', headers: JSON_BODY, body, keep, largestAnswer: LARGEST_ANSWER } as const;
      const answer = await request(path, {}, given, signal);
      const what = `POST ${shown(path)}`;
      return { content: parseAnswer(expected, readAnswer(answer, what), what), answer };
    },
    /** Sends JSON, or a JSON Patch if the body is a list. Resolves with the JSON of the answer, or undefined if it has no body. */
    async send(method: Method, path: string, body: object, signal: AbortSignal, query: Query = {}): Promise<unknown> {
      const headers = Array.isArray(body) ? { 'content-type': 'application/json-patch+json' } : JSON_BODY;
      const answer = await request(path, query, { method, headers, body: JSON.stringify(body) }, signal);
      return answer.body.length === 0 ? undefined : readAnswer(answer, `${method} ${shown(path)}`);
    },
  };
}

/** Returns false for 203 too, because it means that a proxy on the way has replaced the answer. */
function isAccepted(status: number): boolean {
  return status === 200 || status === 201 || status === 202 || status === 204;
}

/**
 * Sends with the current access token, and once more with a new one if the vendor refuses the first: vendors may revoke a
 * token before it expires.
 *
 * @param isRefused whether an answer means that the token is not valid
 */
export async function withAccessToken(
  tokens: AccessTokens,
  send: (token: string) => Promise<HttpAnswer>,
  isRefused: (answer: HttpAnswer) => boolean,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const token = await tokens.get(signal);
  const answer = await send(token);
  if (!isRefused(answer)) return answer;
  tokens.refused(token);
  return send(await tokens.get(signal));
}

/** Returns the header that carries a token; no header if there is no token. */
export function bearer(token: string | undefined): Readonly<Record<string, string>> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

export function basic(user: string, password: string): Readonly<Record<string, string>> {
  return { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` };
}

/** Encodes a text of the vendor as one segment of a path. Replaces halves of surrogate pairs, which no URL can contain. */
export function segmentOf(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/** Removes the slashes at the end of an API URL, so that paths can be appended. */
export function asBase(apiUrl: string): string {
  return withoutEnd(apiUrl, '/');
}
