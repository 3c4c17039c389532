import type { PollPage, PollPosition } from '../../connectors/connector.ts';
import { SyncError } from '../../model/errors/sync-error.ts';
import { type Extended, extendTrail, NO_PAGES } from '../../platform/lib/page-trail.ts';
import type { PollState, Walk } from '../../store/poll-states.ts';

/**
 * Where a poll stands, as pure functions. A unit has a watermark, up to which everything is known, and at most one
 * walk: the reading of its pages from the newest on. Only the last page of a walk moves the watermark, and forward
 * only; only a complete walk keeps its validator, since a 304 must never hide a page that was not read.
 */

/**
 * A walk of which no page was read for so long begins anew, milliseconds. Longer than any pause that a provider imposes:
 * the first walk of a large repository may well last for days at 60 requests an hour, and must still end.
 */
const STALE = 7_200_000;
/** The time of the last page of a walk that must begin anew: it is stale whenever it is looked at. */
const ABANDONED = new Date(0).toISOString();
/** A provider's clock may be ahead by this much, milliseconds. */
const AHEAD = 300_000;

/**
 * The walk to go on with. A first walk that begins anew keeps the time at which it first began: an item that was read as open
 * before and is done by now is in no list of open items, so that only its change since then shows it.
 */
export function walkOf(state: PollState, now: number): Walk {
  const { walk, watermark } = state;
  const age = walk ? now - Date.parse(walk.readAt) : Number.NaN;
  // A negative age means that the wall clock was set back: it counts as stale.
  if (walk && age >= 0 && age <= STALE) return walk;
  const first = walk && watermark === undefined ? Date.parse(walk.startedAt) : now;
  return { startedAt: new Date(Math.min(first, now)).toISOString(), readAt: new Date(now).toISOString() };
}

/** What the connector is asked. The validator belongs to the first page alone. */
export function positionOf(unit: string, state: PollState, walk: Walk): PollPosition {
  return {
    unit,
    startedAt: walk.startedAt,
    ...(state.watermark === undefined ? {} : { watermark: state.watermark }),
    ...(walk.page === undefined ? {} : { page: walk.page }),
    ...(walk.page === undefined && state.etag !== undefined ? { etag: state.etag } : {}),
  };
}

type Page = Extract<PollPage, { outcome: 'page' }>;

/** The state after a page came in; `walk` is absent when it was the last one. */
export function afterPage(state: PollState, walk: Walk, page: Page, digest: string, now: number): PollState {
  const candidate = later(walk.candidate, clamp(page.newest, now));
  const isFirst = walk.page === undefined;
  const etag = isFirst ? page.etag : walk.etag;
  if (page.next !== undefined) {
    const { trail, fault } = extended(walk, page);
    // A walk whose pages do not end begins anew. After too many empty pages it goes on where it was.
    if (fault && fault.kind !== 'empty') return { ...state, walk: { startedAt: walk.startedAt, readAt: ABANDONED } };
    const readAt = new Date(now).toISOString();
    return { ...state, walk: { page: page.next, candidate, startedAt: walk.startedAt, readAt, etag, trail } };
  }
  return {
    watermark: later(state.watermark, candidate),
    etag,
    digest: isFirst ? digest : undefined,
  };
}

/** Why the walk must stop behind this page, although another one follows. */
export function faultAfter(walk: Walk, page: Page): SyncError | undefined {
  const { fault } = extended(walk, page);
  return fault && new SyncError('list_endless', `the list was left: ${fault.message}`);
}

function extended({ trail = NO_PAGES }: Walk, page: Page): Extended {
  return extendTrail(trail, page);
}

/** The state after the provider said that nothing changed: the walk is done, the watermark stays. */
export function afterUnchanged(state: PollState, walk: Walk): PollState {
  if (walk.page !== undefined)
    throw new SyncError('answer_malformed', 'the vendor answered 304 to an unconditional request for a later page');
  return { ...state, walk: undefined };
}

/**
 * Some vendors send no validator. Where a walk is one page, and the last complete walk was the very same page, nothing
 * changed either, and nothing need be stored.
 */
export function isSamePage(state: PollState, walk: Walk, page: Page, digest: string): boolean {
  return walk.page === undefined && page.next === undefined && state.digest === digest;
}

/** The later of two times, as it was written. What is not a time counts as none. */
function later(a: string | undefined, b: string | undefined): string | undefined {
  if (b === undefined || Number.isNaN(Date.parse(b))) return a;
  return a === undefined || Date.parse(b) > Date.parse(a) ? b : a;
}

function clamp(time: string | undefined, now: number): string | undefined {
  return time !== undefined && Date.parse(time) > now + AHEAD ? new Date(now).toISOString() : time;
}
