import { z } from 'zod';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { ConnectionDeps } from '../connector.ts';
import { readAnswer } from '../kit/payload.ts';
import { type Budget, createBudget, malformed, providerTime, type Refusals, refusalOf } from '../kit/refusal.ts';
import { type Api, type ApiDialect, basic, bearer, createGitApi, linkedUrl } from '../kit/rest.ts';
import { type Candidate, createScopeResolver, patternsOf } from '../kit/scope.ts';
import { apiBase, isAnonymous, type Options, PUBLIC_API, REPOSITORY, scopeOf } from './options.ts';
import { repository, uuid } from './schema.ts';

/** The credential, and where it goes. */
type Access = Pick<Options, 'apiUrl' | 'token' | 'email' | 'apiToken'>;

const MINUTE = 60_000;

/** A limit is answered with 429 (BB2). */
const refusals: Refusals = {
  messageOf: (body) => (body as { error?: { message?: unknown } }).error?.message,
  hints: {
    401: 'Set token (an access token), or email with apiToken. App passwords no longer work.',
    403: 'Give the token the scopes to read repositories and pull requests, and its owner access to the repository.',
  },
  /** Bitbucket counts the requests of the last hour, so they become free little by little: some are after this time. */
  otherwise: 5 * MINUTE,
  shortest: MINUTE,
};

/** No request has a validator: Bitbucket does not document that it honours them, and a wrong 304 would hide changes. */
export function createApi(access: Access, deps: Pick<ConnectionDeps, 'http' | 'clock'>) {
  const links = { bases: [apiBase(access), PUBLIC_API], isSame: isSameList } as const;
  const authorization = authorizationOf(access);
  const dialect: ApiDialect = {
    ...links,
    target: 'bitbucket',
    headers: { accept: 'application/json', 'user-agent': 'worksync' },
    authorization: async () => authorization,
    budget: createHourlyBudget(deps.clock, isAnonymous(access) ? 60 : 1_000),
    refusal: (...given) => refusalOf(refusals, ...given),
    pageOf(answer, { path, query }) {
      const page = readPage(answer, path);
      if (page.next === undefined) return { found: page.values, next: undefined };
      const next = linkedUrl(links, page.next, path).search.slice(1);
      if (next !== '' && !leadsBack(next, query)) return { found: page.values, next };
      throw malformed(`GET ${path}: the link to the next page leads back`);
    },
  };
  return createGitApi(dialect, deps);
}

interface Page {
  readonly values: readonly unknown[];
  readonly next?: unknown;
  readonly size?: unknown;
}

/** Throws `answer_malformed`. */
export function readPage(answer: HttpAnswer, path: string): Page {
  const page = readAnswer(answer, `GET ${path}`) as Page | null;
  if (Array.isArray(page?.values)) return page;
  throw malformed(`GET ${path}: the answer is not a page`);
}

/** Whether a link leads in a circle, which would never end. One without a page number cannot be compared with the present page. */
function leadsBack(next: string, present: string): boolean {
  return next === present || (pageNumber(next) ?? Number.POSITIVE_INFINITY) <= (pageNumber(present) ?? 1);
}

function pageNumber(query: string): number | undefined {
  const text = new URLSearchParams(query).get('page') ?? '';
  return /^\d{1,6}$/.test(text) ? Number(text) : undefined;
}

function authorizationOf({ token, email, apiToken }: Access): Readonly<Record<string, string>> {
  return email === undefined || apiToken === undefined ? bearer(token) : basic(email, apiToken);
}

/** Links may name a repository that the request named by its id. */
function isSameList(linked: string, path: string): boolean {
  const byId = /^\/repositories\/[^/]+\/%7b[^/]+%7d(?=\/)/i;
  if (!byId.test(path)) return linked.toLowerCase() === path.toLowerCase();
  return linked.replace(/^\/repositories\/[^/]+\/[^/]+(?=\/)/, '') === path.replace(byId, '');
}

const HOUR = 3_600_000;
/** The share of the limit that is left at most when Bitbucket reports that the limit is near (BB3). */
const NEAR = 0.2;

/**
 * Bitbucket counts the requests of the last hour. It reports how many it allows and whether the limit is near, not how many are
 * left. So worksync counts its own; only that hint shows other users of the same credential.
 */
function createHourlyBudget(clock: Clock, standard: number): Budget {
  const sent: number[] = [];
  let limit = standard;
  const budget = createBudget(clock, (headers) => {
    const said = headers['x-ratelimit-limit'];
    if (said !== undefined && /^[1-9]\d{0,6}$/.test(said)) limit = Number(said);
    const isNear = headers['x-ratelimit-nearlimit']?.toLowerCase() === 'true';
    const left = Math.max(0, limit - sent.length);
    const oldest = sent[0] ?? clock.monotonic();
    return {
      limit,
      remaining: isNear ? Math.min(left, Math.floor(limit * NEAR)) : left,
      resetAt: (providerTime({ headers }) ?? clock.now()) + HOUR - (clock.monotonic() - oldest),
    };
  });
  return {
    require: budget.require,
    update(answer) {
      const now = clock.monotonic();
      sent.push(now);
      while (now - (sent[0] ?? now) >= HOUR) sent.shift();
      budget.update(answer);
    },
  };
}

export type Repositories = ReturnType<typeof createRepositories>;

export function repositoryPath(unit: string): string {
  return `/repositories/${unit.split('/').map(encodeURIComponent).join('/')}`;
}

/** `workspace/{uuid}`. The id alone would do, but Bitbucket documents only addresses with a workspace. */
export function unitOf({ id, name }: Pick<Candidate, 'id' | 'name'>): string {
  return `${name.split('/', 1)[0]}/${id}`;
}

const FIELDS = ['next', ...['uuid', 'full_name', 'parent.uuid'].map((field) => `values.${field}`)].join(',');
const one = z.object({ uuid, full_name: z.string().regex(REPOSITORY) });
const asCandidate = (given: z.infer<typeof one> & { parent?: unknown }): Candidate => {
  return { id: given.uuid, name: given.full_name, fork: Boolean(given.parent) };
};

/**
 * The units are `workspace/slug` if the configuration names a repository, `workspace/{uuid}` if a pattern matches it, so that its
 * stored state survives a new name.
 */
export function createRepositories(api: Api, options: Options, clock: Clock) {
  const scope = scopeOf(options);
  const workspaces = [...new Set(patternsOf(scope).map((pattern) => pattern.split('/', 1)[0] as string))];

  const query = new URLSearchParams({ pagelen: '100', sort: 'created_on', fields: FIELDS }).toString();
  /** Every repository of each workspace that the credential can see; all pages or none. */
  const lists = workspaces.map((workspace) => ({
    name: `${workspace}/*`,
    read: (signal: AbortSignal) => api.all(repository, `/repositories/${workspace}`, { query, signal, use: 'poll' }),
  }));

  return {
    ...createScopeResolver({ scope, clock, lists, candidate: asCandidate, unitOf }),
    async present(name: string, signal: AbortSignal) {
      const path = repositoryPath(name);
      const { uuid: id, full_name } = await api.read(one, path, {
        query: 'fields=uuid,full_name',
        signal,
        use: 'poll',
      });
      return { id, name: full_name };
    },
  };
}
