import type { Shape } from '../../lib/shape.ts';
import type { PollPage, PollPosition } from '../connector.ts';
import { readList, writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, nextTurn, OVERLAP, readTurn, timeOf } from '../kit/turns.ts';
import type { Api } from './api.ts';
import { nextPlace, readPlace } from './pages.ts';
import { type Repositories, type Repository, repositoryPath } from './repositories.ts';
import { KEPT, KEPT_OF_ISSUE, slim, slimIssue } from './schema.ts';
import { SHAPES } from './translate.ts';

export const EVERYTHING = 'state=all&sort=updated&direction=desc&per_page=100';
const OPEN = 'state=open&sort=created&direction=asc&per_page=100';
const OPEN_ISSUES = 'state=open&sort=updated&direction=asc&per_page=100';

/**
 * One page of a walk over a repository's pull requests (GH4).
 *
 * With a watermark: all states, newest change first, until a page reaches back beyond the watermark and the overlap.
 * What changes meanwhile moves to the front, so it pushes others towards pages still to come: none is missed, and what
 * moved is newer than the candidate watermark or on the next walk's first page. The first page is conditional: an
 * idle repository costs a 304.
 *
 * Without one, the first walk: the open ones only (the closed ones of the past are a backfill's business). One that is
 * closed during the walk leaves that list, and everything behind it moves forward. So this walk goes backwards: oldest
 * first in order, entered at the front to learn the last page, then from the last page down to the first again; what
 * moves forward moves to a page still to come. The watermark starts no earlier than the walk, by the provider's clock
 * or ours, whichever is behind: what is closed or opened meanwhile belongs to the next walk.
 *
 * @param repository name or id
 */
export async function pollPulls(
  api: Api,
  repository: string,
  position: PollPosition,
  signal: AbortSignal,
): Promise<PollPage> {
  const path = `${repositoryPath(repository)}/pulls`;
  const isFirstWalk = position.watermark === undefined;
  const turn = readTurn(position.page);
  const etag = turn || isFirstWalk ? undefined : position.etag;
  const list = isFirstWalk ? OPEN : EVERYTHING;
  const query = turn ? `${list}&page=${turn.page}` : list;
  const answer = await api.get(path, { query, etag, signal, use: 'poll', keep: KEPT });
  if (answer.status === 304) return { outcome: 'unchanged' };

  const pulls = readList(answer, `GET ${path}`);
  const times = pulls.map((pull) => timeOf(pull, 'updated_at'));
  const since = isFirstWalk ? undefined : Date.parse(position.watermark) - OVERLAP;
  const pageOf = (rel: string) => api.linkedPage(answer, rel, path);
  const following = () => nextTurn({ turn, backwards: isFirstWalk, pageOf, what: `GET ${path}` });
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: writeJson(pulls.filter((_, at) => !isBefore(times[at], since)).map(slim)),
    next: isBeyond(times, since) ? undefined : following(),
    newest: isFirstWalk ? firstWalkStart(position, answer) : newest(times, answer),
    etag: turn || isFirstWalk ? undefined : answer.headers['etag'],
  };
}

export function isBefore(time: number | undefined, since: number | undefined): boolean {
  return time !== undefined && since !== undefined && time < since;
}

/** The list is ordered, so its last element tells; NaN does not. */
export function isBeyond(times: readonly number[], since: number | undefined): boolean {
  return isBefore(times.at(-1), since);
}

/**
 * One page of a walk over a repository's issues. GitHub's list of them holds its pull requests too, which are left out.
 *
 * With a watermark: all states, what changed since the watermark less the overlap, newest change first, along the links
 * as they are given (large lists go by cursors). The first page is conditional.
 *
 * Without one, the first walk: the open ones, oldest change first, and each page begins at the time at which the last
 * one ended: one that is closed meanwhile leaves the list, and hides no other, since no page is counted.
 */
export async function pollIssues(
  api: Api,
  repositories: Repositories,
  repository: string,
  position: PollPosition,
  signal: AbortSignal,
): Promise<PollPage> {
  const owner = await repositories.find(repository, signal);
  if (!owner.hasIssues) return { outcome: 'unchanged' };
  const path = `${repositoryPath(repository)}/issues`;
  const isFirstWalk = position.watermark === undefined;
  const place = isFirstWalk
    ? firstWalkPlace(position.page)
    : readPlace(position.page, changedSince(position.watermark));
  const isFirst = position.page === undefined;
  const etag = isFirst && !isFirstWalk ? position.etag : undefined;
  const answer = await api.get(path, { query: place.query, etag, signal, use: 'poll', keep: LISTED_ISSUE });
  if (answer.status === 304) return { outcome: 'unchanged' };

  const found = readList(answer, `GET ${path}`);
  const times = found.map((each) => timeOf(each, 'updated_at'));
  const link = nextPlace(api, answer, path, place);
  return {
    outcome: 'page',
    ...issuePage(owner, found),
    next: link && ((isFirstWalk ? continued(times) : undefined) ?? link),
    newest: isFirstWalk ? firstWalkStart(position, answer) : newest(times, answer),
    etag: isFirst && !isFirstWalk ? answer.headers['etag'] : undefined,
  };
}

/** A page of the list of issues as a delivery: the list does not say which repository it is of. */
export function issuePage({ id, name }: Repository, found: readonly unknown[]) {
  const issues = found.filter((each) => !isPull(each)).map(slimIssue);
  return { event: SHAPES.issues, body: writeJson({ repository: { id: Number(id), full_name: name }, issues }) };
}

/** What is looked at of an issue in a list, which holds pull requests too. */
export const LISTED_ISSUE: Shape = { ...KEPT_OF_ISSUE, pull_request: { url: true } };

function isPull(issue: unknown): boolean {
  return Boolean((issue as { pull_request?: unknown } | null)?.pull_request);
}

function changedSince(watermark: string): string {
  return `${EVERYTHING}&since=${whole(Date.parse(watermark) - OVERLAP)}`;
}

/** A time as the list of issues takes it: in whole seconds. */
export function whole(time: number): string {
  return new Date(Math.floor(time / 1_000) * 1_000).toISOString().replace('.000Z', 'Z');
}

const SINCE = /^since:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$/;

function firstWalkPlace(page: string | undefined) {
  const since = page === undefined ? undefined : SINCE.exec(page)?.[1];
  return since === undefined ? readPlace(page, OPEN_ISSUES) : { count: 0, query: `${OPEN_ISSUES}&since=${since}` };
}

/**
 * Where the next page of the first walk begins: a second before the last element, since it is not said whether "since"
 * takes in the time itself. Undefined where that would ask for the same page again.
 */
function continued(times: readonly number[]): string | undefined {
  const [first, last] = [times[0] ?? Number.NaN, (times.at(-1) ?? Number.NaN) - 1_000];
  return last > first ? `since:${whole(last)}` : undefined;
}
