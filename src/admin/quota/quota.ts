import { CALLERS, type CallerKind, readCaller } from '../../model/caller.ts';
import { LANES, type Lane } from '../../model/change.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { type GatewayToken, listGatewayTokens } from '../../store/access/gateway-tokens.ts';
import { waitingByLane } from '../../store/changes/outbox-rows.ts';
import { type QuotaUse, quotaUseByCaller, quotaUseSince, readLedger } from '../../store/quota/ledger.ts';
import { readCounts, sumOf } from '../../store/status/counts.ts';
import { readLastDueAt } from '../../store/status/queue-status.ts';
import type { Throttle } from '../../sync/quota/throttle.ts';
import { leastOfOthers, QUARTER, quarterOf } from '../../sync/quota/window-ledger.ts';
import { emptySchema, type OpenWorkspace, operation } from '../open-workspace.ts';

/** The present quota of one workspace, and a forecast for the pending requests. Times are epoch milliseconds. */
export type QuotaReport = Awaited<ReturnType<typeof describeQuota>>;

async function describeQuota({ store, throttle }: OpenWorkspace, _body: object, clock: Clock) {
  const { waiting, ...snapshot } = throttle.snapshot();
  const lanes = Object.fromEntries(LANES.map((lane) => [lane, 0])) as Record<Lane, number>;
  for (const { lane, count } of await waitingByLane(store.query)) lanes[lane] = count;
  lanes.interactive += waiting.interactive;
  const requests = Object.values(lanes).reduce((sum, count) => sum + count, 0);
  const { changes } = await readCounts(store.query);
  const held = sumOf(changes, ({ state }) => state === 'held');
  const lastDueAt = (await readLastDueAt(store.query)) ?? 0;
  const drainedAt = Math.max(throttle.drainedAt(requests, lanes.backfill), lastDueAt);
  return {
    ...snapshot,
    at: clock.now(),
    /** Changes that wait in each lane; commands and callers of the gateway are `interactive`. */
    lanes,
    /**
     * Expected time of the last waiting request, by quota and due time, if no more work arrives and nothing is refused. Changes that
     * need approval are not among the requests.
     */
    forecast: { requests, backfill: lanes.backfill, drainedAt, held },
  };
}

/** A backfill is too slow if less than this part of the background's share is free. */
const LITTLE = 0.1;

/**
 * Returns the effect of more requests in the lane of backfills on the present state, which changes with the share and with live work:
 * when the last of them can be sent, the requests of each long window (recent live work, these, and slots that stay free for live
 * work), and a reason to wait.
 */
export function admissionOf(throttle: Throttle, clock: Clock, requests: number) {
  const { long, burst, effectiveShare, ceiling, paused } = throttle.snapshot();
  const { window, backgroundLimit, backfillLimit, usedByBackground, usedByBackfill } = long.cap === null ? burst : long;
  const now = clock.now();
  if (backgroundLimit === null || backfillLimit === null) {
    return { requests, drainedAt: paused?.until ?? now, perWindow: null, objection: paused?.reason ?? null };
  }
  const live = usedByBackground - usedByBackfill;
  const backfill = Math.max(1, backfillLimit - live);
  const drainedAt = Math.ceil((paused?.until ?? now) + (requests / backfill) * window);
  const perWindow = { live, backfill, free: backgroundLimit - backfillLimit };
  const objection =
    paused?.reason ??
    (effectiveShare < ceiling ? 'others use the workspace: the share was cut and is growing back' : null) ??
    (backfill < backgroundLimit * LITTLE ? 'live work uses nearly all of the share' : null);
  return { requests, drainedAt, perWindow, objection };
}

/** Requests that a caller sent, and how many of them the workspace answered 429. */
export interface Used {
  readonly requests: number;
  readonly refused: number;
}

export type CallerUse = ReturnType<typeof useOf>;
/** The use of a workspace's quota by each caller. Times are epoch milliseconds. */
export type QuotaByCaller = Awaited<ReturnType<typeof quotaByCaller>>;

const QUARTERS_OF_DAY = 96;
const DAYS = 7;
const MOST_DRAWN = 12;
/** The caller in the series that sums up all others. */
const REST = 'rest';

async function quotaByCaller({ store, throttle }: OpenWorkspace, _body: object, clock: Clock) {
  const { query } = store;
  const { long, lastRefusal } = throttle.snapshot();
  const at = clock.now();
  const firstOf = (days: number) => quarterOf(at) - (QUARTERS_OF_DAY * days - 1) * QUARTER;
  const window = await usedInWindow(query, clock.monotonic() - long.window);
  if (lastRefusal && at - lastRefusal.at < long.window) {
    const before = window.get(CALLERS.others)?.requests ?? 0;
    window.set(CALLERS.others, { requests: Math.max(before, leastOfOthers(lastRefusal)), refused: 0 });
  }
  const day = await quotaUseByCaller(query, firstOf(1));
  const times = { window, day: mapOf(day), week: mapOf(await quotaUseByCaller(query, firstOf(DAYS))) };
  // For a stacked chart. Quarters without requests are absent.
  const series = folded(await quotaUseSince(query, firstOf(1)), day);
  const tokens = new Map((await listGatewayTokens(query)).map((token) => [token.id, token]));
  const names = new Set(Object.values(times).flatMap((uses) => [...uses.keys()]));
  const callers = [...names].map((caller) => useOf(caller, times, tokens)).toSorted(byUse);
  // The last refusal shows the use of others.
  return { at, window: long.window, cap: long.cap, callers, lastRefusal, series };
}

type Uses = ReadonlyMap<string, Used>;

const NONE: Used = { requests: 0, refused: 0 };

/**
 * Returns the use by one caller within the long window (the requests that still count), a day and seven days. Other users of the quota
 * are seen only when the workspace refuses one of our requests: they used at least as many.
 */
function useOf(
  caller: string,
  times: { readonly [Time in 'window' | 'day' | 'week']: Uses },
  tokens: ReadonlyMap<string, GatewayToken>,
) {
  const { kind, id } = readCaller(caller);
  const usedIn = (time: keyof typeof times) => times[time].get(caller) ?? NONE;
  const uses = { window: usedIn('window'), day: usedIn('day'), week: usedIn('week') };
  return { caller, kind, name: nameOf(kind, id, tokens), ...uses, isEstimate: kind === 'others' };
}

const LANE_NAMES: { readonly [Each in Lane]: string } = {
  interactive: 'daemon: asked for by people',
  triage: 'daemon: triage',
  link: 'daemon: links',
  status: 'daemon: status changes',
  mirror: 'daemon: pull requests',
  read: 'daemon: reads',
  backfill: 'daemon: backfills',
};

function nameOf(kind: CallerKind, id: string, tokens: ReadonlyMap<string, GatewayToken>): string {
  switch (kind) {
    case 'daemon':
      return (LANE_NAMES as Readonly<Record<string, string>>)[id] ?? `daemon: ${id}`;
    case 'command':
      return 'commands';
    case 'token':
      return `gateway token "${tokens.get(id)?.description ?? 'deleted'}" (${id})`;
    case 'key':
      return `key with SHA-256 ${id}…`;
    case 'other keys':
      return id === CALLERS.wrongKeys ? 'keys that the workspace does not know' : 'other tokens and keys';
    case 'others':
      return 'others, not through worksync (estimate)';
  }
}

/** Others come last, because their figure is only an estimate. */
function byUse(one: CallerUse, other: CallerUse): number {
  return (
    Number(one.isEstimate) - Number(other.isEstimate) ||
    other.week.requests - one.week.requests ||
    other.window.requests - one.window.requests ||
    (one.caller < other.caller ? -1 : 1)
  );
}

function mapOf(uses: readonly Omit<QuotaUse, 'since'>[]): Uses {
  return new Map(uses.map(({ caller, requests, refused }) => [caller, { requests, refused }]));
}

/** Counts the requests in the ledger, which has all that still count, with monotonic times. */
async function usedInWindow(query: Parameters<typeof readLedger>[0], from: number): Promise<Map<string, Used>> {
  const uses = new Map<string, Used>();
  for (const { caller, lane, completed, status } of await readLedger(query)) {
    if (completed !== null && completed < from) continue;
    const { requests, refused } = uses.get(caller ?? lane) ?? NONE;
    uses.set(caller ?? lane, { requests: requests + 1, refused: refused + (status === 429 ? 1 : 0) });
  }
  return uses;
}

function folded(rows: readonly QuotaUse[], day: readonly Omit<QuotaUse, 'since'>[]): readonly QuotaUse[] {
  if (day.length <= MOST_DRAWN) return rows;
  const most = day.toSorted((one, other) => other.requests - one.requests).slice(0, MOST_DRAWN);
  const drawn = new Set(most.map(({ caller }) => caller));
  const sums = new Map<string, QuotaUse>();
  for (const { since, caller, requests, refused } of rows) {
    const shown = drawn.has(caller) ? caller : REST;
    const key = `${since} ${shown}`;
    const sum = sums.get(key) ?? { since, caller: shown, ...NONE };
    sums.set(key, { ...sum, requests: sum.requests + requests, refused: sum.refused + refused });
  }
  return [...sums.values()];
}

export const quotaOperations = {
  quota: operation({ body: emptySchema, run: describeQuota }),
  'quota-by-caller': operation({ body: emptySchema, run: quotaByCaller }),
};
