import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { listenLocally } from '../harness/listen.ts';

type Fields = Record<string, unknown>;

interface Pull extends Fields {
  readonly number: number;
  readonly head: { ref: string; sha: string };
  readonly base: { ref: string; repo: object };
  state: string;
  draft: boolean;
}

export interface GithubStandIn {
  readonly url: string;
  /** Requests: method, path and the token's owner. */
  readonly requests: readonly string[];
  readonly pulls: readonly Pull[];
  close(): Promise<void>;
}

const TOKENS: Readonly<Record<string, string>> = { 'Bearer ghp_ada': 'ada', 'Bearer ghp_reader': 'reader' };
const BRANCHES = new Set(['main', 'next', 'feature', 'fix/one', 'same']);
const COLLABORATORS = new Set(['bob']);
const REPOSITORY = { id: 70100, full_name: 'acme/api', owner: { login: 'acme' } };

/** The part of GitHub that pull requests are written through, with one repository that keeps what it is told. */
export async function startGithub(): Promise<GithubStandIn> {
  const requests: string[] = [];
  const pulls: Pull[] = [];

  const open = (body: Fields, user: string) => {
    const { head, base } = body as { head: string; base: string };
    if (!BRANCHES.has(head)) return [422, refusal({ field: 'head', code: 'invalid' })] as const;
    if (!BRANCHES.has(base)) return [422, refusal({ field: 'base', code: 'invalid' })] as const;
    if (head === 'same') return [422, refusal({ message: `No commits between ${base} and ${head}` })] as const;
    if (pulls.some((pull) => pull.state === 'open' && pull.head.ref === head && pull.base.ref === base))
      return [422, refusal({ message: `A pull request already exists for acme:${head}.` })] as const;
    const number = pulls.length + 1;
    pulls.push({
      number,
      node_id: `PR_${number}`,
      updated_at: '2026-01-05T09:00:00Z',
      created_at: '2026-01-05T09:00:00Z',
      state: 'open',
      title: body['title'],
      body: body['body'] ?? null,
      draft: body['draft'] === true,
      merged: false,
      merged_at: null,
      html_url: `https://github.com/acme/api/pull/${number}`,
      user: { login: user },
      labels: [],
      assignees: [],
      requested_reviewers: [],
      requested_teams: [],
      head: { ref: head, sha: 'abc' },
      base: { ref: base, repo: REPOSITORY },
    });
    return [201, pulls[number - 1]!] as const;
  };

  const edit = (pull: Pull, { base, ...fields }: Fields) => {
    if (base !== undefined && !BRANCHES.has(base as string)) return [422, refusal({ field: 'base' })] as const;
    Object.assign(pull, fields, base === undefined ? {} : { base: { ...pull.base, ref: base } });
    return [200, pull] as const;
  };

  const label = (pull: Pull, { labels, assignees }: { labels?: string[]; assignees?: string[] }) => {
    if (labels) Object.assign(pull, { labels: labels.map((name) => ({ name })) });
    if (assignees) Object.assign(pull, { assignees: assignees.map((login) => ({ login })) });
    return [200, pull] as const;
  };

  const review = (pull: Pull, { reviewers }: { reviewers: string[] }) => {
    if (reviewers.some((login) => !COLLABORATORS.has(login)))
      return [422, { message: 'Reviews may only be requested from collaborators.' }] as const;
    Object.assign(pull, { requested_reviewers: reviewers.map((login) => ({ login })) });
    return [201, pull] as const;
  };

  const mutate = ({ query, variables }: { query: string; variables: { id: string } }) => {
    const pull = pulls.find(({ number }) => `PR_${number}` === variables.id)!;
    pull.draft = query.includes('convertPullRequestToDraft');
    return [200, { data: { changed: { pullRequest: { isDraft: pull.draft } } } }] as const;
  };

  const route = (method: string, url: URL, body: Fields, user: string): readonly [number, unknown] => {
    const path = url.pathname;
    if (path === '/repositories/70100' || path === '/repos/acme/api') return [200, REPOSITORY];
    const branch = path.match(/^\/repos\/acme\/api\/branches\/([^/]+)$/)?.[1];
    if (branch !== undefined) return BRANCHES.has(decodeURIComponent(branch)) ? [200, {}] : [404, NOT_FOUND];
    if (method !== 'GET' && user === 'reader') return [403, { message: 'Resource not accessible by token' }];
    if (path === '/graphql') return mutate(body as never);
    if (path === '/repos/acme/api/pulls') return method === 'POST' ? open(body, user) : list(url.searchParams);
    const pull = pulls[Number(path.match(/\/(?:pulls|issues)\/(\d+)/)?.[1]) - 1];
    return pull === undefined ? [404, NOT_FOUND] : atPull(method, path, pull, body);
  };

  const list = (query: URLSearchParams) => {
    const found = ({ state, head, base }: Pull) =>
      state === 'open' && `acme:${head.ref}` === query.get('head') && base.ref === query.get('base');
    return [200, pulls.filter(found)] as const;
  };

  const atPull = (method: string, path: string, pull: Pull, body: Fields): readonly [number, unknown] => {
    if (path.endsWith('/requested_reviewers')) return review(pull, body as never);
    if (path.includes('/issues/')) return label(pull, body);
    return method === 'PATCH' ? edit(pull, body) : [200, pull];
  };

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? '/', 'http://github.invalid');
    const user = TOKENS[request.headers.authorization ?? ''];
    const body = request.method === 'GET' ? {} : ((await json(request)) as Fields);
    requests.push(`${request.method} ${url.pathname} ${user ?? 'nobody'}`);
    const [status, given] =
      user === undefined ? [401, { message: 'Bad credentials' }] : route(request.method ?? '', url, body, user);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(given));
  };

  const server = createServer((request, response) => void answer(request, response));
  const url = await listenLocally(server);
  return {
    url,
    requests,
    pulls,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

const NOT_FOUND = { message: 'Not Found' };

function refusal(error: object) {
  return { message: 'Validation Failed', errors: [{ resource: 'PullRequest', code: 'custom', ...error }] };
}
