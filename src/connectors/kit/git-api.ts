import { type ZodType, z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { redirectTarget } from '../../platform/http/provider-errors.ts';
import { isSuccess } from '../../platform/http/semantics.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import type { ConnectionDeps } from '../connector.ts';
import type { Memory } from './cached-reads.ts';
import { parseAnswer, readAnswer } from './payload.ts';
import type { Budget, RateLimitUse } from './refusal.ts';
import { pagesOf } from './walk.ts';

/** Bytes. Enough for a page of 100 pull requests, each with the longest description that a provider accepts. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

type Headers = Readonly<Record<string, string>>;

export interface GetOptions {
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
