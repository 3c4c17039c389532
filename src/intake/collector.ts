import { asSyncError, SyncError } from '../errors/sync-error.ts';
import type { Bell } from '../lib/bell.ts';
import type { Clock } from '../lib/clock.ts';
import { nextTurn } from '../lib/turn.ts';
import { type Appended, appendDeliveries, countPending, type NewDelivery } from '../store/append-deliveries.ts';
import type { Store } from '../store/database.ts';

export interface Collector {
  /**
   * Resolves when the delivery is durable, and only then. Throws what kept it from being so: `disk_full`,
   * `database_failed`, `inbox_full`. The sender is then told to come again; whatever was stored after all is a repeat.
   */
  append(delivery: NewDelivery): Promise<Appended>;
  /** Whether deliveries come faster than the disk writes, so that whatever else can wait should let them go first. */
  isCrowded(): boolean;
}

export interface CollectorDeps {
  readonly store: Store;
  readonly clock: Clock;
  /** Rung after each commit that left something to reconcile. */
  readonly bell: Bell;
  /** More pending deliveries than this are refused. */
  readonly mostPending?: number;
}

/** Bounds of one commit, which holds up everything else in the process while the disk writes. */
const MOST_IN_COMMIT = 64;
const MOST_BYTES_IN_COMMIT = 4 * 1024 * 1024;
/** Turns of the event loop that a delivery waits at most for others to share its commit. */
const MOST_TURNS = 8;

/** A crowd has passed when no two deliveries shared a commit for this time, milliseconds: longer than a busy machine stalls. */
const CROWD = 250;

interface Waiting {
  readonly delivery: NewDelivery;
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Group commit: what arrives in successive turns of the event loop, or while a commit runs, becomes durable with one
 * write to the disk. A lone delivery waits for nobody.
 */
export function createCollector(deps: CollectorDeps): Collector {
  const gate = createGate(deps);
  const waiting: Waiting[] = [];
  let running = false;
  let crowdedAt = Number.NEGATIVE_INFINITY;

  async function run(): Promise<void> {
    running = true;
    try {
      while (waiting.length > 0) {
        await gather();
        await commit(takeBatch(waiting));
      }
    } finally {
      running = false;
    }
  }

  /** Lets more of a crowd in, for as long as each turn of the event loop brings some. */
  async function gather(): Promise<void> {
    for (let turn = 0, seen = 0; turn < MOST_TURNS && waiting.length > seen && seen < MOST_IN_COMMIT; turn++) {
      seen = waiting.length;
      await nextTurn();
    }
  }

  /** Never throws: each of the batch hears how it went. */
  async function commit(batch: readonly Waiting[]): Promise<void> {
    try {
      const deliveries = batch.map(({ delivery }) => delivery);
      const appended = await appendDeliveries(deps.store.query, deliveries, deps.clock.now());
      checkPlace();
      const fresh = appended.filter((outcome) => outcome !== 'repeated').length;
      gate.entered(fresh);
      for (const [index, { resolve }] of batch.entries()) resolve(appended[index] as Appended);
      if (fresh > 0) deps.bell.ring();
    } catch (error) {
      for (const { reject } of batch) reject(asSyncError(error));
    }
    // After the commit: a slow one must not look like the end of the crowd.
    if (batch.length > 1) crowdedAt = deps.clock.monotonic();
  }

  /** A commit into a file that is gone is a promise to nobody. Throws where another one will be read. */
  function checkPlace(): void {
    const fault = deps.store.look();
    if (fault) throw fault;
  }

  return {
    async append(delivery) {
      await gate.open();
      return new Promise((resolve, reject) => {
        waiting.push({ delivery, resolve, reject });
        if (!running) void run();
      });
    },
    isCrowded: () => deps.clock.monotonic() - crowdedAt < CROWD,
  };
}

function takeBatch(waiting: Waiting[]): Waiting[] {
  let bytes = 0;
  let count = 0;
  while (count < Math.min(waiting.length, MOST_IN_COMMIT)) {
    bytes += (waiting[count] as Waiting).delivery.body.length;
    if (count > 0 && bytes > MOST_BYTES_IN_COMMIT) break;
    count++;
  }
  return waiting.splice(0, count);
}

const DEFAULT_MOST_PENDING = 50_000;
/** While full, the rows are counted at most this often, milliseconds. */
const RECOUNT = 1_000;
/** What senders are told to wait while the inbox is full, milliseconds. */
const FULL_RETRY = 30_000;

interface Gate {
  open(): Promise<void>;
  entered(count: number): void;
}

/**
 * Keeps the inbox bounded without counting rows for each request. `estimate` is the last count plus what entered since:
 * it only errs upwards, so rows are counted again only when it reaches the bound.
 */
function createGate({ store, clock, mostPending = DEFAULT_MOST_PENDING }: CollectorDeps): Gate {
  let estimate = Number.POSITIVE_INFINITY;
  let countedAt = Number.NEGATIVE_INFINITY;
  let counting: Promise<void> | undefined;

  async function recount(): Promise<void> {
    try {
      const count = await countPending(store.query, mostPending);
      estimate = count;
      countedAt = clock.monotonic();
    } catch (error) {
      throw asSyncError(error);
    } finally {
      counting = undefined;
    }
  }

  return {
    async open() {
      if (estimate < mostPending) return;
      if (clock.monotonic() - countedAt >= RECOUNT) {
        counting ??= recount();
        await counting;
      }
      if (estimate < mostPending) return;
      throw new SyncError('inbox_full', `${mostPending} deliveries are pending`, { retryAfter: FULL_RETRY });
    },
    entered(count) {
      estimate += count;
    },
  };
}
