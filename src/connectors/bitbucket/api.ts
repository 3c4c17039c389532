import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { ConnectionDeps } from '../connector.ts';
import { ownUrl } from '../kit/addresses.ts';
import { refusal } from './answers.ts';
import { apiBase, type Options, PUBLIC_API } from './options.ts';

/** The REST API of one connection. */
export interface Api {
  /**
   * Gets a path below the API's base; `query` stands without the question mark. Answers 200, anything else is thrown.
   * No validator is ever sent: that Bitbucket honours them is not documented, and a wrong 304 would hide changes.
   */
  get(path: string, query: string | undefined, signal: AbortSignal): Promise<HttpAnswer>;
  /**
   * The query of a `next` link, as it was given. Throws `answer_malformed` for a link that leaves the list which was
   * asked for.
   */
  nextQuery(link: unknown, path: string): string;
}

/** The credential, and where it goes. */
export type Access = Pick<Options, 'apiUrl' | 'token' | 'email' | 'apiToken'>;

export function headersOf(access: Access): Readonly<Record<string, string>> {
  return { accept: 'application/json', 'user-agent': 'worksync', ...authorization(access) };
}

export function createApi(access: Access, { http, clock }: Pick<ConnectionDeps, 'http' | 'clock'>): Api {
  const base = apiBase(access);
  const headers = headersOf(access);
  // Behind a proxy Bitbucket still writes links with its own address; only their queries are used.
  const own: readonly string[] = [base, PUBLIC_API];
  return {
    async get(path, query, signal) {
      const url = base + path + (query === undefined ? '' : `?${query}`);
      const answer = await http.request({ method: 'GET', url, headers, signal, target: 'bitbucket' });
      if (answer.status === 200) return answer;
      throw refusal(answer, `GET ${path}`, clock.now());
    },
    nextQuery(link, path) {
      const url = typeof link === 'string' ? ownUrl(link, own) : undefined;
      if (url?.pathname.toLowerCase() === path.toLowerCase() && url.search !== '') return url.search.slice(1);
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
