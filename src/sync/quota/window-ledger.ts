import type { Lane } from '../../model/lane.ts';
import { addCompletion, forgetBefore, UNKNOWN_GRACE, type Use, type Window } from '../../model/windows.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import {
  addLedgerRow,
  endLedgerRow,
  forgetLedgerRows,
  type LedgerRow,
  readLedger,
  redateLedgerRow,
} from '../../store/ledger.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { createUseCount, type UseCount } from './use-count.ts';

/** One request, from the moment its slot is reserved. */
export interface Entry {
  readonly id: number;
  readonly lane: Lane;
  /** Whom it is counted for; see `model/caller.ts`. */
  readonly caller: string;
  /** Monotonic milliseconds. */
  readonly started: number;
  recorded: boolean;
  state: 'open' | 'released' | 'completed';
  completed: number;
  status: number | undefined;
}

/**
 * The ledger in memory, and its rows in the database.
 *
 * Decisions are made from memory alone, at once. A row is written before its request is sent and updated when the
 * request ends; both ride in transactions that are made anyway. What is lost in between is found at the next start as
 * a row without an end, and counts as just sent.
 */
export interface WindowLedger {
  /** Every request that counts. */
  readonly all: Use;
  /** Those of the background lanes. */
  readonly background: Use;
  /** Those of backfills, which are among them. */
  readonly backfill: Use;
  /** Since when requests are known, monotonic milliseconds: from the first that counts, or from the start. */
  readonly since: number;
  /** When the latest request of each lane started, as far as it still counts. */
  readonly latest: ReadonlyMap<Lane, number>;
  /** Takes a slot, in memory. */
  open(lane: Lane, caller?: string): Entry;
  /** Writes the entry's row. */
  record(entry: Entry, query: Scope): Promise<void>;
  /** Nothing was sent: the slot is free. */
  release(entry: Entry): void;
  /** The request ended now; no status where no answer came. */
  complete(entry: Entry, status: number | undefined): void;
  /** Writes how the entry ended, and counts it for its caller: once, however often it is written. */
  recordEnd(entry: Entry, query: Scope): Promise<void>;
  /** Who used the quota. */
  readonly uses: UseCount;
  /** Stores the present moment: another boot then knows how much time has passed for the rows. */
  beat(query: Scope): Promise<void>;
}

/**
 * A row as it stands, in times of the present boot. Times of another boot cannot be compared with ours, but with each
 * other: what happened in that boot until `lastSeen`, the latest moment known of it, has passed for certain, and more
 * is not counted. The same goes for rows from the future, which a restored machine image can hold. A row without an end
 * was in flight when the process died. Answers the same object where nothing changes.
 *
 * @param grace how long requests without an answer may still be on their way, milliseconds
 */
export function redated(
  row: LedgerRow,
  { boot, now, lastSeen, grace = UNKNOWN_GRACE }: { boot: string; now: number; lastSeen: number; grace?: number },
): LedgerRow {
  const foreign = row.boot !== boot || row.started > now;
  if (!foreign && row.completed !== null) return row;
  const shift = foreign ? now - lastSeen : 0;
  // Without a status no answer came, so the request may still be on its way, whether its end was written or not.
  const completed = row.status === null || row.completed === null ? now + grace : row.completed + shift;
  return { ...row, boot, started: row.started + shift, completed };
}

/** Name of the fact that holds the latest moment that was written beside the rows. */
export const BEAT = 'throttle.beat';

interface Beat {
  readonly boot: string;
  readonly at: number;
  /** Since when requests are known, in times of that boot. */
  readonly since: number;
}

async function readBeat(query: Scope): Promise<Beat | undefined> {
  const text = await readMeta(query, BEAT);
  return text === undefined ? undefined : (JSON.parse(text) as Beat);
}

/** Whether a request was ever sent, by whatever version: the time is noted from the first on. */
export async function wasUsed(query: Scope): Promise<boolean> {
  return (await readBeat(query)) !== undefined || (await readLedger(query)).length > 0;
}

/**
 * The latest moment that is known of each boot, by its rows and its beat. The end of a request without an answer lies
 * ahead: it does not count.
 */
function lastSeenOf(rows: readonly LedgerRow[], beat: Beat | undefined): ReadonlyMap<string, number> {
  const moments = new Map(beat && [[beat.boot, beat.at]]);
  for (const { boot, started, completed, status } of rows) {
    const ended = status === null || completed === null ? started : completed;
    moments.set(boot, Math.max(moments.get(boot) ?? ended, started, ended));
  }
  return moments;
}

/**
 * Reads the ledger inside `query`, and writes back the rows that had to be re-dated: once for each boot.
 *
 * @param grace of requests of the process before that have no answer, milliseconds
 */
export async function openWindowLedger(
  query: Scope,
  clock: Clock,
  windows: readonly Window[],
  grace = UNKNOWN_GRACE,
): Promise<WindowLedger> {
  const now = clock.monotonic();
  const rows = await readLedger(query);
  const beat = await readBeat(query);
  const lastSeen = lastSeenOf(rows, beat);
  const present = rows.map((row) =>
    redated(row, { boot: clock.bootId, now, lastSeen: lastSeen.get(row.boot) ?? now, grace }),
  );
  const since = Math.min(sinceOf(beat, clock.bootId, now), ...present.map(({ started }) => started));
  const book = emptyBook(clock, windows, { firstId: (rows.at(-1)?.id ?? 0) + 1, since });
  for (const [index, row] of present.entries()) {
    if (row !== rows[index]) await redateLedgerRow(query, row);
    // The process that sent it ended before its answer came.
    if (rows[index]?.completed === null)
      await book.uses.add(query, { caller: row.caller ?? row.lane, status: undefined });
    for (const use of usesOf(book, row.lane)) addCompletion(use.completed, row.completed ?? now);
    book.latest.set(row.lane, Math.max(book.latest.get(row.lane) ?? row.started, row.started));
  }
  if (rows.length > 0) await book.beat(query);
  return book;
}

/** In times of this boot. Of another boot only the time until its last beat has passed for certain. */
function sinceOf(beat: Beat | undefined, boot: string, now: number): number {
  if (beat?.since === undefined) return now;
  const isForeign = beat.boot !== boot || beat.at > now;
  return isForeign ? now - (beat.at - beat.since) : beat.since;
}

function emptyBook(
  clock: Clock,
  windows: readonly Window[],
  { firstId, since }: { readonly firstId: number; readonly since: number },
): WindowLedger & { latest: Map<Lane, number> } {
  const longestHold = Math.max(0, ...windows.map((window) => window.hold));
  let nextId = firstId;
  // Rows of released entries, to be removed with the next row that is written. Should that be rolled back, they stay
  // until the next start and cost a slot there: harmless.
  let neverSent: number[] = [];
  const latest = new Map<Lane, number>();
  const uses = createUseCount(clock);

  const book: ReturnType<typeof emptyBook> = {
    since,
    latest,
    uses,
    all: { inFlight: 0, completed: [] },
    background: { inFlight: 0, completed: [] },
    backfill: { inFlight: 0, completed: [] },

    open(lane, caller = lane) {
      for (const use of usesOf(book, lane)) use.inFlight += 1;
      // Ids are given here and never twice: the database would give that of a rolled-back row again.
      const id = nextId++;
      const started = clock.monotonic();
      latest.set(lane, started);
      return { id, lane, caller, started, recorded: false, state: 'open', completed: 0, status: undefined };
    },

    async record(entry, query) {
      entry.recorded = true;
      const dropped = neverSent;
      neverSent = [];
      await forgetLedgerRows(query, clock.monotonic() - longestHold, dropped);
      const { id, lane, caller, started } = entry;
      await addLedgerRow(query, { id, boot: clock.bootId, lane, caller, started });
    },

    release(entry) {
      entry.state = 'released';
      for (const use of usesOf(book, entry.lane)) use.inFlight -= 1;
      if (entry.recorded) neverSent.push(entry.id);
    },

    complete(entry, status) {
      const now = clock.monotonic();
      entry.state = 'completed';
      entry.status = status;
      entry.completed = status === undefined ? now + UNKNOWN_GRACE : now;
      for (const use of usesOf(book, entry.lane)) {
        use.inFlight -= 1;
        addCompletion(use.completed, entry.completed);
        forgetBefore(use.completed, now - longestHold);
      }
    },

    async recordEnd(entry, query) {
      const isFirst = await endLedgerRow(query, entry.id, entry.completed, entry.status);
      if (isFirst) await uses.add(query, entry);
    },

    beat: (query) =>
      writeMeta(query, BEAT, JSON.stringify({ boot: clock.bootId, at: clock.monotonic(), since } satisfies Beat)),
  };
  return book;
}

function usesOf(
  { all, background, backfill }: Pick<WindowLedger, 'all' | 'background' | 'backfill'>,
  lane: Lane,
): Use[] {
  if (lane === 'interactive') return [all];
  return lane === 'backfill' ? [all, background, backfill] : [all, background];
}
