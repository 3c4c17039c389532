import { type ZodType, z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { isSuccess } from '../../platform/http/semantics.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import type { ConnectionDeps } from '../connector.ts';
import type { Memory } from './cached-reads.ts';
import { pagesOf } from './pages.ts';
import { parseAnswer, readAnswer } from './payload.ts';
import type { Budget, Use } from './rate-limit.ts';

/** A page of 100 pull requests, each with the longest description that a provider takes. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

type Headers = Readonly<Record<string, string>>;

export interface GetOptions {
  /** Without the question mark. */
  readonly query?: string | undefined;
  /** Sent as `If-None-Match`; only then is 304 an answer. */
  readonly etag?: string | undefined;
  /** What the request is for; `fetch` unless told. */
  readonly use?: Use;
  /** What is needed of the answer: see `HttpRequest`. */
  readonly keep?: Shape | true | undefined;
  readonly signal: AbortSignal;
}

/** One page of a list, and the query of the next. */
export interface Page {
  readonly found: readonly unknown[];
  readonly next: string | undefined;
}

/** How one git provider speaks HTTP. */
export interface ApiDialect {
  /** Name of the vendor in metrics. */
  readonly target: string;
  /** Where requests go, and the vendor's own address, which its links contain also where requests go through a proxy. */
  readonly bases: readonly [string, string];
  readonly headers: Headers;
  authorization(signal: AbortSignal): Promise<Headers>;
  readonly budget: Budget;
  refusal(answer: HttpAnswer, what: string, now: number): SyncError;
  /**
   * Looks at each answer: it may say, for example, that the credential is no longer valid.
   *
   * @returns whether to send the request once more with another authorization; the vendor has not carried it out
   */
  needsNewAuthorization?(answer: HttpAnswer): boolean;
  /** Whether a path that the vendor linked to means the same list as the requested path. */
  isSame(linked: string, path: string): boolean;
  /** Likewise for the target of a redirect; without this function worksync follows no redirect. */
  isMoved?(target: string, path: string): boolean;
  /** Throws `answer_malformed`. */
  pageOf(answer: HttpAnswer, asked: { readonly path: string; readonly query: string }): Page;
  /** The query of the first page of a list, where the vendor needs more than the caller gave. */
  firstQuery?(query: string | undefined): string;
}

/** The REST API of one connection, or of one member. */
export interface Api {
  /**
   * Gets a path below the API's base. Resolves with 200, or with 304 to a validator, and throws for anything else. Follows
   * one redirect, to what was renamed or transferred. Throws `rate_limited` without a request where the rest of the limit is
   * kept for more urgent uses.
   */
  get(path: string, options: GetOptions): Promise<HttpAnswer>;
  /** The same, read as its schema has it. Throws `answer_malformed`. */
  read<Content>(expected: ZodType<Content>, path: string, options: GetOptions): Promise<Content>;
  pageOf: ApiDialect['pageOf'];
  /**
   * The pages of a list; worksync reads each when the caller asks for it. Throws `list_endless` where they do not end.
   *
   * @param memory of pages that were read before: an unchanged page uses up nothing of the limit
   */
  pages<Element>(
    element: ZodType<Element>,
    path: string,
    options: GetOptions,
    memory?: Memory<Page>,
  ): AsyncGenerator<readonly Element[]>;
  /** All elements of such a list. */
  all<Element>(
    element: ZodType<Element>,
    path: string,
    options: GetOptions,
    memory?: Memory<Page>,
  ): Promise<readonly Element[]>;
  /** Sends a write once, and follows no redirect. Resolves with 2xx and the `explained` statuses, and throws for any other. */
  write(
    method: Method,
    path: string,
    given: { readonly body?: unknown; readonly explained?: readonly number[]; readonly signal: AbortSignal },
  ): Promise<HttpAnswer>;
  /** The error for an answer that the caller cannot explain. */
  refusal(answer: HttpAnswer, what: string): SyncError;
}

export function createGitApi(speech: ApiDialect, { http, clock }: Pick<ConnectionDeps, 'http' | 'clock'>): Api {
  const { target, bases, budget } = speech;
  const refusal = (answer: HttpAnswer, what: string) => speech.refusal(answer, what, clock.now());

  async function ask(method: Method, path: string, given: Omit<GetOptions, 'use'> & { readonly body?: unknown }) {
    const { query = '', etag, body, keep, signal } = given;
    const send = async () => {
      const answer = await http.request({
        method,
        url: `${bases[0]}${path}${query === '' ? '' : `?${query}`}`,
        headers: {
          ...speech.headers,
          ...(await speech.authorization(signal)),
          ...(etag !== undefined && { 'if-none-match': etag }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...{ keep, signal, target, largestAnswer: LARGEST_ANSWER },
      });
      budget.update(answer);
      return answer;
    };
    const first = await send();
    if (!speech.needsNewAuthorization?.(first)) return first;
    const answer = await send();
    speech.needsNewAuthorization(answer);
    return answer;
  }

  function movedPath(answer: HttpAnswer, path: string): string {
    const moved = ownUrl(answer.headers['location'] ?? '', bases)?.pathname;
    if (moved !== undefined && speech.isMoved?.(moved, path)) return moved;
    throw new SyncError('refused', `GET ${path}: status ${answer.status} leads elsewhere`, {
      status: answer.status,
      hint: 'It moved to an address that worksync does not follow: write its present name, and the right host, in the configuration.',
    });
  }

  async function readPage(path: string, given: GetOptions, memory: Memory<Page> | undefined): Promise<Page> {
    const { query = '' } = given;
    const ask = (etag?: string) => api.get(path, { ...given, etag });
    const parse = (answer: HttpAnswer) => speech.pageOf(answer, { path, query });
    return memory ? memory.read(`${path}?${query}`, ask, parse) : parse(await ask());
  }

  const api: Api = {
    async get(path, given) {
      budget.require(given.use ?? 'fetch');
      const first = await ask('GET', path, given);
      const answer = isRedirect(first) && speech.isMoved ? await ask('GET', movedPath(first, path), given) : first;
      if (answer.status === 200 || (answer.status === 304 && given.etag !== undefined)) return answer;
      throw refusal(answer, `GET ${path}`);
    },
    async read(expected, path, given) {
      const what = `GET ${path}`;
      return parseAnswer(expected, readAnswer(await api.get(path, given), what), what);
    },
    pageOf: (answer, asked) => speech.pageOf(answer, asked),
    async *pages(element, path, given, memory) {
      const first = speech.firstQuery?.(given.query) ?? given.query ?? '';
      const what = `GET ${path}`;
      const pages = pagesOf(what, (query = first) => readPage(path, { ...given, query }, memory));
      for await (const found of pages) yield parseAnswer(z.array(element), found, what);
    },
    all: async (...asked) => (await Array.fromAsync(api.pages(...asked))).flat(),
    async write(method, path, { body, explained = [], signal }) {
      budget.require('fetch');
      const answer = await ask(method, path, { body, signal });
      if (isSuccess(answer.status) || explained.includes(answer.status)) return answer;
      throw refusal(answer, `${method} ${path}`);
    },
    refusal,
  };
  return api;
}

/** A link to another page of the list that was asked for. Throws `answer_malformed` for one that leads elsewhere. */
export function linkedUrl({ bases, isSame }: Pick<ApiDialect, 'bases' | 'isSame'>, link: unknown, path: string): URL {
  const url = typeof link === 'string' ? ownUrl(link, bases) : undefined;
  if (url && (url.pathname === path || isSame(url.pathname, path))) return url;
  throw new SyncError('answer_malformed', `GET ${path}: the link to another page leads elsewhere`, {
    hint: 'Check host and apiUrl, and whether it was renamed: the vendor links to another address.',
  });
}

/** The URL of a text, as a path below the one of our own bases that it begins with; undefined when it leads elsewhere. */
function ownUrl(text: string, bases: readonly string[]): URL | undefined {
  const home = bases.find((base) => text.startsWith(`${base}/`));
  if (home === undefined || !URL.canParse(text)) return undefined;
  // Parsed again below a fixed origin: that resolves dot segments, so that callers compare the real path.
  const below = `https://api.invalid${text.slice(home.length)}`;
  return URL.canParse(below) ? new URL(below) : undefined;
}

function isRedirect({ status }: Pick<HttpAnswer, 'status'>): boolean {
  return status === 301 || status === 302 || status === 307 || status === 308;
}

/** The target of a `Link` header's relation, RFC 8288 as vendors write it: `<https://…?page=2>; rel="next", <…>; …`. */
export function linkTo(header: string | undefined, rel: string): string | undefined {
  const links = (header ?? '').matchAll(/<([^<>]*)>\s*;\s*rel="?(\w+)"?/g);
  for (const [, target, name] of links) if (name === rel) return target;
  return undefined;
}
