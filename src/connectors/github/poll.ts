import type { PollPage, PollPosition } from '../connector.ts';
import { readList, writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, nextTurn, OVERLAP, readTurn, timeOf } from '../kit/turns.ts';
import type { Api } from './api.ts';
import { slim } from './schema.ts';
import { SHAPES } from './translate.ts';

const EVERYTHING = 'state=all&sort=updated&direction=desc&per_page=100';
const OPEN = 'state=open&sort=created&direction=asc&per_page=100';

/**
 * One page of a walk over a repository's pull requests (providers' facts §1.6).
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
 */
export async function pollPulls(api: Api, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const path = `/repos/${position.unit}/pulls`;
  const isFirstWalk = position.watermark === undefined;
  const turn = readTurn(position.page);
  const etag = turn || isFirstWalk ? undefined : position.etag;
  const list = isFirstWalk ? OPEN : EVERYTHING;
  const answer = await api.get(path, { query: turn ? `${list}&page=${turn.page}` : list, etag, signal });
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

function isBefore(time: number | undefined, since: number | undefined): boolean {
  return time !== undefined && since !== undefined && time < since;
}

/** The list is ordered, so its last element tells; NaN does not. */
function isBeyond(times: readonly number[], since: number | undefined): boolean {
  return isBefore(times.at(-1), since);
}
