import { z } from 'zod';
import { asSyncError, type SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Connection, Redelivery } from '../connector.ts';
import { createListing } from './cached-reads.ts';

/** One attempt at a delivery that did not arrive. All attempts at a delivery share its name. */
export interface FailedAttempt {
  readonly delivery: string;
  /** What the vendor calls this attempt, by which it is asked for again. */
  readonly attempt: string;
}

/** An attempt as a list of deliveries tells of it. */
export interface ListedAttempt extends FailedAttempt {
  /** Rises from attempt to attempt: a time, or a number that the vendor counts on. */
  readonly order: number;
  /** `unanswered`: failed without a status, or with one that the vendor's filter for failures passes over. */
  readonly result: 'arrived' | 'refused' | 'unanswered';
  /** It was not sent for this connection. */
  readonly isForeign?: boolean;
}

export interface AttemptPage {
  readonly attempts: readonly ListedAttempt[];
  /** The query of the next page. */
  readonly next: string | undefined;
}

/** The deliveries of one hook, as its vendor lists them in pages, newest first. */
interface AttemptPages extends Pick<DeliveryList, 'name' | 'resend'> {
  read(query: string, signal: AbortSignal): Promise<AttemptPage>;
  /** The first page of everything, and those by which the vendor's own filters find what failed with a status. */
  readonly queries: { readonly newest: string; readonly failed: readonly string[] };
  readonly pageSize: number;
  /** How many pages a round reads at most of what failed with a status, and of everything. */
  readonly mostPages: { readonly failed: number; readonly all: number };
  /** The order up to which a look saw, as the cursor keeps it. */
  readonly mark: { read(text: string): number; write(order: number): string };
  /** The lowest order that is looked at, where the last look saw up to this one. */
  floorOf(last: number): number;
}

/** The deliveries of a list that are newer than the place where the last look at it ended. */
export interface DeliveryScan {
  /** Newest first. */
  readonly failed: readonly FailedAttempt[];
  /** Deliveries of which an attempt arrived, as far as this look saw them. */
  readonly arrived: ReadonlySet<string>;
  /** Where the next look goes on; undefined where there is nothing yet. */
  readonly upTo: string | undefined;
  /** Why the look did not see all of them, for people. */
  readonly cut?: string;
}

/** The deliveries of one hook, as its vendor lists them. */
export interface DeliveryList {
  /** Names the list, the same in each round. */
  readonly name: string;
  /** @param from where the last look ended; undefined on the first one */
  scan(from: string | undefined, signal: AbortSignal): Promise<DeliveryScan>;
  /** `gone`: the vendor no longer sends it again; `later`: the vendor takes no more requests for this list now. */
  resend(attempt: string, signal: AbortSignal): Promise<'asked' | 'gone' | 'later'>;
}

export interface RedeliveryLimits {
  /** How often one delivery is sent, counting the first time: what fails so often fails for a reason. */
  readonly mostAttempts: number;
  /** How many deliveries one round requests again: of one list, and of all. */
  readonly mostOfList: number;
  readonly mostAtOnce: number;
  /** How long the vendor keeps deliveries, milliseconds. */
  readonly keptFor: number;
}

/** How many failed deliveries of one list worksync remembers. */
const MOST_OPEN = 500;
/** How long the list of hooks is cached, milliseconds. */
const HOOKS_KEPT_FOR = 60 * 60_000;

/** Asks the vendor, round after round, to send again the deliveries that did not arrive at an address. */
export function createRedelivery(
  clock: Clock,
  limits: RedeliveryLimits,
  listsAt: (url: string, signal: AbortSignal) => Promise<readonly DeliveryList[]>,
): NonNullable<Connection['redeliver']> {
  const known = new Map<string, (signal: AbortSignal) => Promise<readonly DeliveryList[]>>();
  return async (url, cursor, signal) => {
    const lists = known.get(url) ?? createListing(clock, (given) => listsAt(url, given), HOOKS_KEPT_FOR);
    known.set(url, lists);
    const told = await redeliverFailed(lists, cursor, limits, clock.now(), signal);
    // Somebody may have replaced a hook meanwhile.
    if (told.failure) known.delete(url);
    return told;
  };
}

/**
 * Reads a list back to where the last look ended. If the first page reaches back so far, it is enough; else the vendor's own
 * filters find what failed among the rest. They go by the status of the answer. So if the first page shows a failure without
 * a status, this reads the whole list.
 */
export function pagedDeliveries(list: AttemptPages): DeliveryList {
  const { name, resend: ask, queries, mostPages, pageSize, mark } = list;

  /** Reads page after page, back to that order, but no more than the most pages. */
  async function walk(from: string, floor: number, most: number, signal: AbortSignal) {
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
    resend: ask,
    async scan(from, signal) {
      const last = from === undefined ? 0 : mark.read(from);
      const floor = list.floorOf(last);
      const first = await walk(queries.newest, floor, 1, signal);
      const newest = Math.max(last, ...first.attempts.map(({ order }) => order));
      const upTo = newest === 0 ? undefined : mark.write(newest);
      if (first.next === undefined) return { ...sortedOut(first.attempts), upTo };
      const rest: (typeof first)[] = [];
      for (const query of queries.failed) rest.push(await walk(query, floor, mostPages.failed, signal));
      const isFiltered = rest.every(({ attempts }) => attempts.every(({ result }) => result !== 'arrived'));
      if (isFiltered && first.attempts.some(({ result }) => result === 'unanswered'))
        rest.push(await walk(first.next, floor, mostPages.all, signal));
      const isWhole = rest.every(({ next }) => next === undefined);
      const cut = (isFiltered ? onlyNewest : unfiltered)(mostPages.failed * pageSize);
      const all = [first, ...rest].flatMap(({ attempts }) => attempts);
      return { ...sortedOut(all), upTo, ...(isWhole ? {} : { cut }) };
    },
  };
}

/** Several lists may contain the same attempt. */
function sortedOut(attempts: readonly ListedAttempt[]): Pick<DeliveryScan, 'failed' | 'arrived'> {
  const own = attempts.filter(({ isForeign }) => isForeign !== true);
  const each = [...new Map(own.map((one) => [one.attempt, one])).values()].sort((a, b) => b.order - a.order);
  const { arrived = [], failed = [] } = Object.groupBy(each, ({ result }) =>
    result === 'arrived' ? result : 'failed',
  );
  return {
    failed: failed.map(({ delivery, attempt }) => ({ delivery, attempt })),
    arrived: new Set(arrived.map(({ delivery }) => delivery)),
  };
}

/** Why a look ended before it saw everything. */
function onlyNewest(most: number): string {
  return `worksync checks only the newest ${most} failed deliveries of a round; polls bring the rest`;
}

function unfiltered(most: number): string {
  return `this server does not filter deliveries by status: only the newest ${most} are checked in a round, and polls bring the rest`;
}

/** A delivery that did not arrive. */
const open = z.object({
  delivery: z.string(),
  /** The newest known attempt, and the attempt that worksync requested again last. */
  attempt: z.string(),
  last: z.string().nullable(),
  /** How often worksync requested it again. */
  asked: z.int().min(0),
  /** When it was found, epoch milliseconds. */
  since: z.number(),
});
type Open = z.infer<typeof open>;

/** What the cursor keeps of a list between two rounds; the oldest open deliveries come first. */
const place = z.object({ name: z.string(), upTo: z.string().optional(), open: z.array(open) });
type Place = z.infer<typeof place>;

/**
 * One round of requests for what did not arrive. The cursor keeps up to where each list was read, and which deliveries are
 * still open: a round costs as much as failed, not as was sent. An error that ends a round early is reported beside what was
 * done.
 *
 * @param before the cursor of the last round
 * @param now wall clock, epoch milliseconds
 */
export async function redeliverFailed(
  listsOf: (signal: AbortSignal) => Promise<readonly DeliveryList[]>,
  before: string | undefined,
  limits: RedeliveryLimits,
  now: number,
  signal: AbortSignal,
): Promise<Redelivery> {
  const round: Round = { limits, now, signal, places: new Map(), cuts: new Set(), asked: 0 };
  try {
    const known = new Map(readCursor(before).map((each) => [each.name, each]));
    const lists = await listsOf(signal);
    for (const { name } of lists) round.places.set(name, known.get(name) ?? { name, open: [] });
    for (const list of lists) await visit(list, round);
  } catch (thrown) {
    round.failure = asSyncError(thrown);
  }
  const { asked, places, cuts, failure } = round;
  return {
    asked,
    // Where not even the lists could be read, the cursor stays as it was.
    cursor: places.size === 0 ? (before ?? '[]') : JSON.stringify([...places.values()]),
    ...(cuts.size === 0 ? {} : { cut: [...cuts].join('; ') }),
    ...(failure ? { failure } : {}),
  };
}

/** One round over all lists, as far as it has come. */
interface Round {
  readonly limits: RedeliveryLimits;
  readonly now: number;
  readonly signal: AbortSignal;
  readonly places: Map<string, Place>;
  readonly cuts: Set<string>;
  asked: number;
  failure?: SyncError;
}

/** Goes on where one hook no longer exists or is hidden. Throws what would meet every other hook too, such as a limit. */
async function visit(list: DeliveryList, round: Round): Promise<void> {
  try {
    await look(list, round);
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found' && error.code !== 'forbidden') throw error;
    round.failure = error;
  }
}

async function look(list: DeliveryList, round: Round): Promise<void> {
  const { places, cuts, limits, now, signal } = round;
  const was = places.get(list.name) as Place;
  const seen = await list.scan(was.upTo, signal);
  const next = merged(was, seen, now - limits.keptFor, now);
  places.set(list.name, next);
  if (seen.cut !== undefined) cuts.add(seen.cut);
  if (next.open.length === MOST_OPEN) cuts.add(TOO_MANY);
  for (const each of due(next, limits).slice(0, Math.min(limits.mostOfList, limits.mostAtOnce - round.asked))) {
    const outcome = await list.resend(each.attempt, signal);
    if (outcome === 'later') return;
    if (outcome === 'asked') round.asked++;
    // Written into the place at once, so that it is kept if the next request fails. Nobody asks again for what is gone.
    each.last = each.attempt;
    each.asked += outcome === 'asked' ? 1 : limits.mostAttempts;
  }
}

/** Deliveries whose newest attempt failed and was not requested again yet, and that were sent fewer times than the limit. */
function due({ open: all }: Place, { mostAttempts }: RedeliveryLimits): readonly Open[] {
  return all.filter(({ attempt, last, asked }) => attempt !== last && asked + 1 < mostAttempts);
}

const TOO_MANY = `more than ${MOST_OPEN} deliveries failed: worksync requests only the newest again; polls bring the rest`;

/** A cursor that cannot be read is that of another version: the round begins as on the first day. */
function readCursor(text: string | undefined): readonly Place[] {
  try {
    return z.array(place).parse(JSON.parse(text ?? '[]'));
  } catch {
    return [];
  }
}

function merged(was: Place, { failed, arrived, upTo = was.upTo }: DeliveryScan, oldest: number, now: number): Place {
  const all = new Map(was.open.map((each) => [each.delivery, { ...each }]));
  for (const [delivery, attempts] of [...Map.groupBy(failed, (each) => each.delivery)].toReversed()) {
    const before: Open = all.get(delivery) ?? { delivery, attempt: '', last: null, asked: 0, since: now };
    const { attempt } = attempts[0] as FailedAttempt;
    // For a delivery that worksync does not remember, the listed attempts tell how often it was sent.
    all.set(delivery, { ...before, attempt, asked: Math.max(before.asked, attempts.length - 1) });
  }
  const kept = [...all.values()].filter(({ delivery, since }) => since >= oldest && !arrived.has(delivery));
  const next = { name: was.name, open: kept.slice(-MOST_OPEN) };
  return upTo === undefined ? next : { ...next, upTo };
}
