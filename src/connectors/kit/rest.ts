import { type ZodType, z } from 'zod';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { type HttpAnswer, type HttpRequest, isSuccess } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import { withoutEnd } from '../../platform/lib/text.ts';
import type { AccessTokens, ConnectionDeps } from '../connector.ts';
import { parseAnswer, readAnswer } from './payload.ts';
import { type Budget, type RateLimitUse, type Refusals, redirectTarget, refusalOf } from './refusal.ts';
import { pagesOf } from './walk.ts';

/** Bytes. Enough for a page of 100 or more items, each with a description of some hundred kilobytes, the longest that a provider accepts. */
const LARGEST_ANSWER = 32 * 1024 * 1024;
const JSON_BODY = { 'content-type': 'application/json' };

type Query = Readonly<Record<string, string>>;
type Keep = Shape | true;

interface RestOptions {
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
    async send(
      method: HttpRequest['method'],
      path: string,
      body: object,
      signal: AbortSignal,
      query: Query = {},
    ): Promise<unknown> {
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

/** The lifetime of a cached value, milliseconds. Lists, names and workflows change seldom. */
const REFRESH_AFTER = 12 * 60_000;

/**
 * Creates a cache by name, which reloads a value when it is old. If a temporary failure prevents that, it returns the old value,
 * and the next call tries again.
 */
export function createCache<Value>(
  clock: Clock,
  load: (name: string, signal: AbortSignal) => Promise<Value>,
  refreshAfter = REFRESH_AFTER,
): (name: string, signal: AbortSignal) => Promise<Value> {
  const entries = new Map<string, { readonly value: Value; readonly until: number }>();
  return async (name, signal) => {
    const cached = entries.get(name);
    if (cached && clock.monotonic() < cached.until) return cached.value;
    try {
      const value = await load(name, signal);
      entries.set(name, { value, until: clock.monotonic() + refreshAfter });
      return value;
    } catch (thrown) {
      if (!cached || asSyncError(thrown).verdict !== 'retry' || signal.aborted) throw thrown;
      return cached.value;
    }
  };
}

/** Creates such a cache for one value, such as a list. */
export function createListing<Value>(
  clock: Clock,
  load: (signal: AbortSignal) => Promise<Value>,
  refreshAfter = REFRESH_AFTER,
): (signal: AbortSignal) => Promise<Value> {
  const cache = createCache(clock, (_, signal) => load(signal), refreshAfter);
  return (signal) => cache('', signal);
}

/** The pages of a list with their validators. */
export type Memory<Page> = ReturnType<typeof createMemory<Page>>;

/** Creates a memory for the lifetime of the process. A 304 for an unchanged page uses nothing of the vendor's limit. */
export function createMemory<Page>() {
  const pages = new Map<string, { etag: string; page: Page }>();
  return {
    /** Sends the validator of the last answer for this address; returns the remembered page on a 304. */
    async read(
      address: string,
      request: (etag: string | undefined) => Promise<HttpAnswer>,
      parse: (answer: HttpAnswer) => Page,
    ): Promise<Page> {
      const known = pages.get(address);
      const answer = await request(known?.etag);
      if (known && answer.status === 304) return known.page;
      const page = parse(answer);
      const etag = answer.headers['etag'];
      if (etag === undefined) pages.delete(address);
      else pages.set(address, { etag, page });
      return page;
    },
  };
}

/** Calls the function once, at first use, and returns its promise, also if that rejects. */
export function memoize<Result>(request: () => Promise<Result>): () => Promise<Result> {
  let pending: Promise<Result> | undefined;
  return () => (pending ??= request());
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

type Headers = Readonly<Record<string, string>>;

interface GetOptions {
  /** Without the question mark. */
  readonly query?: string | undefined;
  /** Sent as `If-None-Match`; only then is 304 an answer. */
  readonly etag?: string | undefined;
  /** The purpose of the request. Default: `fetch`. */
  readonly use?: RateLimitUse;
  /** The parts of the answer to keep: see `HttpRequest`. */
  readonly keep?: Shape | true | undefined;
  readonly signal: AbortSignal;
}

export interface Page {
  readonly found: readonly unknown[];
  readonly next: string | undefined;
}

/** The HTTP conventions of one git provider. */
export interface ApiDialect {
  readonly target: string;
  /** The address of requests, and the vendor's own address, which its links contain even if requests go through a proxy. */
  readonly bases: readonly [string, string];
  readonly headers: Headers;
  authorization(signal: AbortSignal): Promise<Headers>;
  readonly budget: Budget;
  refusal(answer: HttpAnswer, what: string, now: number): SyncError;
  /**
   * Whether to send the request once more with another authorization, because the vendor has not carried it out. Called with
   * each answer, so that the vendor can record, for example, that its credential is no longer valid.
   */
  needsNewAuthorization?(answer: HttpAnswer): boolean;
  /** Whether a linked path leads to the same list as the requested path. */
  isSame(linked: string, path: string): boolean;
  /** Whether the target of a redirect is the requested object under a new path. Absent: worksync follows no redirect. */
  isMoved?(target: string, path: string): boolean;
  /** Reads one page of a list. Throws `answer_malformed`. */
  pageOf(answer: HttpAnswer, request: { readonly path: string; readonly query: string }): Page;
  /** Returns the query of the first page of a list, if the vendor needs more than the caller's query. */
  firstQuery?(query: string | undefined): string;
}

export type Api = ReturnType<typeof createGitApi>;

/** The REST API of one connection, or of one member. */
export function createGitApi(dialect: ApiDialect, { http, clock }: Pick<ConnectionDeps, 'http' | 'clock'>) {
  const { target, bases, budget } = dialect;
  /** Returns the error for an answer that the caller does not expect. */
  const refusal = (answer: HttpAnswer, what: string) => dialect.refusal(answer, what, clock.now());

  async function request(method: Method, path: string, given: Omit<GetOptions, 'use'> & { readonly body?: unknown }) {
    const { query = '', etag, body, keep, signal } = given;
    const send = async () => {
      const answer = await http.request({
        method,
        url: `${bases[0]}${path}${query === '' ? '' : `?${query}`}`,
        headers: {
          ...dialect.headers,
          ...(await dialect.authorization(signal)),
          ...(etag !== undefined && { 'if-none-match': etag }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        keep,
        signal,
        target,
        largestAnswer: LARGEST_ANSWER,
      });
      budget.update(answer);
      return answer;
    };
    const first = await send();
    if (!dialect.needsNewAuthorization?.(first)) return first;
    const answer = await send();
    dialect.needsNewAuthorization(answer);
    return answer;
  }

  function movedPath(answer: HttpAnswer, path: string): string {
    const moved = ownUrl(answer.headers['location'] ?? '', bases)?.pathname;
    if (moved !== undefined && dialect.isMoved?.(moved, path)) return moved;
    throw new SyncError(
      'refused',
      `GET ${path}: status ${answer.status} redirects to ${redirectTarget(answer.headers)}`,
      {
        status: answer.status,
        hint: `worksync does not follow redirects from ${bases[0]} to another place. Check host, apiUrl and the name of the repository in the configuration.`,
      },
    );
  }

  /**
   * Gets a path below the API's base. Resolves with 200, or with 304 to a validator, and throws for anything else. Follows
   * one redirect, to an object that was renamed or transferred. Throws `rate_limited` without a request if the rest of the limit
   * is reserved for more urgent uses.
   */
  async function get(path: string, given: GetOptions): Promise<HttpAnswer> {
    budget.require(given.use ?? 'fetch');
    const first = await request('GET', path, given);
    const isFollowed = isRedirect(first) && dialect.isMoved !== undefined;
    const answer = isFollowed ? await request('GET', movedPath(first, path), given) : first;
    if (answer.status === 200 || (answer.status === 304 && given.etag !== undefined)) return answer;
    throw refusal(answer, `GET ${path}`);
  }

  async function readPage(path: string, given: GetOptions, memory: Memory<Page> | undefined): Promise<Page> {
    const { query = '' } = given;
    const request = (etag?: string) => get(path, { ...given, etag });
    const parse = (answer: HttpAnswer) => dialect.pageOf(answer, { path, query });
    return memory ? memory.read(`${path}?${query}`, request, parse) : parse(await request());
  }

  /**
   * Yields the pages of a list, and requests each page only when the caller needs it. Throws `list_endless` if they do not end.
   *
   * @param memory of earlier pages: an unchanged page uses nothing of the limit
   */
  async function* pages<Element>(element: ZodType<Element>, path: string, given: GetOptions, memory?: Memory<Page>) {
    const first = dialect.firstQuery?.(given.query) ?? given.query ?? '';
    const what = `GET ${path}`;
    const found = pagesOf(what, (query = first) => readPage(path, { ...given, query }, memory));
    for await (const page of found) yield parseAnswer(z.array(element), page, what);
  }

  return {
    get,
    /** Gets a path and parses its JSON by the schema. Throws `answer_malformed`. */
    async read<Content>(expected: ZodType<Content>, path: string, given: GetOptions): Promise<Content> {
      const what = `GET ${path}`;
      return parseAnswer(expected, readAnswer(await get(path, given), what), what);
    },
    pageOf: dialect.pageOf,
    pages,
    all: async <Element>(element: ZodType<Element>, path: string, given: GetOptions, memory?: Memory<Page>) =>
      (await Array.fromAsync(pages(element, path, given, memory))).flat(),
    /** Sends a write once, and follows no redirect. Resolves with 2xx and the `explained` statuses, and throws for any other. */
    async write(
      method: Method,
      path: string,
      given: { readonly body?: unknown; readonly explained?: readonly number[]; readonly signal: AbortSignal },
    ): Promise<HttpAnswer> {
      const { body, explained = [], signal } = given;
      budget.require('fetch');
      const answer = await request(method, path, { body, signal });
      if (isSuccess(answer.status) || explained.includes(answer.status)) return answer;
      throw refusal(answer, `${method} ${path}`);
    },
    refusal,
  };
}

/** Parses a link to another page of the requested list. Throws `answer_malformed` if it leads elsewhere. */
export function linkedUrl({ bases, isSame }: Pick<ApiDialect, 'bases' | 'isSame'>, link: unknown, path: string): URL {
  const url = typeof link === 'string' ? ownUrl(link, bases) : undefined;
  if (url && (url.pathname === path || isSame(url.pathname, path))) return url;
  throw new SyncError('answer_malformed', `GET ${path}: the link to another page leads elsewhere`, {
    hint: 'Check host and apiUrl, and whether it was renamed: the vendor links to another address.',
  });
}

/** Parses a URL as a path below the base with which it begins; undefined if it begins with none. */
function ownUrl(text: string, bases: readonly string[]): URL | undefined {
  const own = bases.find((base) => text.startsWith(`${base}/`));
  if (own === undefined || !URL.canParse(text)) return undefined;
  // Parsing it below a fixed origin resolves dot segments, so that callers compare the real path.
  const below = `https://api.invalid${text.slice(own.length)}`;
  return URL.canParse(below) ? new URL(below) : undefined;
}

function isRedirect({ status }: Pick<HttpAnswer, 'status'>): boolean {
  return status === 301 || status === 302 || status === 307 || status === 308;
}

/** Returns the target of a relation in a `Link` header (RFC 8288, as vendors write it): `<https://…?page=2>; rel="next", <…>; …`. */
export function linkTo(header: string | undefined, rel: string): string | undefined {
  const links = (header ?? '').matchAll(/<([^<>]*)>\s*;\s*rel="?(\w+)"?/g);
  for (const [, target, name] of links) if (name === rel) return target;
  return undefined;
}
