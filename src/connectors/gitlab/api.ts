import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer, HttpRequest } from '../../http/http-client.ts';
import { isSuccess } from '../../http/semantics.ts';
import type { ConnectionDeps } from '../connector.ts';
import { ownUrl } from '../kit/addresses.ts';
import { createBudget, rateFrom } from '../kit/budget.ts';
import { createGet, type GetOptions } from '../kit/conditional-get.ts';
import { readList } from '../kit/json.ts';
import { linkTo } from '../kit/link-header.ts';
import { refusal } from './answers.ts';
import { type Access, apiBase, derivedBase } from './options.ts';

/** A page of 100 merge requests, each with a description of up to a mebibyte in theory; most have a few kilobytes. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

interface Pages {
  /** Elements on a page; 100 unless told. */
  readonly size?: number;
  /** Whether nothing of the pages behind this one is wanted. */
  isEnough?(page: readonly unknown[]): boolean;
}

interface SendOptions {
  readonly body?: unknown;
  /** Statuses outside 2xx that the caller explains. */
  readonly explained?: readonly number[];
  readonly signal: AbortSignal;
}

export type Neighbour = 'next' | 'prev' | 'last';

/** The REST API of one GitLab with one credential. */
export interface Api {
  /**
   * Gets a path below the API's base. Answers 200, or 304 to a validator; anything else is thrown.
   * A project that was renamed or transferred is followed once, by its number.
   */
  get(path: string, options: GetOptions): Promise<HttpAnswer>;
  /** The pages of a list, each read when it is asked for. */
  pages(path: string, options: Omit<GetOptions, 'etag'>, size?: number): AsyncGenerator<readonly unknown[]>;
  /** All pages of a list, as far as one is enough. */
  list(path: string, options: Omit<GetOptions, 'etag'>, pages?: Pages): Promise<readonly unknown[]>;
  /** Sends a write once. Answers 2xx and what is explained; anything else is thrown. */
  send(method: 'POST' | 'PUT', path: string, options: SendOptions): Promise<HttpAnswer>;
  /**
   * Number of a neighbouring page of the list at this path, or undefined where the answer names none.
   * Throws `answer_malformed` for a link that leaves the list which was asked for.
   */
  pageNumber(answer: HttpAnswer, which: Neighbour, path: string): number | undefined;
}

export function createApi(options: Access, deps: ConnectionDeps): Api {
  const base = apiBase(options);
  // Behind a proxy GitLab still writes links with its own address; only numbers of them are used.
  const own: readonly string[] = [base, derivedBase(options.host)];
  const budget = createBudget(deps.clock, (headers) => rateFrom(headers, 'ratelimit'));
  const request = async (wanted: Pick<HttpRequest, 'method' | 'url' | 'headers' | 'body' | 'keep' | 'signal'>) => {
    const answer = await deps.http.request({ ...wanted, largestAnswer: LARGEST_ANSWER, target: 'gitlab' });
    budget.learn(answer);
    return answer;
  };
  const getOnce = (path: string, { query, etag, keep, signal }: GetOptions) =>
    request({
      method: 'GET',
      url: query === undefined ? base + path : `${base}${path}?${query}`,
      headers: headersOf(options, etag),
      keep,
      signal,
    });
  const api: Api = {
    get: createGet({
      budget,
      getOnce,
      movedPath: (answer, from) => movedPath(answer, from, own),
      refusal: (answer, what) => refusal(answer, what, deps.clock.now()),
    }),
    async *pages(path, given, size = 100) {
      for (let page: number | undefined = 1; page !== undefined; ) {
        const query = `${given.query === undefined ? '' : `${given.query}&`}per_page=${size}&page=${page}`;
        const answer = await api.get(path, { ...given, query });
        yield readList(answer, `GET ${path}`);
        const next = api.pageNumber(answer, 'next', path);
        if (next !== undefined && next <= page)
          throw new SyncError('answer_malformed', `GET ${path}: the page after ${page} is said to be ${next}`);
        page = next;
      }
    },
    async list(path, given, { size, isEnough } = {}) {
      const all: unknown[] = [];
      for await (const found of api.pages(path, given, size)) {
        all.push(...found);
        if (isEnough?.(found)) break;
      }
      return all;
    },
    async send(method, path, { body, explained = [], signal }) {
      budget.require('fetch');
      const answer = await request({
        method,
        url: base + path,
        headers: { ...headersOf(options, undefined), 'content-type': 'application/json' },
        body: JSON.stringify(body ?? {}),
        signal,
      });
      if (isSuccess(answer.status) || explained.includes(answer.status)) return answer;
      throw refusal(answer, `${method} ${path}`, deps.clock.now());
    },
    pageNumber(answer, which, path) {
      const plain = answer.headers[PAGE_HEADERS[which]];
      if (plain !== undefined) return readNumber(plain, path);
      const link = linkTo(answer.headers['link'], which);
      return link === undefined ? undefined : linkedPage(link, path, own);
    },
  };
  return api;
}

/** Plain numbers, empty where there is no such page; `Link` stands in where a proxy drops them. */
const PAGE_HEADERS: Readonly<Record<Neighbour, string>> = {
  next: 'x-next-page',
  prev: 'x-prev-page',
  last: 'x-total-pages',
};

/** `Bearer` is taken for tokens of every kind, OAuth's too (GL10). */
function headersOf({ token }: Access, etag: string | undefined): Record<string, string> {
  return {
    accept: 'application/json',
    'user-agent': 'worksync',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(etag === undefined ? {} : { 'if-none-match': etag }),
  };
}

/** Whether both lead to the same below a project or a group, the first by its number. */
function isSameByNumber(numbered: string, path: string): boolean {
  const [, kind, rest] = /^\/(projects|groups)\/\d+((?:\/.*)?)$/.exec(numbered) ?? [];
  const [, wantedKind, wantedRest] = /^\/(projects|groups)\/[^/]+((?:\/.*)?)$/.exec(path) ?? [];
  return kind !== undefined && kind === wantedKind && rest === wantedRest;
}

/** GitLab names a moved project, or group, by its number in `Location` (GL7). */
function movedPath(answer: HttpAnswer, path: string, bases: readonly string[]): string {
  const target = ownUrl(answer.headers['location'] ?? '', bases)?.pathname ?? '';
  if (isSameByNumber(target, path)) return target;
  throw new SyncError('refused', `GET ${path}: status ${answer.status} leads elsewhere`, {
    status: answer.status,
    hint: 'The project moved to where it cannot be followed: write its number or its present path, and the right host, in the configuration.',
  });
}

function linkedPage(link: string, path: string, bases: readonly string[]): number {
  const url = ownUrl(link, bases);
  const number =
    url && (url.pathname === path || isSameByNumber(url.pathname, path))
      ? readNumber(url.searchParams.get('page') ?? '', path)
      : undefined;
  if (number !== undefined) return number;
  throw new SyncError('answer_malformed', `GET ${path}: the link to another page leads elsewhere`, {
    hint: 'Check host and apiUrl: the other side links to an address that is not its own.',
  });
}

function readNumber(text: string, path: string): number | undefined {
  if (text === '') return undefined;
  if (/^\d{1,7}$/.test(text)) return Number(text) || undefined;
  throw new SyncError('answer_malformed', `GET ${path}: the number of another page cannot be read`);
}
