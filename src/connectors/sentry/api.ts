import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer, HttpRequest } from '../../http/client.ts';
import type { Shape } from '../../lib/shape.ts';
import type { ConnectionDeps } from '../connector.ts';
import { readAnswer, readList } from '../kit/json.ts';
import { refusal } from './answers.ts';
import { baseOf, type Options } from './options.ts';

/** A page of 100 issues without their statistics; metadata may be long. */
const LARGEST_ANSWER = 32 * 1024 * 1024;
const CURSOR = /^-?\d{1,20}:\d{1,10}:[01]$/;

type Query = Readonly<Record<string, string>>;

interface Page {
  readonly found: readonly unknown[];
  /** Names the next page; absent on the last one. */
  readonly next: string | undefined;
  readonly answer: HttpAnswer;
}

/** The API of one organisation. Everything but success is thrown. */
export interface Api {
  /** @param keep what is needed of it: see `HttpRequest` */
  get(path: string, signal: AbortSignal, keep?: Shape): Promise<{ content: unknown; answer: HttpAnswer }>;
  /**
   * One page of a list; `cursor` is what the page before named.
   *
   * @param keep what is needed of it: see `HttpRequest`
   */
  page(path: string, query: Query, cursor: string | undefined, signal: AbortSignal, keep?: Shape): Promise<Page>;
  send(method: 'POST' | 'PUT', path: string, body: object, signal: AbortSignal): Promise<void>;
}

export function createApi(options: Options, { http, clock }: ConnectionDeps): Api {
  const base = baseOf(options);
  const headers = {
    accept: 'application/json',
    'user-agent': 'worksync',
    ...(options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }),
  };
  /** Below the organisation, whose name goes into no log. */
  const shown = (url: string) => new URL(url).pathname.split(`/${options.organization}/`).at(-1) || 'the organisation';
  async function ask(request: Omit<HttpRequest, 'target'>): Promise<HttpAnswer> {
    const answer = await http.request({ ...request, target: 'sentry' });
    if (answer.status >= 200 && answer.status <= 204) return answer;
    throw refusal(answer, `${request.method} ${shown(request.url)}`, clock.now());
  }
  const getAt = (path: string, search: string, signal: AbortSignal, keep?: Shape) =>
    ask({ method: 'GET', url: base + path + search, headers, signal, keep, largestAnswer: LARGEST_ANSWER });
  return {
    async get(path, signal, keep) {
      const answer = await getAt(path, '', signal, keep);
      return { content: readAnswer(answer, `GET ${path}`), answer };
    },
    async page(path, query, cursor, signal, keep) {
      if (cursor !== undefined && !CURSOR.test(cursor))
        throw new SyncError('internal', `the stored page of a walk is not one of Sentry's: ${cursor.slice(0, 40)}`);
      const search = new URLSearchParams(cursor === undefined ? query : { ...query, cursor }).toString();
      const answer = await getAt(path, `?${search}`, signal, keep);
      const found = readList(answer, `GET ${path}`);
      const next = nextCursor(answer.headers['link'], path);
      if (next !== undefined && next === cursor) throw malformed(`GET ${path}: a page names itself as the next one`);
      return { found, next, answer };
    },
    async send(method, path, body, signal) {
      const typed = { ...headers, 'content-type': 'application/json' };
      await ask({ method, url: base + path, headers: typed, body: JSON.stringify(body), signal });
    },
  };
}

/**
 * A next page is always named, also where there is none: `results` tells (providers' facts §10). Of the link only the cursor
 * is used, so it leads nowhere else.
 */
function nextCursor(header: string | undefined, path: string): string | undefined {
  const next = (header ?? '').split(/,\s*(?=<)/).find((link) => /;\s*rel="next"/.test(link));
  if (next === undefined) return undefined;
  const results = /;\s*results="(true|false)"/.exec(next)?.[1];
  const cursor = /;\s*cursor="([^"]{1,60})"/.exec(next)?.[1];
  if (results === 'false') return undefined;
  if (results === undefined || cursor === undefined || !CURSOR.test(cursor))
    throw malformed(`GET ${path}: the next page has no usable name`);
  return cursor;
}

/** For answers that are not what Sentry's reference promises. */
function malformed(what: string): SyncError {
  return new SyncError('answer_malformed', what);
}
