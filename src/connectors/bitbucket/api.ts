import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import { isSuccess } from '../../http/semantics.ts';
import type { ConnectionDeps } from '../connector.ts';
import { ownUrl } from '../kit/addresses.ts';
import type { Use } from '../kit/budget.ts';
import { readAnswer } from '../kit/json.ts';
import { refusal } from './answers.ts';
import { createHourlyBudget } from './hourly-budget.ts';
import { apiBase, isAnonymous, type Options, PUBLIC_API } from './options.ts';

interface GetOptions {
  /** Without the question mark. */
  readonly query?: string | undefined;
  readonly signal: AbortSignal;
  /** `fetch` where it is not said. */
  readonly use?: Use;
  /** Whether a large answer may be read aside: see `HttpRequest`. */
  readonly keep?: true;
}

/** The REST API of one connection, or of one member. */
export interface Api {
  /**
   * Gets a path below the API's base. Answers 200, anything else is thrown.
   * No validator is ever sent: that Bitbucket honours them is not documented, and a wrong 304 would hide changes.
   */
  get(path: string, options: GetOptions): Promise<HttpAnswer>;
  /** Gets what is JSON, read. */
  read(path: string, options: GetOptions): Promise<unknown>;
  /** Sends a write once. Answers 2xx and 400, whose errors the caller may understand. */
  write(method: 'POST' | 'PUT', path: string, body: unknown, signal: AbortSignal): Promise<HttpAnswer>;
  /** What a refused write means to a caller who understands nothing of it. */
  refusal(answer: HttpAnswer, what: string): SyncError;
  /**
   * The query of a `next` link, as it was given. Throws `answer_malformed` for a link that leaves the list which was
   * asked for.
   */
  nextQuery(link: unknown, path: string): string;
}

/** The credential, and where it goes. */
export type Access = Pick<Options, 'apiUrl' | 'token' | 'email' | 'apiToken'>;

export function createApi(access: Access, { http, clock }: Pick<ConnectionDeps, 'http' | 'clock'>): Api {
  const base = apiBase(access);
  const headers = { accept: 'application/json', 'user-agent': 'worksync', ...authorization(access) };
  // Behind a proxy Bitbucket still writes links with its own address; only their queries are used.
  const own: readonly string[] = [base, PUBLIC_API];
  const budget = createHourlyBudget(clock, isAnonymous(access) ? 60 : 1_000);
  const refused = (answer: HttpAnswer, what: string) => refusal(answer, what, clock.now());

  async function get(path: string, { query, signal, keep, use = 'fetch' }: GetOptions): Promise<HttpAnswer> {
    budget.require(use);
    const url = base + path + (query === undefined ? '' : `?${query}`);
    const answer = await http.request({ method: 'GET', url, headers, signal, keep, target: 'bitbucket' });
    budget.learn(answer);
    if (answer.status === 200) return answer;
    throw refused(answer, `GET ${path}`);
  }

  return {
    get,
    read: async (path, options) => readAnswer(await get(path, options), `GET ${path}`),
    async write(method, path, body, signal) {
      const answer = await http.request({
        method,
        url: base + path,
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal,
        target: 'bitbucket',
      });
      budget.learn(answer);
      if (isSuccess(answer.status) || answer.status === 400) return answer;
      throw refused(answer, `${method} ${path}`);
    },
    refusal: refused,
    nextQuery(link, path) {
      const url = typeof link === 'string' ? ownUrl(link, own) : undefined;
      if (url && url.search !== '' && isSameList(url.pathname, path)) return url.search.slice(1);
      throw new SyncError('answer_malformed', `GET ${path}: the link to the next page leads elsewhere`, {
        hint: 'Check apiUrl, and that the repository is still called so: the other side links to another address.',
      });
    },
  };
}

function authorization({ token, email, apiToken }: Access): Readonly<Record<string, string>> {
  if (token !== undefined) return { authorization: `Bearer ${token}` };
  if (email === undefined || apiToken === undefined) return {};
  return { authorization: `Basic ${Buffer.from(`${email}:${apiToken}`).toString('base64')}` };
}

/** A repository that was asked for by its id may be linked by its name. */
function isSameList(linked: string, path: string): boolean {
  const byId = /^\/repositories\/[^/]+\/%7b[^/]+%7d(?=\/)/i;
  if (!byId.test(path)) return linked.toLowerCase() === path.toLowerCase();
  return linked.replace(/^\/repositories\/[^/]+\/[^/]+(?=\/)/, '') === path.replace(byId, '');
}
