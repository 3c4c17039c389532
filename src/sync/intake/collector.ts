import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { type AppendedRow, countPending, type NewDelivery } from '../../store/append-deliveries.ts';
import type { Store } from '../../store/database.ts';
import { createGroupCommit, type GroupCommit } from './group-commit.ts';

export interface Collector {
  /**
   * Resolves when the delivery is durable, and only then. Throws what kept it from being so: `disk_full`,
   * `database_failed`, `inbox_full`. The sender is then asked to repeat it; if it was stored after all, the repeat is recognised.
   */
  append(delivery: NewDelivery): Promise<AppendedRow>;
  /** Whether deliveries come faster than the disk writes, so that whatever else can wait should wait for them. */
  isCrowded(): boolean;
}

export interface CollectorDeps {
  readonly store: Store;
  readonly clock: Clock;
  /** That of the process; absent: one of its own. */
  readonly groupCommit?: GroupCommit;
  /** Notified after each commit that appended deliveries. */
  readonly wakeSignal: WakeSignal;
  /** More pending deliveries than this are refused. */
  readonly mostPending?: number;
}

/** The part that concerns one workspace: how much may be pending, and whom to wake. */
export function createCollector(deps: CollectorDeps): Collector {
  const { store, clock, wakeSignal } = deps;
  const { groupCommit = createGroupCommit({ sql: store.query.whole, look: store.look, clock }) } = deps;
  const gate = createGate(deps);
  return {
    async append(delivery) {
      await gate.open();
      const row = await groupCommit.append(store.query.workspace, delivery);
      if (row.appended !== 'repeated') {
        gate.entered(1);
        wakeSignal.notify();
      }
      return row;
    },
    isCrowded: groupCommit.isCrowded,
  };
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
