import { z } from 'zod';
import { asSyncError, type SyncError } from '../../model/errors.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Connection } from '../connector.ts';
import { createListing } from './rest.ts';

/*
 * Requests the vendor to send failed deliveries again, in rounds. A round scans the deliveries of each hook back to where the last
 * round ended, merges what failed into the open deliveries of the cursor, and requests a few of them again, oldest first.
 */

/** An attempt at a delivery, as a vendor lists it. All attempts at a delivery share its name. */
export interface ListedAttempt {
  readonly delivery: string;
  /** The vendor's name of this attempt, by which it is sent again. */
  readonly attempt: string;
  /** Rises from attempt to attempt: a time, or a number of the vendor. */
  readonly order: number;
  /** `unanswered`: failed without a status, or with one that the vendor's filter for failures does not find. */
  readonly result: 'arrived' | 'refused' | 'unanswered';
  /** It was not sent for this connection. */
  readonly isForeign?: boolean;
}

export interface AttemptPage {
  readonly attempts: readonly ListedAttempt[];
  readonly next: string | undefined;
}

export interface HookDeliveries {
  /** The name of the hook, equal in each round. */
  readonly name: string;
  list(query: string, signal: AbortSignal): Promise<AttemptPage>;
  /**
   * Requests the vendor to send an attempt again. `gone`: the vendor no longer sends it again; `later`: the vendor accepts no
   * more requests for this hook now.
   */
  resend(attempt: string, signal: AbortSignal): Promise<'requested' | 'gone' | 'later'>;
}

export interface RedeliveryRules {
  /** How often one delivery is sent, with the first time. A delivery that fails so often does not fail by chance. */
  readonly mostAttempts: number;
  /** How many deliveries of one hook a round requests again. */
  readonly mostOfHook: number;
  /** How many deliveries a round requests again. */
  readonly mostAtOnce: number;
  /** How long the vendor keeps deliveries, milliseconds. */
  readonly keptFor: number;
  /** The first page of everything, and the first pages of the vendor's filters for attempts that failed with a status. */
  readonly queries: { readonly newest: string; readonly failed: readonly string[] };
  readonly pageSize: number;
  /** The most pages that a round reads of each filter, and of everything. */
  readonly mostPages: { readonly failed: number; readonly all: number };
  floorOf(last: number): number;
}

/** How long the list of hooks is cached, milliseconds. */
const HOOKS_KEPT_FOR = 60 * 60_000;

/**
 * Creates the function that runs a round. The cursor stores how far each list was read, and which deliveries are still open. So
 * the cost of a round depends on the deliveries that failed, not on all that were sent. A round that fails returns its cursor too.
 */
export function createRedelivery(
  clock: Clock,
  rules: RedeliveryRules,
  hooksAt: (url: string, signal: AbortSignal) => Promise<readonly HookDeliveries[]>,
): NonNullable<Connection['redeliver']> {
  const listings = new Map<string, (signal: AbortSignal) => Promise<readonly HookDeliveries[]>>();
  return async (url, cursor, signal) => {
    const hooks = listings.get(url) ?? createListing(clock, (given) => hooksAt(url, given), HOOKS_KEPT_FOR);
    listings.set(url, hooks);
    const round: Round = { rules, now: clock.now(), signal, states: new Map(), cuts: new Set(), requested: 0 };
    await run(round, hooks, cursor);
    const { requested, states, cuts, failure } = round;
    // A hook may have been replaced meanwhile.
    if (failure) listings.delete(url);
    return {
      requested,
      // If not even the hooks could be listed, the cursor stays.
      cursor: states.size === 0 ? (cursor ?? '[]') : JSON.stringify([...states.values()]),
      ...(cuts.size === 0 ? {} : { cut: [...cuts].join('; ') }),
      ...(failure ? { failure } : {}),
    };
  };
}

/** A delivery that did not arrive. The names of these fields are stored. */
const openDelivery = z.object({
  delivery: z.string(),
  attempt: z.string(),
  last: z.string().nullable(),
  asked: z.int().min(0),
  /** When it was found, epoch milliseconds. */
  since: z.number(),
});
type OpenDelivery = z.infer<typeof openDelivery>;

/** The order up to which a hook was read. Former versions stored a text: a number, or a time. */
const order = z.union([z.number(), z.string().transform((text) => Number(text) || Date.parse(text) || 0)]);

/** The state of a hook between two rounds, as the cursor stores it. The oldest open deliveries come first. */
const hookState = z.object({ name: z.string(), upTo: order.optional(), open: z.array(openDelivery) });
type HookState = z.infer<typeof hookState>;

const MOST_OPEN = 500;

const TOO_MANY = `more than ${MOST_OPEN} deliveries failed: worksync requests only the newest again; polls bring the rest`;

interface Round {
  readonly rules: RedeliveryRules;
  readonly now: number;
  readonly signal: AbortSignal;
  readonly states: Map<string, HookState>;
  readonly cuts: Set<string>;
  requested: number;
  failure?: SyncError;
}

async function run(
  round: Round,
  hooksOf: (signal: AbortSignal) => Promise<readonly HookDeliveries[]>,
  cursor: string | undefined,
): Promise<void> {
  try {
    const stored = new Map(readCursor(cursor).map((state) => [state.name, state]));
    const hooks = await hooksOf(round.signal);
    for (const { name } of hooks) round.states.set(name, stored.get(name) ?? { name, open: [] });
    for (const hook of hooks) await visit(hook, round);
  } catch (thrown) {
    round.failure = asSyncError(thrown);
  }
}

/** Begins anew with a cursor that cannot be read, because another version wrote it. */
function readCursor(text: string | undefined): readonly HookState[] {
  try {
    return z.array(hookState).parse(JSON.parse(text ?? '[]'));
  } catch {
    return [];
  }
}

/** Ignores that one hook no longer exists or is hidden. Throws errors that concern every hook, such as a limit. */
async function visit(hook: HookDeliveries, round: Round): Promise<void> {
  try {
    await scanAndResend(hook, round);
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found' && error.code !== 'forbidden') throw error;
    round.failure = error;
  }
}

async function scanAndResend(hook: HookDeliveries, round: Round): Promise<void> {
  const { states, cuts, rules, signal } = round;
  const before = states.get(hook.name) as HookState;
  const state = merge(before, await scan(hook, before.upTo ?? 0, round), round);
  states.set(hook.name, state);
  if (state.open.length === MOST_OPEN) cuts.add(TOO_MANY);
  const most = Math.min(rules.mostOfHook, rules.mostAtOnce - round.requested);
  for (const delivery of dueIn(state, rules).slice(0, most)) {
    const outcome = await hook.resend(delivery.attempt, signal);
    if (outcome === 'later') return;
    if (outcome === 'requested') round.requested++;
    // Stored in the state at once, so that it is kept if the next request fails. A delivery that is gone is never due again.
    delivery.last = delivery.attempt;
    delivery.asked += outcome === 'requested' ? 1 : rules.mostAttempts;
  }
}

/** Adds a scan to the state of a hook, and removes deliveries that arrived or that the vendor no longer keeps. */
function merge(
  before: HookState,
  { attempts, upTo }: Awaited<ReturnType<typeof scan>>,
  { rules, now }: Round,
): HookState {
  const { arrived = [], failed = [] } = Object.groupBy(
    attempts.filter(({ isForeign }) => isForeign !== true),
    ({ result }) => (result === 'arrived' ? result : 'failed'),
  );
  const all = new Map(before.open.map((each) => [each.delivery, { ...each }]));
  for (const [delivery, tries] of [...Map.groupBy(failed, (each) => each.delivery)].toReversed()) {
    const known: OpenDelivery = all.get(delivery) ?? { delivery, attempt: '', last: null, asked: 0, since: now };
    const { attempt } = tries[0] as ListedAttempt;
    // For a delivery that is not stored, the listed attempts show how often it was sent.
    all.set(delivery, { ...known, attempt, asked: Math.max(known.asked, tries.length - 1) });
  }
  for (const { delivery } of arrived) all.delete(delivery);
  const open = [...all.values()].filter(({ since }) => since >= now - rules.keptFor).slice(-MOST_OPEN);
  return { name: before.name, ...(upTo === 0 ? {} : { upTo }), open };
}

/** Returns deliveries whose newest attempt failed and was not requested again, and that were sent fewer times than the limit. */
function dueIn({ open }: HookState, { mostAttempts }: RedeliveryRules): readonly OpenDelivery[] {
  return open.filter(({ attempt, last, asked }) => attempt !== last && asked + 1 < mostAttempts);
}

/**
 * Scans the attempts of a hook back to the end of the last scan. If the first page does not reach back so far, the vendor's own
 * filters find what failed among the rest. They filter by the status of the answer. So if the first page contains a failure
 * without a status, the whole list is read.
 */
async function scan(hook: HookDeliveries, last: number, { rules, cuts, signal }: Round) {
  const { queries, mostPages, pageSize } = rules;
  const floor = rules.floorOf(last);

  /** Reads page after page back to the floor, but at most so many pages. */
  async function readBack(from: string, most: number) {
    const attempts: ListedAttempt[] = [];
    let next: string | undefined = from;
    for (let count = 0; next !== undefined && count < most; count++) {
      const page: AttemptPage = await hook.list(next, signal);
      const recent = page.attempts.filter(({ order }) => order >= floor);
      attempts.push(...recent);
      next = recent.length < page.attempts.length ? undefined : page.next;
    }
    return { attempts, next };
  }

  const first = await readBack(queries.newest, 1);
  const rest: (typeof first)[] = [];
  if (first.next !== undefined) {
    for (const query of queries.failed) rest.push(await readBack(query, mostPages.failed));
    const isFiltered = rest.every(({ attempts }) => attempts.every(({ result }) => result !== 'arrived'));
    if (isFiltered && first.attempts.some(({ result }) => result === 'unanswered'))
      rest.push(await readBack(first.next, mostPages.all));
    const isCut = rest.some(({ next }) => next !== undefined);
    if (isCut) cuts.add((isFiltered ? cutByLimit : cutWithoutFilter)(mostPages.failed * pageSize));
  }
  const all = [first, ...rest].flatMap(({ attempts }) => attempts);
  return {
    /** Each once, newest first. */
    attempts: [...new Map(all.map((one) => [one.attempt, one])).values()].sort((a, b) => b.order - a.order),
    // Attempts that began after the first page was read may be missing in the others.
    upTo: Math.max(last, ...first.attempts.map(({ order }) => order)),
  };
}

function cutByLimit(most: number): string {
  return `worksync checks only the newest ${most} failed deliveries of a round; polls bring the rest`;
}

function cutWithoutFilter(most: number): string {
  return `this server does not filter deliveries by status: only the newest ${most} are checked in a round, and polls bring the rest`;
}
