import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import { isSuccess } from '../../http/semantics.ts';
import type { ConnectionDeps } from '../connector.ts';
import { ownUrl } from '../kit/addresses.ts';
import { createBudget, type Rate, rateFrom } from '../kit/budget.ts';
import { createGet, type GetOptions } from '../kit/conditional-get.ts';
import { linkTo } from '../kit/link-header.ts';
import { refusal } from './answers.ts';
import type { Auth, Method, Send } from './auth.ts';
import { type Access, apiBase, derivedBase } from './options.ts';

const HEADERS = {
  accept: 'application/vnd.github+json',
  'x-github-api-version': '2022-11-28',
  'user-agent': 'worksync',
};

/** A page of 100 pull requests, each with the longest description that GitHub takes. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

interface WriteOptions {
  readonly body?: unknown;
  readonly signal: AbortSignal;
}

/** The REST API of one connection. */
export interface Api {
  /**
   * Gets a path below the API's base. Answers 200, or 304 to a validator; anything else is thrown.
   * A repository that was renamed or transferred is followed once, by its id.
   * Throws `rate_limited` without a request where what is left of the limit is kept for more urgent uses.
   */
  get(path: string, options: GetOptions): Promise<HttpAnswer>;
  /** Sends a write once, and follows nothing. Answers 2xx and 422, whose errors the caller understands. */
  write(method: Method, path: string, options: WriteOptions): Promise<HttpAnswer>;
  /**
   * The page number that a `Link` of the answer points to, or undefined where it has no such link.
   * Throws `answer_malformed` for a link that leaves the list which was asked for.
   */
  linkedPage(answer: HttpAnswer, rel: string, path: string): number | undefined;
  /** The query of the link to the next page, as it was given: large lists go by cursors. Throws likewise. */
  nextQuery(answer: HttpAnswer, path: string): string | undefined;
}

export function createApi(access: Access, deps: ConnectionDeps, authOf: (send: Send) => Auth): Api {
  const base = apiBase(access);
  // Behind a proxy GitHub still writes links with its own address; only ids and queries of them are used.
  const own: readonly string[] = [base, derivedBase(access.host)];
  const budget = createBudget(deps.clock, rateOf);
  const send: Send = async (method, pathAndQuery, { headers, body, keep, signal }) => {
    const answer = await deps.http.request({
      method,
      url: base + pathAndQuery,
      headers: { ...HEADERS, ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      signal,
      keep,
      largestAnswer: LARGEST_ANSWER,
      target: 'github',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return answer;
  };
  const auth = authOf(send);

  async function authorised(
    method: Method,
    pathAndQuery: string,
    given: WriteOptions & Pick<GetOptions, 'etag' | 'keep'>,
  ) {
    const headers: Record<string, string> = { ...(await auth.headers(given.signal)) };
    if (given.etag !== undefined) headers['if-none-match'] = given.etag;
    const { body, keep, signal } = given;
    const answer = await send(method, pathAndQuery, { headers, body, keep, signal });
    budget.learn(answer);
    if (answer.status === 401) auth.forget();
    return answer;
  }

  const getOnce = (path: string, { query, etag, keep, signal }: GetOptions) =>
    authorised('GET', query === undefined || query === '' ? path : `${path}?${query}`, {
      signal,
      ...(keep === undefined ? {} : { keep }),
      ...(etag === undefined ? {} : { etag }),
    });

  return {
    get: createGet({
      budget,
      getOnce,
      movedPath: (answer, from) => movedPath(answer, from, own),
      refusal: (answer, what) => refusal(answer, what, deps.clock.now()),
    }),
    async write(method, path, given) {
      budget.require('fetch');
      const answer = await authorised(method, path, given);
      if (isSuccess(answer.status) || answer.status === 422) return answer;
      throw refusal(answer, `${method} ${path}`, deps.clock.now());
    },
    linkedPage(answer, rel, path) {
      const link = linkTo(answer.headers['link'], rel);
      if (link === undefined) return undefined;
      const page = ownLink(link, path, own).searchParams.get('page') ?? '';
      if (/^[1-9]\d{0,6}$/.test(page)) return Number(page);
      throw leadsElsewhere(path);
    },
    nextQuery(answer, path) {
      const link = linkTo(answer.headers['link'], 'next');
      return link === undefined ? undefined : ownLink(link, path, own).search.slice(1);
    },
  };
}

/** Search, GraphQL and the like have limits of their own under the same names. */
function rateOf(headers: HttpAnswer['headers']): Rate | undefined {
  return (headers['x-ratelimit-resource'] ?? 'core') === 'core' ? rateFrom(headers, 'x-ratelimit') : undefined;
}

/** `/repos/owner/name/pulls` → `/pulls`, `/repositories/12/pulls` → `/pulls`. */
function withoutRepository(path: string): string {
  return path.replace(/^\/(repos\/[^/]+\/[^/]+|repositories\/\d+)/, '');
}

function movedPath(answer: HttpAnswer, path: string, bases: readonly string[]): string {
  const target = ownUrl(answer.headers['location'] ?? '', bases)?.pathname ?? '';
  const id = /^\/repositories\/\d+/.exec(target)?.[0];
  if (id !== undefined && withoutRepository(target) === withoutRepository(path)) return target;
  throw new SyncError('refused', `GET ${path}: status ${answer.status} leads elsewhere`, {
    status: answer.status,
    hint: 'The repository moved to where it cannot be followed: write its present name, and the right host, in the configuration.',
  });
}

/** GitHub links to a repository, and to an organisation, by its id, whatever name it was asked by. */
function ownLink(link: string, path: string, bases: readonly string[]): URL {
  const url = ownUrl(link, bases);
  if (url && (url.pathname === path || isSameList(url.pathname, path))) return url;
  throw leadsElsewhere(path);
}

function isSameList(linked: string, path: string): boolean {
  if (/^\/repositories\/\d+\//.test(linked)) return withoutRepository(linked) === withoutRepository(path);
  const [owned, asked] = [linked, path].map((each) => /^\/(?:organizations|orgs|users?)\/[^/]+(\/.*)$/.exec(each)?.[1]);
  return owned !== undefined && owned === asked;
}

function leadsElsewhere(path: string): SyncError {
  return new SyncError('answer_malformed', `GET ${path}: the link to another page leads elsewhere`, {
    hint: 'Check host and apiUrl: the other side links to an address that is not its own.',
  });
}
