import type { PollPage, PollPosition } from '../connector.ts';
import { firstWalkStart, newest, nextTurn, OVERLAP, readTurn, timeOf } from '../kit/turns.ts';
import type { Lists } from './lists.ts';

const CHANGED = 'state=all&scope=all&order_by=updated_at&sort=desc&per_page=100';
const OPENED = 'state=opened&scope=all&order_by=created_at&sort=asc&per_page=100';

/**
 * One page of a walk over a unit's merge requests or issues (GL6).
 *
 * With a watermark: all states, changed since the watermark less the overlap, newest change first. Pages are cut by
 * offset: what changes meanwhile moves to the front, so it pushes others towards pages still to come and hides none.
 * (Oldest first, it would leave its place, and the one behind it would slip onto a page that was read already.) The
 * first page is conditional: newest first, no change can leave it as it was.
 *
 * Without one, the first walk: the open ones only (the closed ones of the past are a backfill's business). One that is
 * closed during the walk leaves that list, and everything behind it moves forward. So this walk goes backwards: oldest
 * first in order, entered at the front to learn the last page, then from the last page down to the first again; what
 * moves forward moves to a page still to come. The watermark starts no earlier than the walk, by the provider's clock
 * or ours, whichever is behind: what is closed or opened meanwhile belongs to the next walk.
 */
export async function pollUnit(lists: Lists, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const { unit, watermark } = position;
  const isFirstWalk = watermark === undefined;
  const turn = readTurn(position.page);
  const etag = turn || isFirstWalk ? undefined : position.etag;
  const query = isFirstWalk ? OPENED : `${CHANGED}&updated_after=${since(watermark)}`;
  const page = await lists.readIfChanged({ unit, query, page: turn?.page, use: 'poll' }, etag, signal);
  if (page === undefined) return { outcome: 'unchanged' };

  const { answer, event, body, pageOf, what } = page;
  const times = page.found.map((each) => timeOf(each, 'updated_at'));
  return {
    outcome: 'page',
    event,
    body,
    next: nextTurn({ turn, backwards: isFirstWalk, pageOf, what }),
    newest: isFirstWalk ? firstWalkStart(position, answer) : newest(times, answer),
    etag: turn || isFirstWalk ? undefined : answer.headers['etag'],
  };
}

function since(watermark: string): string {
  return encodeURIComponent(new Date(Date.parse(watermark) - OVERLAP).toISOString());
}
