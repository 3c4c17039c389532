import { z } from 'zod';
import { asSyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import type { GitListRequest, GitSource } from '../kit/git.ts';
import { absent, parseAnswer, readAnswer } from '../kit/payload.ts';
import { bestEffort, featureOff, malformed, type RateLimitUse } from '../kit/refusal.ts';
import { createMemory, type Page } from '../kit/rest.ts';
import { type Candidate, createScopeResolver, patternsOf } from '../kit/scope.ts';
import { invalidPage, type ListedPage, nextPageCursor, readPageCursor, timeOf } from '../kit/walk.ts';
import type { Api } from './api.ts';
import { ISSUES, issueIdentity, type Locator, PULLS, pullIdentity } from './items.ts';
import { type Options, REPOSITORY, scopeOf } from './options.ts';
import { KEPT, KEPT_OF_ISSUE, slim, slimIssue } from './schema.ts';

/** A repository as it is now. Its issues and its pull requests can be switched off: GitHub then hides them, and keeps them. */
export interface Repository extends Candidate {
  readonly hasIssues: boolean;
  readonly hasPullRequests: boolean;
  readonly isPrivate?: boolean | undefined;
}

/** Names the list of a repository that is switched off, for people; undefined if it is on. */
export function offIn(noun: string, { name, hasIssues, hasPullRequests }: Repository): string | undefined {
  if (noun === ISSUES) return hasIssues ? undefined : `issues of ${name}`;
  return hasPullRequests ? undefined : `pull requests of ${name}`;
}

export type Repositories = ReturnType<typeof createRepositories>;

export function repositoryPath(unit: string): string {
  return /^\d+$/.test(unit) ? `/repositories/${unit}` : `/repos/${unit}`;
}

const KEPT_FOR = 12 * 60_000;

/** The units are names if the configuration has them, else ids. */
export function createRepositories(api: Api, options: Options, clock: Clock) {
  const scope = scopeOf(options);
  const lists = listsFor(options, patternsOf(scope));
  const pages = createMemory<Page>();
  const singles = createMemory<Repository>();
  const found = new Map<string, { repository: Repository; until: number }>();

  async function readAll({ path, query, otherwise }: List, signal: AbortSignal): Promise<readonly Repository[]> {
    try {
      return await api.all(one, path, { query, signal, use: 'poll' }, pages);
    } catch (thrown) {
      const { code } = asSyncError(thrown);
      if (!otherwise || (code !== 'not_found' && code !== 'forbidden')) throw thrown;
      return readLists(otherwise, signal);
    }
  }

  async function readLists(wanted: readonly List[], signal: AbortSignal): Promise<readonly Repository[]> {
    const all: Repository[] = [];
    for (const each of wanted) all.push(...(await readAll(each, signal)));
    return all;
  }

  const present = (name: string, signal: AbortSignal) => api.read(one, repositoryPath(name), { signal, use: 'poll' });

  return {
    ...createScopeResolver({
      scope,
      clock,
      lists: lists.map((list) => ({ name: list.name, read: (signal) => readAll(list, signal) })),
      candidate: (each) => each,
      unitOf: ({ id }) => id,
    }),
    present,
    /** Reads whether the list is switched off now; see `offIn`. */
    switchedOff: async (noun: string, unit: string, signal: AbortSignal) => offIn(noun, await present(unit, signal)),
    async find(unit: string, signal: AbortSignal, use: RateLimitUse = 'poll') {
      const known = found.get(unit);
      if (known && clock.monotonic() < known.until) return known.repository;
      const path = repositoryPath(unit);
      const repository = await singles.read(
        path,
        (etag) => api.get(path, { etag, signal, use }),
        (answer) => parseAnswer(one, readAnswer(answer, `GET ${path}`), `GET ${path}`),
      );
      found.set(unit, { repository, until: clock.monotonic() + KEPT_FOR });
      return repository;
    },
  };
}

interface List {
  readonly name: string;
  readonly path: string;
  readonly query: string;
  /** The lists to read instead if this one does not exist, or this credential may not read it. */
  readonly otherwise?: readonly List[];
}

/** Returns the lists with everything that the patterns can match: that of the installation, or those of the named owners. */
function listsFor({ app }: Options, patterns: readonly string[]): readonly List[] {
  if (patterns.length === 0) return [];
  const name = patterns.join(', ');
  if (app) return [{ name, path: '/installation/repositories', query: 'per_page=100' }];
  const owners = [...new Set(patterns.map((pattern) => (pattern.split('/', 1)[0] as string).toLowerCase()))];
  const mine = '/user/repos';
  if (owners.some((owner) => owner.includes('*'))) return [{ name, path: mine, query: 'per_page=100' }];
  return owners.map((owner) => ({
    name: `${owner}/*`,
    path: `/orgs/${owner}/repos`,
    query: 'type=all&per_page=100',
    // The owner is a user, whose private repositories appear only in the list of the credential's own user.
    otherwise: [
      { name: `${owner}/*`, path: `/users/${owner}/repos`, query: 'type=owner&per_page=100' },
      { name: `${owner}/*`, path: mine, query: 'affiliation=owner,collaborator&per_page=100', otherwise: [] },
    ],
  }));
}

export const one = z
  .object({
    id: z.int().positive(),
    full_name: z.string().regex(REPOSITORY),
    archived: absent(z.boolean()),
    fork: absent(z.boolean()),
    has_issues: absent(z.boolean()),
    has_pull_requests: absent(z.boolean()),
    private: absent(z.boolean()),
  })
  .transform(({ id, full_name: name, archived = false, fork = false, private: isPrivate, ...has }): Repository => {
    const [hasIssues, hasPullRequests] = [has.has_issues ?? true, has.has_pull_requests ?? true];
    return { id: String(id), name, archived, fork, hasIssues, hasPullRequests, isPrivate };
  });

const PAGE = 100;
const EVERYTHING = `state=all&sort=updated&direction=desc&per_page=${PAGE}`;
const OPEN = `state=open&sort=created&direction=asc&per_page=${PAGE}`;
const OPEN_ISSUES = `state=open&sort=updated&direction=asc&per_page=${PAGE}`;
/** In this order no element moves: GitHub adds new ones at the end. */
const IDS = `state=all&sort=created&direction=asc&per_page=${PAGE}`;

/** The fields to keep of an issue in a list. GitHub's list contains pull requests too. */
const LISTED_ISSUE: Shape = { ...KEPT_OF_ISSUE, pull_request: { url: true } };

const NOTHING: ListedPage = { found: [], next: undefined, answer: { headers: {} }, isUnchanged: true };

type Lists = Pick<GitSource<Locator>, 'list' | 'pageContent' | 'sweptPage'>;

/**
 * Pages of a repository's pull requests and issues (GH4), newest change first. What changes during the walk moves to the front
 * and pushes others towards pages still to come, so the walk misses none.
 *
 * The first walk over pull requests goes backwards through a list that begins with the oldest: it reads the first page to
 * learn the number of the last, and then goes from the last page down to the first. A pull request that somebody closes during
 * the walk leaves the list, and everything behind it moves forward, to a page still to come. The first walk over issues does
 * not count pages: it goes by the oldest change, and each page begins at the time at which the previous one ended.
 */
export function createLists(api: Api, repositories: Repositories, { host, issues }: Options): Lists {
  async function byNumbers(
    { unit, selection, page, use, etag }: GitListRequest,
    signal: AbortSignal,
  ): Promise<ListedPage> {
    const path = `${repositoryPath(unit)}/pulls`;
    const isFirstWalk = selection.items === 'open';
    const cursor = readPageCursor(page);
    const list = isFirstWalk ? OPEN : EVERYTHING;
    const query = cursor ? `${list}&page=${cursor.page}` : list;
    const answer = await api.get(path, { query, etag, signal, use, keep: KEPT });
    if (answer.status === 304) return NOTHING;
    const pageOf = (rel: string) => api.linkedPage(answer, rel, path);
    const next = nextPageCursor(cursor, isFirstWalk, pageOf, `GET ${path}`);
    return { found: api.pageOf(answer, { path, query }).found, next, answer };
  }

  async function byLinks(path: string, keep: Shape, query: string, wanted: GitListRequest, signal: AbortSignal) {
    const { etag, use } = wanted;
    const answer = await api.get(path, { query, etag, signal, use, keep });
    if (answer.status === 304) return NOTHING;
    const { found, next } = api.pageOf(answer, { path, query });
    if (next === query) throw malformed(`GET ${path}: the link to the next page leads back`);
    return { found, next: next && `link:${next}`, answer };
  }

  async function pulls(wanted: GitListRequest, signal: AbortSignal): Promise<ListedPage> {
    const { unit, selection, page } = wanted;
    if (selection.items === 'open' || (selection.items === 'changed' && selection.way === 'poll'))
      return byNumbers(wanted, signal);
    const path = `${repositoryPath(unit)}/pulls`;
    if (selection.items === 'changed') {
      const listed = await byLinks(path, KEPT, readPlace(page, EVERYTHING), wanted, signal);
      const isCounted = page === undefined && selection.since === undefined;
      return { ...listed, total: isCounted ? await totalOf(listed, path, signal) : undefined };
    }
    // Where issues are followed, one list contains both: the sweep of the pull requests covers the whole repository.
    const { hasIssues } = await repositories.find(unit, signal, 'background');
    const list = issues && hasIssues ? `${repositoryPath(unit)}/issues` : path;
    return byLinks(list, ELEMENT, readPlace(page, IDS), wanted, signal);
  }

  /** GitHub reports only the number of pages, and only of the whole list: this counts the last page as full. */
  function totalOf({ found, answer }: ListedPage, path: string, signal: AbortSignal): Promise<number | undefined> {
    return bestEffort(() => {
      const last = api.linkedPage(answer as HttpAnswer, 'last', path);
      return last === undefined ? found.length : last * PAGE;
    }, signal);
  }

  async function issueList(wanted: GitListRequest, signal: AbortSignal): Promise<ListedPage> {
    const { unit, selection, page, use } = wanted;
    if (selection.items === 'ids') return NOTHING;
    const { name, hasIssues } = await repositories.find(unit, signal, use);
    if (!hasIssues) throw featureOff(`issues of ${name}`);
    const isFirstWalk = selection.items === 'open';
    const since = isFirstWalk ? sinceOf(page) : selection.since;
    const query = `${isFirstWalk ? OPEN_ISSUES : EVERYTHING}${since === undefined ? '' : `&since=${whole(since)}`}`;
    const place = isFirstWalk && since !== undefined ? query : readPlace(page, query);
    const listed = await byLinks(`${repositoryPath(unit)}/issues`, LISTED_ISSUE, place, wanted, signal);
    return isFirstWalk ? { ...listed, next: listed.next && (continued(listed.found) ?? listed.next) } : listed;
  }

  return {
    list: (wanted, signal) => (wanted.noun === PULLS ? pulls(wanted, signal) : issueList(wanted, signal)),
    /** The list of issues does not say which repository it is of. */
    async pageContent(found, { noun, unit }, signal) {
      if (noun === PULLS) return found.map(slim);
      const { id, name, isPrivate } = await repositories.find(unit, signal);
      const own = found.filter((each) => !isPull(each)).map(slimIssue);
      return { repository: { id: Number(id), full_name: name, private: isPrivate }, issues: own };
    },
    async sweptPage(found, { noun, unit }, signal) {
      if (noun === ISSUES) return { keys: [], containers: [] };
      const { id, name, hasIssues, hasPullRequests } = await repositories.find(unit, signal, 'background');
      const repository = { id: Number(id), full_name: name };
      const isPullRequest = ({ pull_request }: Element) => !(issues && hasIssues) || Boolean(pull_request);
      const all = parseAnswer(z.array(element), found, `the list of ${unit}`).map((each) =>
        isPullRequest(each) ? pullIdentity(host, repository, each.number) : issueIdentity(host, repository, each),
      );
      // GitHub hides what is switched off, and keeps it: then the list lacks items that exist.
      const isWhole = hasPullRequests && (hasIssues || !issues);
      return { keys: all.map(({ key }) => key), containers: isWhole ? [id] : [] };
    },
  };
}

const ELEMENT: Shape = { id: true, number: true, pull_request: { url: true } };
const number = z.int().positive();
const element = z.object({ id: number, number, pull_request: z.unknown().optional() });
type Element = z.infer<typeof element>;

function isPull(issue: unknown): boolean {
  return Boolean((issue as { pull_request?: unknown } | null)?.pull_request);
}

/** The query of a page of a list that worksync reads along its links. @param first the query of the first page */
function readPlace(page: string | undefined, first: string): string {
  if (page === undefined) return first;
  const query = /^link:([\x21-\x7e]{1,4000})$/.exec(page)?.[1];
  if (query !== undefined) return query;
  throw invalidPage(page);
}

/** A time as the list of issues takes it: in whole seconds. */
function whole(time: number): string {
  return new Date(Math.floor(time / 1_000) * 1_000).toISOString().replace('.000Z', 'Z');
}

/** The time at which a page of the first walk over issues begins, epoch milliseconds. */
function sinceOf(page: string | undefined): number | undefined {
  const time = /^since:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$/.exec(page ?? '')?.[1];
  return time === undefined ? undefined : Date.parse(time);
}

/**
 * The beginning of the next page of that walk: a second before the last element, since GitHub does not document whether "since"
 * includes the time itself. Undefined where that would ask for the same page again.
 */
function continued(found: readonly unknown[]): string | undefined {
  const [first, last] = [timeOf(found[0], 'updated_at'), timeOf(found.at(-1), 'updated_at') - 1_000];
  return last > first ? `since:${whole(last)}` : undefined;
}
