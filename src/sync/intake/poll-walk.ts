// Design: src/decisions/polls-and-walks.md

import type { PollPage, PollPosition } from '../../connectors/connector.ts';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { sha256Of } from '../../platform/lib/digest.ts';
import { type Extended, extendTrail, NO_PAGES } from '../../platform/lib/page-trail.ts';
import { type AppendedRow, appendDeliveries } from '../../store/append-deliveries.ts';
import { packBodyAsync, type StoredBody } from '../../store/bodies.ts';
import { importKey } from '../../store/inbox.ts';
import { loadPollState, type PollState, savePollState, type Walk } from '../../store/poll-states.ts';
import type { ActiveConnection, IntakeContext } from './active-connection.ts';
import { readSpan } from './append.ts';

type WalkContext = Pick<IntakeContext, 'store' | 'clock' | 'random' | 'tracer' | 'inbox'>;

export type WalkOutcome = 'complete' | 'unchanged';

type Page = Extract<PollPage, { outcome: 'page' }>;

/**
 * A unit has a watermark, up to which everything is known, and at most one walk: the read of its pages, the newest
 * first.
 *
 *   no walk     the next poll begins one
 *   walking     each page is stored with the position after it; the next poll resumes there
 *   complete    the last page moves the watermark, only forwards, and keeps the validator of the first page
 *
 * Only a complete walk keeps its validator, because a 304 must never hide a page that was not read.
 *
 * Reads a unit to its end, from where its last walk stopped. Each page and the position after it are one transaction,
 * so a crash can cause a second request for a page, but stores no page twice. Throws the errors of the connection and
 * the database, and `list_endless` if the pages of the vendor do not end.
 */
export async function walkUnit(
  context: WalkContext,
  active: ActiveConnection,
  unit: string,
  signal: AbortSignal,
): Promise<WalkOutcome> {
  for (;;) {
    const state = await loadPollState(context.store.query, active.name, unit);
    const walk = walkOf(state, context.clock.now());
    const namesVersion = active.names?.version();
    const from = context.clock.now();
    const answer = await active.connection.poll(positionOf(unit, state, walk), signal);
    const step = await stepOf(state, walk, answer, context.clock);
    const isFirst = state.watermark === undefined;
    // If a name was bound again meanwhile, the page belongs to another repository or project: it is requested again.
    const isCurrent = () => active.names?.version() === namesVersion;
    if (!(await saveStep(context, { connection: active.name, unit, step, isFirst, from, isCurrent }))) continue;
    if (step.fault) throw step.fault;
    if (step.isLast) return step.page ? 'complete' : 'unchanged';
    signal.throwIfAborted();
  }
}

/** The result of one page. */
interface WalkStep {
  /** The state after the page. */
  readonly state: PollState;
  readonly isLast: boolean;
  /** Why the walk stops after this page. */
  readonly fault?: SyncError;
  /** The page to append to the inbox, absent if nothing changed, and its body as the inbox stores it. */
  readonly page?: Page;
  readonly packed?: StoredBody;
}

/** Hashes and compresses a large body outside the main thread. */
async function stepOf(state: PollState, walk: Walk, answer: PollPage, clock: Clock): Promise<WalkStep> {
  if (answer.outcome === 'unchanged') return { state: afterUnchanged(state, walk), isLast: true };
  const digest = await sha256Of(answer.body);
  const after = afterPage(state, walk, answer, digest, clock.now());
  const isLast = answer.next === undefined;
  if (isSamePage(state, walk, answer, digest)) return { state: after, isLast };
  const fault = faultAfter(walk, answer);
  return { state: after, isLast, page: answer, packed: await packBodyAsync(answer.body), ...(fault && { fault }) };
}

interface StepToSave {
  readonly connection: string;
  readonly unit: string;
  readonly step: WalkStep;
  /** The unit was never read to its end. */
  readonly isFirst: boolean;
  /** The time of the request, epoch milliseconds. */
  readonly from: number;
  /** Whether the page still belongs to the unit. */
  isCurrent(): boolean;
}

/** @returns false if nothing was stored, because the page no longer belongs to the unit */
async function saveStep(
  { store, clock, random, inbox, tracer }: WalkContext,
  { connection, unit, step, isFirst, from, isCurrent }: StepToSave,
): Promise<boolean> {
  const { state, isLast, page, packed } = step;
  const now = clock.now();
  const rows = await store.commit(async (transaction) => {
    if (!isCurrent()) return undefined;
    const appended: AppendedRow[] = [];
    if (page) {
      const key = isFirst ? importKey(random.uuid()) : `poll:${random.uuid()}`;
      const delivery = { connection, key, source: 'poll' as const, event: page.event, body: page.body, packed };
      appended.push(...(await appendDeliveries(transaction, [delivery], now)));
    }
    await savePollState(transaction, connection, unit, state, isLast ? now : undefined);
    return appended;
  });
  if (!rows) return false;
  if (page) inbox.notify();
  const [row] = rows;
  if (page && row) tracer?.record(readSpan('poll', row, { connection, event: page.event, from, to: clock.now() }));
  return true;
}

/**
 * The age of the last page, in milliseconds, above which a walk begins again. It is longer than any pause that a vendor
 * imposes, because the first walk of a large repository can take days at 60 requests an hour, and must still end.
 */
const STALE = 7_200_000;
/** The time of the last page of a walk that must begin again: always stale. */
const ABANDONED = new Date(0).toISOString();
/** How far the clock of a vendor may be ahead, milliseconds. */
const AHEAD = 300_000;

/**
 * Returns the walk to continue, or a new one. A first walk that begins again keeps its first start time. An item that
 * was read as open before and has been closed since is in no list of open items: only its change after that time shows
 * it.
 */
export function walkOf(state: PollState, now: number): Walk {
  const { walk, watermark } = state;
  const age = walk ? now - Date.parse(walk.readAt) : Number.NaN;
  // A negative age means that the wall clock was set back: it counts as stale.
  if (walk && age >= 0 && age <= STALE) return walk;
  const first = walk && watermark === undefined ? Date.parse(walk.startedAt) : now;
  return { startedAt: new Date(Math.min(first, now)).toISOString(), readAt: new Date(now).toISOString() };
}

/** Returns the position to request. Only the first page has a validator. */
export function positionOf(unit: string, state: PollState, walk: Walk): PollPosition {
  return {
    unit,
    startedAt: walk.startedAt,
    ...(state.watermark === undefined ? {} : { watermark: state.watermark }),
    ...(walk.page === undefined ? {} : { page: walk.page }),
    ...(walk.page === undefined && state.etag !== undefined ? { etag: state.etag } : {}),
  };
}

/** Returns the state after a page. After the last page it has no `walk`. */
export function afterPage(state: PollState, walk: Walk, page: Page, digest: string, now: number): PollState {
  const candidate = later(walk.candidate, clamp(page.newest, now));
  const isFirst = walk.page === undefined;
  const etag = isFirst ? page.etag : walk.etag;
  if (page.next !== undefined) {
    const { trail, fault } = trailAfter(walk, page);
    // A walk whose pages do not end begins again. After too many empty pages, the next poll continues instead.
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

/** Returns why the walk must stop after this page, although another page follows. */
function faultAfter(walk: Walk, page: Page): SyncError | undefined {
  const { fault } = trailAfter(walk, page);
  return fault && new SyncError('list_endless', `the list was left: ${fault.message}`);
}

function trailAfter({ trail = NO_PAGES }: Walk, page: Page): Extended {
  return extendTrail(trail, page);
}

/** Returns the state after a 304: the walk is complete, the watermark stays. */
export function afterUnchanged(state: PollState, walk: Walk): PollState {
  if (walk.page !== undefined)
    throw new SyncError('answer_malformed', 'the vendor answered 304 to an unconditional request for a later page');
  return { ...state, walk: undefined };
}

/**
 * Returns whether this walk and the last complete walk consist of the same single page. Then nothing changed, and
 * nothing need be stored. This replaces the validators that some vendors do not send.
 */
export function isSamePage(state: PollState, walk: Walk, page: Page, digest: string): boolean {
  return walk.page === undefined && page.next === undefined && state.digest === digest;
}

/** Returns the later of two times, as written. Text that is no time is ignored. */
function later(a: string | undefined, b: string | undefined): string | undefined {
  if (b === undefined || Number.isNaN(Date.parse(b))) return a;
  return a === undefined || Date.parse(b) > Date.parse(a) ? b : a;
}

function clamp(time: string | undefined, now: number): string | undefined {
  return time !== undefined && Date.parse(time) > now + AHEAD ? new Date(now).toISOString() : time;
}
