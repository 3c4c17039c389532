import { z } from 'zod';
import { asSyncError, type SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Connection, Redelivery } from '../connector.ts';
import { createListing } from './cached-reads.ts';

/*
 * Requests the vendor to send failed deliveries again, in rounds. A round scans the deliveries of each hook back to where the last
 * round ended, merges what failed into the open deliveries of the cursor, and requests a few of them again, oldest first.
 */

/** One attempt at a delivery that did not arrive. All attempts at a delivery share its name. */
export interface FailedAttempt {
  readonly delivery: string;
  /** The vendor's name of this attempt, by which it is sent again. */
  readonly attempt: string;
}

/** The deliveries of one hook. */
export interface DeliveryList {
  /** The name of the list, equal in each round. */
  readonly name: string;
  /** @param from where the last scan ended; undefined on the first one */
  scan(from: string | undefined, signal: AbortSignal): Promise<DeliveryScan>;
  /**
   * Requests the vendor to send an attempt again. `gone`: the vendor no longer sends it again; `later`: the vendor accepts no
   * more requests for this list now.
   */
  resend(attempt: string, signal: AbortSignal): Promise<'requested' | 'gone' | 'later'>;
}

/** The deliveries of a list that are newer than the end of the last scan. */
export interface DeliveryScan {
  /** Newest first. */
  readonly failed: readonly FailedAttempt[];
  /** The deliveries of which an attempt arrived, as far as this scan read them. */
  readonly arrived: ReadonlySet<string>;
  /** Where the next scan begins; undefined if there is nothing yet. */
  readonly upTo: string | undefined;
  /** Why the scan did not read all of them, for people. */
  readonly cut?: string;
}

export interface RedeliveryLimits {
  /** How often one delivery is sent, with the first time. A delivery that fails so often does not fail by chance. */
  readonly mostAttempts: number;
  /** How many deliveries of one list a round requests again. */
  readonly mostOfList: number;
  /** How many deliveries a round requests again. */
  readonly mostAtOnce: number;
  /** How long the vendor keeps deliveries, milliseconds. */
  readonly keptFor: number;
}

/** How long the list of hooks is cached, milliseconds. */
const HOOKS_KEPT_FOR = 60 * 60_000;

/**
 * Creates the function that runs a round. The cursor stores how far each list was read, and which deliveries are still open. So
 * the cost of a round depends on the deliveries that failed, not on all that were sent. A round that fails returns its cursor too.
 */
export function createRedelivery(
  clock: Clock,
  limits: RedeliveryLimits,
  listsAt: (url: string, signal: AbortSignal) => Promise<readonly DeliveryList[]>,
): NonNullable<Connection['redeliver']> {
  const listings = new Map<string, (signal: AbortSignal) => Promise<readonly DeliveryList[]>>();
  return async (url, cursor, signal) => {
    const listsOf = listings.get(url) ?? createListing(clock, (given) => listsAt(url, given), HOOKS_KEPT_FOR);
    listings.set(url, listsOf);
    const result = await runRound(listsOf, cursor, limits, clock.now(), signal);
    // A hook may have been replaced meanwhile.
    if (result.failure) listings.delete(url);
    return result;
  };
}

/** A delivery that did not arrive. The names of these fields are stored. */
const openDelivery = z.object({
  delivery: z.string(),
  /** The newest known attempt. */
  attempt: z.string(),
  /** The attempt that was requested again last. */
  last: z.string().nullable(),
  /** How often it was requested again. */
  asked: z.int().min(0),
  /** When it was found, epoch milliseconds. */
  since: z.number(),
});
type OpenDelivery = z.infer<typeof openDelivery>;

/** The state of a list between two rounds, as the cursor stores it. The oldest open deliveries come first. */
const listState = z.object({ name: z.string(), upTo: z.string().optional(), open: z.array(openDelivery) });
type ListState = z.infer<typeof listState>;

/** How many open deliveries of one list are stored. */
const MOST_OPEN = 500;

const TOO_MANY = `more than ${MOST_OPEN} deliveries failed: worksync requests only the newest again; polls bring the rest`;

/** One round over all lists, as far as it has come. */
interface Round {
  readonly limits: RedeliveryLimits;
  readonly now: number;
  readonly signal: AbortSignal;
  readonly states: Map<string, ListState>;
  readonly cuts: Set<string>;
  requested: number;
  failure?: SyncError;
}

/**
 * @param before the cursor of the last round
 * @param now wall clock, epoch milliseconds
 */
async function runRound(
  listsOf: (signal: AbortSignal) => Promise<readonly DeliveryList[]>,
  before: string | undefined,
  limits: RedeliveryLimits,
  now: number,
  signal: AbortSignal,
): Promise<Redelivery> {
  const round: Round = { limits, now, signal, states: new Map(), cuts: new Set(), requested: 0 };
  try {
    const stored = new Map(readCursor(before).map((state) => [state.name, state]));
    const lists = await listsOf(signal);
    for (const { name } of lists) round.states.set(name, stored.get(name) ?? { name, open: [] });
    for (const list of lists) await visit(list, round);
  } catch (thrown) {
    round.failure = asSyncError(thrown);
  }
  const { requested, states, cuts, failure } = round;
  return {
    requested,
    // If not even the hooks could be listed, the cursor stays.
    cursor: states.size === 0 ? (before ?? '[]') : JSON.stringify([...states.values()]),
    ...(cuts.size === 0 ? {} : { cut: [...cuts].join('; ') }),
    ...(failure ? { failure } : {}),
  };
}

/** Begins anew with a cursor that cannot be read, because another version wrote it. */
function readCursor(text: string | undefined): readonly ListState[] {
  try {
    return z.array(listState).parse(JSON.parse(text ?? '[]'));
  } catch {
    return [];
  }
}

/** Ignores that one hook no longer exists or is hidden. Throws errors that concern every hook, such as a limit. */
async function visit(list: DeliveryList, round: Round): Promise<void> {
  try {
    await scanAndResend(list, round);
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found' && error.code !== 'forbidden') throw error;
    round.failure = error;
  }
}

async function scanAndResend(list: DeliveryList, round: Round): Promise<void> {
  const { states, cuts, limits, now, signal } = round;
  const before = states.get(list.name) as ListState;
  const scan = await list.scan(before.upTo, signal);
  const state = merge(before, scan, now - limits.keptFor, now);
  states.set(list.name, state);
  if (scan.cut !== undefined) cuts.add(scan.cut);
  if (state.open.length === MOST_OPEN) cuts.add(TOO_MANY);
  const most = Math.min(limits.mostOfList, limits.mostAtOnce - round.requested);
  for (const delivery of dueIn(state, limits).slice(0, most)) {
    const outcome = await list.resend(delivery.attempt, signal);
    if (outcome === 'later') return;
    if (outcome === 'requested') round.requested++;
    // Stored in the state at once, so that it is kept if the next request fails. A delivery that is gone is never due again.
    delivery.last = delivery.attempt;
    delivery.asked += outcome === 'requested' ? 1 : limits.mostAttempts;
  }
}

/** Adds a scan to the state of a list, and removes deliveries that arrived or were found before `oldest`. */
function merge(before: ListState, { failed, arrived, upTo = before.upTo }: DeliveryScan, oldest: number, now: number) {
  const all = new Map(before.open.map((each) => [each.delivery, { ...each }]));
  for (const [delivery, attempts] of [...Map.groupBy(failed, (each) => each.delivery)].toReversed()) {
    const known: OpenDelivery = all.get(delivery) ?? { delivery, attempt: '', last: null, asked: 0, since: now };
    const { attempt } = attempts[0] as FailedAttempt;
    // For a delivery that is not stored, the listed attempts show how often it was sent.
    all.set(delivery, { ...known, attempt, asked: Math.max(known.asked, attempts.length - 1) });
  }
  const open = [...all.values()].filter(({ delivery, since }) => since >= oldest && !arrived.has(delivery));
  const state: ListState = { name: before.name, open: open.slice(-MOST_OPEN) };
  return upTo === undefined ? state : { ...state, upTo };
}

/** Returns deliveries whose newest attempt failed and was not requested again, and that were sent fewer times than the limit. */
function dueIn({ open }: ListState, { mostAttempts }: RedeliveryLimits): readonly OpenDelivery[] {
  return open.filter(({ attempt, last, asked }) => attempt !== last && asked + 1 < mostAttempts);
}

/** An attempt as a vendor lists it. */
export interface ListedAttempt extends FailedAttempt {
  /** Rises from attempt to attempt: a time, or a number of the vendor. */
  readonly order: number;
  /** `unanswered`: failed without a status, or with one that the vendor's filter for failures does not find. */
  readonly result: 'arrived' | 'refused' | 'unanswered';
  /** It was not sent for this connection. */
  readonly isForeign?: boolean;
}

export interface AttemptPage {
  readonly attempts: readonly ListedAttempt[];
  /** The query of the next page. */
  readonly next: string | undefined;
}

/** The deliveries of one hook, as a vendor lists them in pages, newest first. */
interface AttemptPages extends Pick<DeliveryList, 'name' | 'resend'> {
  read(query: string, signal: AbortSignal): Promise<AttemptPage>;
  /** The first page of everything, and the first pages of the vendor's filters for attempts that failed with a status. */
  readonly queries: { readonly newest: string; readonly failed: readonly string[] };
  readonly pageSize: number;
  /** The most pages that a round reads of each filter, and of everything. */
  readonly mostPages: { readonly failed: number; readonly all: number };
  /** Converts the order up to which a scan read, for the cursor. */
  readonly mark: { read(text: string): number; write(order: number): string };
  /** Returns the lowest order to read, if the last scan read up to this one. */
  floorOf(last: number): number;
}

/**
 * Scans a list back to the end of the last scan. If the first page does not reach back so far, the vendor's own filters find
 * what failed among the rest. They filter by the status of the answer. So if the first page contains a failure without a status,
 * the whole list is read.
 */
export function pagedDeliveries(list: AttemptPages): DeliveryList {
  const { name, resend, queries, mostPages, pageSize, mark } = list;

  /** Reads page after page back to an order, but at most so many pages. */
  async function readBack(from: string, floor: number, most: number, signal: AbortSignal) {
    const attempts: ListedAttempt[] = [];
    let next: string | undefined = from;
    for (let count = 0; next !== undefined && count < most; count++) {
      const page: AttemptPage = await list.read(next, signal);
      const recent = page.attempts.filter(({ order }) => order >= floor);
      attempts.push(...recent);
      next = recent.length < page.attempts.length ? undefined : page.next;
    }
    return { attempts, next };
  }

  return {
    name,
    resend,
    async scan(from, signal) {
      const last = from === undefined ? 0 : mark.read(from);
      const floor = list.floorOf(last);
      const first = await readBack(queries.newest, floor, 1, signal);
      const newest = Math.max(last, ...first.attempts.map(({ order }) => order));
      const upTo = newest === 0 ? undefined : mark.write(newest);
      if (first.next === undefined) return { ...byResult(first.attempts), upTo };

      const rest: (typeof first)[] = [];
      for (const query of queries.failed) rest.push(await readBack(query, floor, mostPages.failed, signal));
      const isFiltered = rest.every(({ attempts }) => attempts.every(({ result }) => result !== 'arrived'));
      if (isFiltered && first.attempts.some(({ result }) => result === 'unanswered'))
        rest.push(await readBack(first.next, floor, mostPages.all, signal));

      const isComplete = rest.every(({ next }) => next === undefined);
      const cut = (isFiltered ? cutByLimit : cutWithoutFilter)(mostPages.failed * pageSize);
      const all = [first, ...rest].flatMap(({ attempts }) => attempts);
      return { ...byResult(all), upTo, ...(isComplete ? {} : { cut }) };
    },
  };
}

/** Groups attempts, of which several pages may contain the same one. */
function byResult(attempts: readonly ListedAttempt[]): Pick<DeliveryScan, 'failed' | 'arrived'> {
  const own = attempts.filter(({ isForeign }) => isForeign !== true);
  const unique = [...new Map(own.map((one) => [one.attempt, one])).values()].sort((a, b) => b.order - a.order);
  const { arrived = [], failed = [] } = Object.groupBy(unique, ({ result }) =>
    result === 'arrived' ? result : 'failed',
  );
  return {
    failed: failed.map(({ delivery, attempt }) => ({ delivery, attempt })),
    arrived: new Set(arrived.map(({ delivery }) => delivery)),
  };
}

function cutByLimit(most: number): string {
  return `worksync checks only the newest ${most} failed deliveries of a round; polls bring the rest`;
}

function cutWithoutFilter(most: number): string {
  return `this server does not filter deliveries by status: only the newest ${most} are checked in a round, and polls bring the rest`;
}
