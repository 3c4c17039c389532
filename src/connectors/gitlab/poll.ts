import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { PollPage, PollPosition } from '../connector.ts';
import { providerTime, readAnswer } from './answers.ts';
import type { Api } from './api.ts';
import { slim } from './schema.ts';
import { SHAPES } from './translate.ts';

/** What was changed this long before the watermark is read again: lists lag behind, and times share a second. */
const OVERLAP = 10 * 60_000;

const CHANGED = 'state=all&scope=all&order_by=updated_at&sort=desc&per_page=100';
const OPENED = 'state=opened&scope=all&order_by=created_at&sort=asc&per_page=100';

/**
 * One page of a walk over a project's merge requests (providers' facts §2.6).
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
export async function pollMergeRequests(api: Api, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const path = `/projects/${encodeURIComponent(position.unit)}/merge_requests`;
  const isFirstWalk = position.watermark === undefined;
  const turn = position.page === undefined ? undefined : readTurn(position.page);
  const etag = turn || isFirstWalk ? undefined : position.etag;
  const list = isFirstWalk ? OPENED : `${CHANGED}&updated_after=${since(position.watermark)}`;
  const answer = await api.get(path, { query: turn ? `${list}&page=${turn.page}` : list, etag, signal });
  if (answer.status === 304) return { outcome: 'unchanged' };

  const found = readList(answer, path);
  const next = nextTurn(api, answer, path, turn, isFirstWalk);
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: Buffer.from(JSON.stringify(found.map(slim))),
    next: next && `${next.rel}:${next.page}`,
    newest: isFirstWalk ? firstWalkStart(turn, answer, position) : newest(found.map(updatedAt), answer),
    etag: turn || isFirstWalk ? undefined : answer.headers['etag'],
  };
}

function since(watermark: string): string {
  return encodeURIComponent(new Date(Date.parse(watermark) - OVERLAP).toISOString());
}

/** How a walk goes on: in which direction, and at which page. */
interface Turn {
  readonly rel: 'next' | 'prev';
  readonly page: number;
}

function readTurn(text: string): Turn {
  const match = /^(next|prev):([1-9]\d{0,6})$/.exec(text);
  if (!match) throw new SyncError('internal', `the stored page of a walk is not one of ours: ${text.slice(0, 40)}`);
  return { rel: match[1] as Turn['rel'], page: Number(match[2]) };
}

function nextTurn(api: Api, answer: HttpAnswer, path: string, turn: Turn | undefined, isFirstWalk: boolean) {
  const last = isFirstWalk && !turn ? api.pageNumber(answer, 'last', path) : undefined;
  if (last !== undefined && last > 1) return { rel: 'prev', page: last } as const;
  const rel = turn?.rel ?? 'next';
  const page = api.pageNumber(answer, rel, path);
  if (page === undefined) return undefined;
  const present = turn?.page ?? 1;
  // A list that links in circles would never end.
  if (rel === 'next' ? page > present : page < present) return { rel, page } as const;
  throw new SyncError('answer_malformed', `GET ${path}: the ${rel} page of page ${present} is said to be ${page}`);
}

function readList(answer: HttpAnswer, path: string): readonly unknown[] {
  const list = readAnswer(answer, `GET ${path}`);
  if (Array.isArray(list)) return list;
  throw new SyncError('answer_malformed', `GET ${path}: the answer is not a list`, { status: answer.status });
}

/** Epoch milliseconds; NaN where it cannot be read: such an element is kept, for `translate` to judge. */
function updatedAt(found: unknown): number {
  const time = (found as { updated_at?: unknown } | null)?.updated_at;
  return typeof time === 'string' ? Date.parse(time) : Number.NaN;
}

/** A time ahead of the provider's own clock would make the watermark skip what happens until then. */
function newest(times: readonly number[], answer: HttpAnswer): string | undefined {
  const now = providerTime(answer);
  const seen = times.filter((time) => !Number.isNaN(time));
  if (seen.length === 0) return undefined;
  return new Date(Math.min(Math.max(...seen), now ?? Number.POSITIVE_INFINITY)).toISOString();
}

/**
 * The first walk reports its own start, and nothing of what it sees: it may last longer than the overlap, and a change
 * seen late would move the watermark past the closing of one that was read as open before.
 */
function firstWalkStart(turn: unknown, answer: HttpAnswer, { startedAt }: PollPosition): string | undefined {
  return turn ? undefined : new Date(startOf(Date.parse(startedAt), providerTime(answer))).toISOString();
}

/** Without the provider's clock ours may be ahead, by less than the overlap. */
function startOf(startedAt: number, providerNow: number | undefined): number {
  return providerNow === undefined ? startedAt - OVERLAP : Math.min(startedAt, providerNow);
}
