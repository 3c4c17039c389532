import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { ConnectionDeps } from '../connector.ts';
import { ownUrl } from '../kit/addresses.ts';
import { isRedirect } from '../kit/answers.ts';
import { linkTo } from '../kit/links.ts';
import { refusal } from './answers.ts';
import { type Auth, createAuth, type Send } from './auth.ts';
import { apiBase, derivedBase, type Options } from './options.ts';

export const HEADERS = {
  accept: 'application/vnd.github+json',
  'x-github-api-version': '2022-11-28',
  'user-agent': 'worksync',
};

/** A page of 100 pull requests, each with the longest description that GitHub takes. */
export const LARGEST_ANSWER = 32 * 1024 * 1024;

interface GetOptions {
  /** Without the question mark. */
  readonly query?: string;
  /** Sent as `If-None-Match`; only then is 304 an answer. */
  readonly etag?: string;
  readonly signal: AbortSignal;
}

/** The REST API of one connection. */
export interface Api {
  /**
   * Gets a path below the API's base. Answers 200, or 304 to a validator; anything else is thrown.
   * A repository that was renamed or transferred is followed once, by its id.
   */
  get(path: string, options: GetOptions): Promise<HttpAnswer>;
  /**
   * The page number that a `Link` of the answer points to, or undefined where it has no such link.
   * Throws `answer_malformed` for a link that leaves the list which was asked for.
   */
  linkedPage(answer: HttpAnswer, rel: string, path: string): number | undefined;
}

export function createApi(options: Options, deps: ConnectionDeps): Api {
  const base = apiBase(options);
  // Behind a proxy GitHub still writes links with its own address; only ids and numbers of them are used.
  const own: readonly string[] = [base, derivedBase(options.host)];
  const send: Send = (method, pathAndQuery, headers, signal) =>
    deps.http.request({
      method,
      url: base + pathAndQuery,
      headers: { ...HEADERS, ...headers },
      signal,
      largestAnswer: LARGEST_ANSWER,
      target: 'github',
    });
  const auth = createAuth(options, send, deps.clock);
  const getOnce = (path: string, given: GetOptions) => authorised(auth, send, path, given);
  return {
    async get(path, given) {
      const first = await getOnce(path, given);
      const moved = isRedirect(first) ? movedPath(first, path, own) : undefined;
      const answer = moved === undefined ? first : await getOnce(moved, given);
      if (answer.status === 200 || (answer.status === 304 && given.etag !== undefined)) return answer;
      if (answer.status === 401) auth.forget();
      throw refusal(answer, `GET ${path}`, deps.clock.now());
    },
    linkedPage(answer, rel, path) {
      const link = linkTo(answer.headers['link'], rel);
      return link === undefined ? undefined : pageOf(link, path, own);
    },
  };
}

async function authorised(auth: Auth, send: Send, path: string, given: GetOptions): Promise<HttpAnswer> {
  const headers: Record<string, string> = { ...(await auth.headers(given.signal)) };
  if (given.etag !== undefined) headers['if-none-match'] = given.etag;
  return send('GET', given.query === undefined ? path : `${path}?${given.query}`, headers, given.signal);
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

function pageOf(link: string, path: string, bases: readonly string[]): number {
  const url = ownUrl(link, bases);
  const page = url?.searchParams.get('page') ?? '';
  const same = url && (url.pathname === path || isSameList(url.pathname, path));
  if (same && /^[1-9]\d{0,6}$/.test(page)) return Number(page);
  throw new SyncError('answer_malformed', `GET ${path}: the link to another page leads elsewhere`, {
    hint: 'Check host and apiUrl: the other side links to an address that is not its own.',
  });
}

/** GitHub links to a repository by its id, whatever name it was asked by. */
function isSameList(linked: string, path: string): boolean {
  return /^\/repositories\/\d+\//.test(linked) && withoutRepository(linked) === withoutRepository(path);
}
