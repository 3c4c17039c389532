import { z } from 'zod';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import type { GitListRequest, GitSource } from '../kit/git.ts';
import { parseAnswer } from '../kit/payload.ts';
import { bestEffort, featureOff, malformed } from '../kit/refusal.ts';
import { invalidPage, type ListedPage, nextPageCursor, readPageCursor, timeOf } from '../kit/walk.ts';
import type { Api } from './api.ts';
import { ISSUES, issueIdentity, type Locator, PULLS, pullIdentity } from './items.ts';
import type { Options } from './options.ts';
import { type Repositories, repositoryPath } from './repositories.ts';
import { KEPT, KEPT_OF_ISSUE, slim, slimIssue } from './schema.ts';

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
