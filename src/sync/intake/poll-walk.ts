// Design: src/decisions/polls-and-walks.md

import type { PollPage, PollPosition } from '../../connectors/connector.ts';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { sha256Of } from '../../platform/lib/digest.ts';
import { type Extended, extendTrail, NO_PAGES } from '../../platform/lib/page-trail.ts';
import type { Random } from '../../platform/lib/random.ts';
import type { Tracer } from '../../platform/lib/tracer.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { type AppendedRow, appendDeliveries } from '../../store/append-deliveries.ts';
import { packBodyAsync, type StoredBody } from '../../store/bodies.ts';
import type { Store } from '../../store/database.ts';
import { loadPollState, type PollState, savePollState, type Walk } from '../../store/poll-states.ts';
import type { ActiveConnection } from './active-connection.ts';
import { readSpan } from './append.ts';

export interface WalkDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  /** Notified when a page is in the inbox. */
  readonly inbox: WakeSignal;
  readonly tracer?: Tracer;
}

export type WalkOutcome = 'complete' | 'unchanged';

/**
 * Reads a unit to its end, from where its last walk stopped. Each page and the position after it are one transaction:
 * a process that dies in between reads one page again and stores none twice. Throws what the connection and the database throw,
 * and `list_endless` where the vendor names pages on and on.
 */
export async function walkUnit(
  deps: WalkDeps,
  active: ActiveConnection,
  unit: string,
  signal: AbortSignal,
): Promise<WalkOutcome> {
  for (;;) {
    const state = await loadPollState(deps.store.query, active.name, unit);
    const walk = walkOf(state, deps.clock.now());
    const version = active.names?.version();
    const from = deps.clock.now();
    const page = await active.connection.poll(positionOf(unit, state, walk), signal);
    const next = await take(state, walk, page, deps.clock);
    // If a name was bound again meanwhile, what was read under it belongs to another thing.
    const isStill = () => active.names?.version() === version;
    if (!(await save(deps, active.name, { unit, taken: next, from, isStill }))) continue;
    if (next.fault) throw next.fault;
    if (next.isLast) return next.page ? 'complete' : 'unchanged';
    signal.throwIfAborted();
  }
}

interface Taken {
  readonly state: PollState;
  readonly isLast: boolean;
  /** Why the walk stops behind this page. */
  readonly fault?: SyncError;
  /** What goes to the inbox. */
  readonly page?: Extract<PollPage, { outcome: 'page' }>;
  readonly packed?: StoredBody;
}

/** A large body is worked through while the main thread goes on. */
async function take(state: PollState, walk: Walk, page: PollPage, clock: Clock): Promise<Taken> {
  if (page.outcome === 'unchanged') return { state: afterUnchanged(state, walk), isLast: true };
  const digest = await sha256Of(page.body);
  const after = afterPage(state, walk, page, digest, clock.now());
  const isLast = page.next === undefined;
  if (isSamePage(state, walk, page, digest)) return { state: after, isLast };
  const fault = faultAfter(walk, page);
  return { state: after, isLast, page, packed: await packBodyAsync(page.body), ...(fault && { fault }) };
}

interface Saved {
  readonly unit: string;
  readonly taken: Taken;
  /** When the page was asked for, epoch milliseconds. */
  readonly from: number;
  isStill(): boolean;
}

/** @returns whether it was kept */
async function save(
  deps: WalkDeps,
  connection: string,
  { unit, taken: { state, isLast, page, packed }, from, isStill }: Saved,
): Promise<boolean> {
  const now = deps.clock.now();
  const saved = await deps.store.commit(async (transaction) => {
    if (!isStill()) return undefined;
    const rows: AppendedRow[] = [];
    if (page) {
      const key = `poll:${deps.random.uuid()}`;
      const delivery = { connection, key, source: 'poll' as const, event: page.event, body: page.body, packed };
      rows.push(...(await appendDeliveries(transaction, [delivery], now)));
    }
    await savePollState(transaction, connection, unit, state, isLast ? now : undefined);
    return rows;
  });
  if (!saved) return false;
  if (page) deps.inbox.notify();
  const [row] = saved;
  if (page && row)
    deps.tracer?.record(readSpan('poll', row, { connection, event: page.event, from, to: deps.clock.now() }));
  return true;
}

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
