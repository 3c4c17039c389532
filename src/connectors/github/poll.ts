import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { PollPage, PollPosition } from '../connector.ts';
import { providerTime, readAnswer } from './answers.ts';
import type { Api } from './api.ts';
import { slim } from './schema.ts';
import { SHAPES } from './translate.ts';

/** What was changed this long before the watermark is read again: lists lag behind, and times share a second. */
const OVERLAP = 10 * 60_000;

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
  const turn = position.page === undefined ? undefined : readTurn(position.page);
  const etag = turn || isFirstWalk ? undefined : position.etag;
  const list = isFirstWalk ? OPEN : EVERYTHING;
  const answer = await api.get(path, { query: turn ? `${list}&page=${turn.page}` : list, etag, signal });
  if (answer.status === 304) return { outcome: 'unchanged' };

  const pulls = readList(answer, path);
  const times = pulls.map(updatedAt);
  const since = isFirstWalk ? undefined : Date.parse(position.watermark) - OVERLAP;
  const next = isBeyond(times, since) ? undefined : nextTurn(api, answer, path, turn, isFirstWalk);
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: Buffer.from(JSON.stringify(pulls.filter((_, at) => !isBefore(times[at], since)).map(slim))),
    next: next && `${next.rel}:${next.page}`,
    newest: isFirstWalk ? firstWalkStart(turn, answer, position) : newest(times, answer),
    etag: turn || isFirstWalk ? undefined : answer.headers['etag'],
  };
}

/** How a walk goes on: along which link, and at which page. */
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
  const last = isFirstWalk && !turn ? api.linkedPage(answer, 'last', path) : undefined;
  if (last !== undefined && last > 1) return { rel: 'prev', page: last } as const;
  const rel = turn?.rel ?? 'next';
  const page = api.linkedPage(answer, rel, path);
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
function updatedAt(pull: unknown): number {
  const time = (pull as { updated_at?: unknown } | null)?.updated_at;
  return typeof time === 'string' ? Date.parse(time) : Number.NaN;
}

function isBefore(time: number | undefined, since: number | undefined): boolean {
  return time !== undefined && since !== undefined && time < since;
}

/** The list is ordered, so its last element tells; NaN does not. */
function isBeyond(times: readonly number[], since: number | undefined): boolean {
  return isBefore(times.at(-1), since);
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
