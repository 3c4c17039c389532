import type { Foundation, Write } from '../storage/transactions.ts';
import { ApiError } from './api-error.ts';

/**
 * Counts requests against both windows, in memory for speed and in `quota_log` for restarts.
 *
 * Slots are taken in rows of `slotsPerRow`: a row is committed before the first request that uses it is answered, and
 * the following ones use it without any disk access. With the caps of the specification a row is one request, so the
 * counts after a kill are exact; with caps of thousands a row is a block, and what a kill leaves unused of the last
 * block counts as used. The counts can so be too high by a fortieth of a cap, and never too low. A write's row joins
 * the same group commit as the write itself.
 *
 * Time is monotonic: a jump of the wall clock frees nothing. Rows of another boot count as if they had just come.
 */
export interface QuotaLog {
  /**
   * Takes a slot for a request with this key, or throws 429. Resolves when the slot is durable; the answer must wait for it.
   * Undefined where nothing is limited.
   */
  take(workspaceId: string, apiKeyId: string): Promise<void> | undefined;
  /** The received requests by key, independent of what the clients count. */
  byKey(): ReadonlyMap<string, KeyStatistics>;
}

/** Requests of one API key since the service started. */
export interface KeyStatistics {
  /** All that carried the key, refused ones included. */
  readonly received: number;
  /** Answered 429. */
  readonly refused: number;
}

interface Counted {
  readonly windows: Windows;
  /** Slots of the present row that no request has used yet. */
  left: number;
  durable: Promise<void>;
}

export async function openQuotaLog(service: Foundation, quota: Quota): Promise<QuotaLog> {
  const isLimited = quota.requests > 0 || quota.burst > 0;
  if (isLimited) await redateOtherBoots(service);
  const workspaces = isLimited ? await readCounts(service, quota) : new Map<string, Counted>();
  const keys = new Map<string, KeyStatistics>();
  return {
    take(workspaceId, apiKeyId) {
      const { received, refused } = keys.get(apiKeyId) ?? { received: 0, refused: 0 };
      keys.set(apiKeyId, { received: received + 1, refused });
      if (!isLimited) return undefined;
      const counted = workspaces.get(workspaceId) ?? freshCount(quota);
      workspaces.set(workspaceId, counted);
      const wait = counted.windows.wait(service.clock.monotonic());
      if (wait === 0) return takeSlot(service, quota, workspaceId, counted);
      keys.set(apiKeyId, { received: received + 1, refused: refused + 1 });
      throw rateLimited(wait);
    },
    byKey: () => keys,
  };
}

function freshCount(quota: Quota): Counted {
  return { windows: createWindows(quota), left: 0, durable: Promise.resolve() };
}

function takeSlot(service: Foundation, quota: Quota, workspaceId: string, counted: Counted): Promise<void> {
  const at = service.clock.monotonic();
  counted.windows.add(at);
  if (counted.left === 0) {
    const slots = slotsPerRow(quota);
    const row = { workspace_id: workspaceId, boot: service.clock.bootId, at, slots };
    counted.left = slots;
    counted.durable = service.commits.run(async (write) => {
      const { insertId } = await write.insertInto('quota_log').values(row).executeTakeFirst();
      if (Number(insertId) % PURGE_EVERY === 0)
        await purge(write, workspaceId, at - Math.max(quota.window, quota.burstWindow));
    });
    // Every request that waits for the row sees the failure itself; the next one reserves anew.
    counted.durable.catch(() => {
      counted.left = 0;
    });
  }
  counted.left -= 1;
  return counted.durable;
}

/** Rows between two purges: keeps the table within a small multiple of a window's rows. */
const PURGE_EVERY = 100;

/** The newest of the old rows stays: its slots may have been used until the row after it began. */
async function purge(write: Write, workspaceId: string, before: number): Promise<void> {
  const newestOld = await write
    .selectFrom('quota_log')
    .select((expression) => expression.fn.max('id').as('id'))
    .where('workspace_id', '=', workspaceId)
    .where('at', '<', before)
    .executeTakeFirst();
  if (newestOld?.id == null) return;
  await write.deleteFrom('quota_log').where('workspace_id', '=', workspaceId).where('id', '<', newestOld.id).execute();
}

/** `n` is whole seconds, rounded up, at least 1 (W68, W72). */
function rateLimited(wait: number): ApiError {
  const seconds = Math.max(1, Math.ceil(wait / 1_000));
  return new ApiError('rate_limit_exceeded', `standard rate limit exceeded, retry in ${seconds} seconds`, {
    'retry-after': String(seconds),
  });
}

/** Monotonic times of different boots cannot be compared: what another boot counted is taken as counted just now. */
async function redateOtherBoots({ database, clock }: Foundation): Promise<void> {
  await database.query
    .updateTable('quota_log')
    .set({ boot: clock.bootId, at: clock.monotonic() })
    .where('boot', '!=', clock.bootId)
    .execute();
}

async function readCounts({ database, clock }: Foundation, quota: Quota): Promise<Map<string, Counted>> {
  const rows = await database.query.selectFrom('quota_log').selectAll().orderBy('id').execute();
  const now = clock.monotonic();
  const workspaces = new Map<string, Counted>();
  for (const [workspaceId, own] of Map.groupBy(rows, (row) => row.workspace_id)) {
    const counted = freshCount(quota);
    for (const [at, row] of own.entries()) {
      // A single slot was used when its row was written; those of a block at the latest when the next row began.
      const used = row.slots === 1 ? row.at : (own[at + 1]?.at ?? now);
      for (let slot = 0; slot < row.slots; slot++) counted.windows.add(Math.min(used, now));
    }
    workspaces.set(workspaceId, counted);
  }
  return workspaces;
}

/** Both caps of a workspace (W69, W70). A cap of 0 lifts it. Lengths are milliseconds. */
export interface Quota {
  readonly requests: number;
  readonly window: number;
  readonly burst: number;
  readonly burstWindow: number;
}

/** Counts of one workspace. Times must not go backwards. */
interface Windows {
  /** Milliseconds until a request would be accepted; 0 when it would be now. The longer wait of both windows. */
  wait(now: number): number;
  add(at: number): void;
}

/** Both windows slide: in any span as long as a window at most its cap is accepted. */
function createWindows(quota: Quota): Windows {
  const windows = [createWindow(quota.requests, quota.window), createWindow(quota.burst, quota.burstWindow)];
  return {
    wait: (now) => Math.max(...windows.map((window) => window.wait(now))),
    add: (at) => {
      for (const window of windows) window.add(at);
    },
  };
}

/** Only the last `cap` times matter: the oldest of them decides when the next is free. Kept as a ring. */
function createWindow(cap: number, length: number): Windows {
  const times: number[] = [];
  let oldest = 0;
  return {
    wait: (now) => (cap === 0 || times.length < cap ? 0 : Math.max(0, times[oldest]! + length - now)),
    add(at) {
      if (cap === 0) return;
      times[oldest] = at;
      oldest = (oldest + 1) % cap;
    },
  };
}

/** Slots that one row of the log stands for: one while the caps are small, never more than a fortieth of a cap. */
function slotsPerRow(quota: Quota): number {
  const caps = [quota.requests, quota.burst].filter((cap) => cap > 0);
  return Math.max(1, Math.floor(Math.min(...caps) / 40));
}
