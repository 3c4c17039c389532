import { CALLERS, readCaller } from '../../model/caller.ts';
import type { Lane } from '../../model/change.ts';
import { addCompletion, forgetBefore, UNKNOWN_GRACE, type Window, type WindowUse } from '../../model/windows.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import {
  addLedgerRow,
  addQuotaUse,
  endLedgerRow,
  forgetLedgerRows,
  type LedgerRow,
  quotaCallersIn,
  raiseQuotaUse,
  readLedger,
  updateLedgerTimes,
} from '../../store/quota/ledger.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { COOLDOWN_KEY, type ObservedUse } from './cooldown.ts';

/** One request, from the reservation of its slot. */
export interface Entry {
  readonly id: number;
  readonly lane: Lane;
  /** See `model/caller.ts`. */
  readonly caller: string;
  /** Monotonic milliseconds. */
  readonly started: number;
  recorded: boolean;
  state: 'open' | 'released' | 'completed';
  completed: number;
  status: number | undefined;
}

/**
 * The requests that count in the windows. Decisions use memory only. A row is written before its request is sent and
 * updated when the request ends, within transactions that are needed anyway. After a crash in between, the next start
 * counts the request as just sent.
 */
export type WindowLedger = ReturnType<typeof createEmptyLedger>;

/**
 * Converts a row to times of the present boot. Of another boot, only the time up to `lastSeen`, its latest known moment,
 * is known to have passed. Rows from the future come from a restored machine image and are converted too. Returns the
 * given object if nothing changes.
 *
 * @param grace time for which requests without an answer can still be in flight, milliseconds
 */
export function rebaseRow(
  row: LedgerRow,
  { boot, now, lastSeen, grace = UNKNOWN_GRACE }: { boot: string; now: number; lastSeen: number; grace?: number },
): LedgerRow {
  const isForeign = row.boot !== boot || row.started > now;
  if (!isForeign && row.completed !== null) return row;
  const shift = isForeign ? now - lastSeen : 0;
  // Without a status no answer came, so the request may still be in flight.
  const completed = row.status === null || row.completed === null ? now + grace : row.completed + shift;
  return { ...row, boot, started: row.started + shift, completed };
}

/** Key in `meta`. */
const HEARTBEAT_KEY = 'throttle.beat';

interface Heartbeat {
  readonly boot: string;
  readonly at: number;
  readonly since: number;
}

async function readHeartbeat(query: Scope): Promise<Heartbeat | undefined> {
  const text = await readMeta(query, HEARTBEAT_KEY);
  return text === undefined ? undefined : (JSON.parse(text) as Heartbeat);
}

/** Whether any version ever sent a request. */
export async function wasUsed(query: Scope): Promise<boolean> {
  return (await readHeartbeat(query)) !== undefined || (await readLedger(query)).length > 0;
}

/** The latest known moment of each boot. The assumed end of an unanswered request is in the future, so it is ignored. */
function lastSeenOf(rows: readonly LedgerRow[], heartbeat: Heartbeat | undefined): ReadonlyMap<string, number> {
  const moments = new Map(heartbeat && [[heartbeat.boot, heartbeat.at]]);
  for (const { boot, started, completed, status } of rows) {
    const ended = status === null || completed === null ? started : completed;
    moments.set(boot, Math.max(moments.get(boot) ?? ended, started, ended));
  }
  return moments;
}

/** Reads the ledger. Stores converted rows, so that they are converted only once. `grace`: see `rebaseRow`. */
export async function openWindowLedger(
  query: Scope,
  clock: Clock,
  windows: readonly Window[],
  grace = UNKNOWN_GRACE,
): Promise<WindowLedger> {
  const now = clock.monotonic();
  const rows = await readLedger(query);
  const heartbeat = await readHeartbeat(query);
  const lastSeen = lastSeenOf(rows, heartbeat);
  const present = rows.map((row) =>
    rebaseRow(row, { boot: clock.bootId, now, lastSeen: lastSeen.get(row.boot) ?? now, grace }),
  );
  const since = Math.min(knownSince(heartbeat, clock.bootId, now), ...present.map(({ started }) => started));
  const ledger = createEmptyLedger(clock, windows, { firstId: (rows.at(-1)?.id ?? 0) + 1, since });
  for (const [index, row] of present.entries()) {
    if (row !== rows[index]) await updateLedgerTimes(query, row);
    // The process that sent the request ended before the answer came.
    if (rows[index]?.completed === null)
      await ledger.uses.add(query, { caller: row.caller ?? row.lane, status: undefined });
    for (const use of usesOf(ledger, row.lane)) addCompletion(use.completed, row.completed ?? now);
    ledger.latest.set(row.lane, Math.max(ledger.latest.get(row.lane) ?? row.started, row.started));
  }
  if (rows.length > 0) await ledger.heartbeat(query);
  return ledger;
}

/** `since` in times of this boot. */
function knownSince(heartbeat: Heartbeat | undefined, boot: string, now: number): number {
  if (heartbeat?.since === undefined) return now;
  const isForeign = heartbeat.boot !== boot || heartbeat.at > now;
  return isForeign ? now - (heartbeat.at - heartbeat.since) : heartbeat.since;
}

function createEmptyLedger(
  clock: Clock,
  windows: readonly Window[],
  { firstId, since }: { readonly firstId: number; readonly since: number },
) {
  const longestHold = Math.max(0, ...windows.map((window) => window.hold));
  let nextId = firstId;
  // The next write of a row deletes those of released entries. If it is rolled back, they use a slot after the next
  // start, which is harmless.
  let unsentIds: number[] = [];
  const latest = new Map<Lane, number>();
  const uses = createUseCount(clock);
  const counts = { all: unused(), background: unused(), backfill: unused(), status: unused() };

  return {
    /** `backfill` and `status` are parts of `background`. */
    ...counts,
    /** Time since which all requests are known, monotonic milliseconds. */
    since,
    /** Start of the latest request of each lane that still counts. */
    latest,
    uses,

    /** Reserves a slot in memory. */
    open(lane: Lane, caller: string = lane): Entry {
      for (const use of usesOf(counts, lane)) use.inFlight += 1;
      // Ids are assigned here, because the database would reuse the id of a rolled-back row.
      const id = nextId++;
      const started = clock.monotonic();
      latest.set(lane, started);
      return { id, lane, caller, started, recorded: false, state: 'open', completed: 0, status: undefined };
    },

    async record(entry: Entry, query: Scope) {
      entry.recorded = true;
      const unsent = unsentIds;
      unsentIds = [];
      const { id, lane, caller, started } = entry;
      await forgetLedgerRows(query, started - longestHold, unsent);
      await addLedgerRow(query, { id, boot: clock.bootId, lane, caller, started });
    },

    /** Frees the slot, because nothing was sent. */
    release(entry: Entry) {
      entry.state = 'released';
      for (const use of usesOf(counts, entry.lane)) use.inFlight -= 1;
      if (entry.recorded) unsentIds.push(entry.id);
    },

    /** Ends the request at `now`, monotonic milliseconds; `status` is undefined if no answer came. */
    complete(entry: Entry, status: number | undefined, now: number) {
      entry.state = 'completed';
      entry.status = status;
      entry.completed = status === undefined ? now + UNKNOWN_GRACE : now;
      for (const use of usesOf(counts, entry.lane)) {
        use.inFlight -= 1;
        addCompletion(use.completed, entry.completed);
        forgetBefore(use.completed, now - longestHold);
      }
    },

    /** Writes the end, and counts the request for its caller: once, however often this is called. */
    async recordEnd(entry: Entry, query: Scope) {
      const isFirst = await endLedgerRow(query, entry.id, entry.completed, entry.status);
      if (isFirst) await uses.add(query, entry);
    },

    /** Stores the present time, so that a later boot knows how much time has passed. */
    heartbeat: (query: Scope) =>
      writeMeta(
        query,
        HEARTBEAT_KEY,
        JSON.stringify({ boot: clock.bootId, at: clock.monotonic(), since } satisfies Heartbeat),
      ),
  };
}

function unused(): WindowUse {
  return { inFlight: 0, completed: [] };
}

type WindowUses = Readonly<Record<'all' | 'background' | 'backfill' | 'status', WindowUse>>;

function usesOf({ all, background, backfill, status }: WindowUses, lane: Lane): WindowUse[] {
  if (lane === 'interactive') return [all];
  if (lane === 'backfill') return [all, background, backfill];
  return lane === 'status' ? [all, background, status] : [all, background];
}

const COPIED = 'copied:';

/**
 * The boot id of times that were copied to another database. No real boot has it, so copied requests count in full from
 * the moment at which the ledger is opened there.
 */
export function rebaseMonotonic(boot: string): string {
  return boot.startsWith(COPIED) ? boot : COPIED + boot;
}

/** Replaces the boot id in a `meta` value; returns values without one unchanged. */
export function rebaseFact(name: string, value: string): string {
  if (name !== HEARTBEAT_KEY && name !== COOLDOWN_KEY) return value;
  const fact = JSON.parse(value) as { readonly boot: string };
  return JSON.stringify({ ...fact, boot: rebaseMonotonic(fact.boot) });
}

/** Length of a counting interval, milliseconds. */
export const QUARTER = 15 * 60_000;
/** Most tokens and keys with a row per interval, because anyone can invent credentials. */
const MAX_CREDENTIALS = 64;
const UNAUTHORIZED = 401;
const TOO_MANY_REQUESTS = 429;

export function quarterOf(time: number): number {
  return Math.floor(time / QUARTER) * QUARTER;
}

/** Counts requests by caller and quarter of an hour. Has no effect on decisions. */
export function createUseCount(clock: Clock) {
  /** Tokens and keys with a row in the present interval. */
  let counted = { since: Number.NaN, callers: new Set<string>() };

  async function rowOf(query: Scope, since: number, caller: string, status: number | undefined): Promise<string> {
    const { kind } = readCaller(caller);
    if (kind !== 'token' && kind !== 'key') return caller;
    // Invented credentials must not use up the rows of real ones.
    if (kind === 'key' && status === UNAUTHORIZED) return CALLERS.wrongKeys;
    if (counted.since !== since) {
      const stored = await quotaCallersIn(query, since);
      const credentials = stored.filter((each) => ['token', 'key'].includes(readCaller(each).kind));
      counted = { since, callers: new Set(credentials) };
    }
    if (!counted.callers.has(caller) && counted.callers.size >= MAX_CREDENTIALS) return CALLERS.otherKeys;
    counted.callers.add(caller);
    return caller;
  }

  return {
    /** Counts a request, in the transaction that stores how it ended. */
    async add(query: Scope, { caller, status }: Pick<Entry, 'caller' | 'status'>) {
      const since = quarterOf(clock.now());
      const row = await rowOf(query, since, caller, status);
      await addQuotaUse(query, since, row, status === TOO_MANY_REQUESTS ? 1 : 0);
    },
    /** Stores the least use by others that a refusal proves. */
    async addOthers(query: Scope, observed: ObservedUse) {
      const least = leastOfOthers(observed);
      if (least > 0) await raiseQuotaUse(query, quarterOf(clock.now()), CALLERS.others, least);
    },
  };
}

/** The certain use by others: the smaller count if the full window is unknown. */
export function leastOfOthers({ window, othersLong, othersBurst }: ObservedUse): number {
  const counts = [...(window === 'burst' ? [] : [othersLong]), ...(window === 'long' ? [] : [othersBurst])];
  const known = counts.filter((count) => count !== null);
  return known.length === 0 ? 0 : Math.min(...known);
}
