import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { ConnectionDeps } from '../connector.ts';
import { ownUrl } from '../kit/addresses.ts';
import { isRedirect } from '../kit/answers.ts';
import { linkTo } from '../kit/links.ts';
import { refusal } from './answers.ts';
import { apiBase, derivedBase, type Options } from './options.ts';

/** A page of 100 merge requests, each with a description of up to a mebibyte in theory; most have a few kilobytes. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

interface GetOptions {
  /** Without the question mark. */
  readonly query?: string;
  /** Sent as `If-None-Match`; only then is 304 an answer. */
  readonly etag?: string;
  readonly signal: AbortSignal;
}

interface SendOptions {
  readonly body?: unknown;
  /** Statuses outside 2xx that the caller explains. */
  readonly explained?: readonly number[];
  readonly signal: AbortSignal;
}

export type Neighbour = 'next' | 'prev' | 'last';

/** What leads to a GitLab: a connection's options, or a member's own access. */
type Place = Pick<Options, 'host' | 'apiUrl' | 'token'>;

/** The REST API of one GitLab with one credential. */
export interface Api {
  /**
   * Gets a path below the API's base. Answers 200, or 304 to a validator; anything else is thrown.
   * A project that was renamed or transferred is followed once, by its number.
   */
  get(path: string, options: GetOptions): Promise<HttpAnswer>;
  /** Sends a write once. Answers 2xx and what is explained; anything else is thrown. */
  send(method: 'POST' | 'PUT', path: string, options: SendOptions): Promise<HttpAnswer>;
  /**
   * Number of a neighbouring page of the list at this path, or undefined where the answer names none.
   * Throws `answer_malformed` for a link that leaves the list which was asked for.
   */
  pageNumber(answer: HttpAnswer, which: Neighbour, path: string): number | undefined;
}

export function createApi(options: Place, deps: ConnectionDeps): Api {
  const base = apiBase(options);
  // Behind a proxy GitLab still writes links with its own address; only numbers of them are used.
  const own: readonly string[] = [base, derivedBase(options.host)];
  const getOnce = (path: string, { query, etag, signal }: GetOptions) =>
    deps.http.request({
      method: 'GET',
      url: query === undefined ? base + path : `${base}${path}?${query}`,
      headers: headersOf(options, etag),
      signal,
      largestAnswer: LARGEST_ANSWER,
      target: 'gitlab',
    });
  return {
    async get(path, given) {
      const first = await getOnce(path, given);
      const moved = isRedirect(first) ? movedPath(first, path, own) : undefined;
      const answer = moved === undefined ? first : await getOnce(moved, given);
      if (answer.status === 200 || (answer.status === 304 && given.etag !== undefined)) return answer;
      throw refusal(answer, `GET ${path}`, deps.clock.now());
    },
    async send(method, path, { body, explained = [], signal }) {
      const answer = await deps.http.request({
        method,
        url: base + path,
        headers: { ...headersOf(options, undefined), 'content-type': 'application/json' },
        body: JSON.stringify(body ?? {}),
        signal,
        largestAnswer: LARGEST_ANSWER,
        target: 'gitlab',
      });
      if ((answer.status >= 200 && answer.status <= 299) || explained.includes(answer.status)) return answer;
      throw refusal(answer, `${method} ${path}`, deps.clock.now());
    },
    pageNumber(answer, which, path) {
      const plain = answer.headers[PAGE_HEADERS[which]];
      if (plain !== undefined) return readNumber(plain, path);
      const link = linkTo(answer.headers['link'], which);
      return link === undefined ? undefined : linkedPage(link, path, own);
    },
  };
}

/** Plain numbers, empty where there is no such page; `Link` stands in where a proxy drops them. */
const PAGE_HEADERS: Readonly<Record<Neighbour, string>> = {
  next: 'x-next-page',
  prev: 'x-prev-page',
  last: 'x-total-pages',
};

/** `Bearer` is taken for tokens of every kind, OAuth's too (providers' facts §2.8). */
function headersOf({ token }: Place, etag: string | undefined): Record<string, string> {
  return {
    accept: 'application/json',
    'user-agent': 'worksync',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(etag === undefined ? {} : { 'if-none-match': etag }),
  };
}

/** `/projects/acme%2Fapi/merge_requests` → `/merge_requests` */
function withoutProject(path: string): string {
  return path.replace(/^\/projects\/[^/]+/, '');
}

/** GitLab names a moved project by its number in `Location` (§2.6). */
function movedPath(answer: HttpAnswer, path: string, bases: readonly string[]): string {
  const target = ownUrl(answer.headers['location'] ?? '', bases)?.pathname ?? '';
  if (/^\/projects\/\d+(\/|$)/.test(target) && withoutProject(target) === withoutProject(path)) return target;
  throw new SyncError('refused', `GET ${path}: status ${answer.status} leads elsewhere`, {
    status: answer.status,
    hint: 'The project moved to where it cannot be followed: write its number or its present path, and the right host, in the configuration.',
  });
}

function linkedPage(link: string, path: string, bases: readonly string[]): number {
  const url = ownUrl(link, bases);
  const number =
    url && isSameList(url.pathname, path) ? readNumber(url.searchParams.get('page') ?? '', path) : undefined;
  if (number !== undefined) return number;
  throw new SyncError('answer_malformed', `GET ${path}: the link to another page leads elsewhere`, {
    hint: 'Check host and apiUrl: the other side links to an address that is not its own.',
  });
}

/** A project that was asked for by its path may be linked by its number. */
function isSameList(linked: string, path: string): boolean {
  if (linked === path) return true;
  return /^\/projects\/\d+\//.test(linked) && withoutProject(linked) === withoutProject(path);
}

function readNumber(text: string, path: string): number | undefined {
  if (text === '') return undefined;
  if (/^\d{1,7}$/.test(text)) return Number(text) || undefined;
  throw new SyncError('answer_malformed', `GET ${path}: the number of another page cannot be read`);
}
