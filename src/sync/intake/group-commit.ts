import { asSyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import { type AppendedRow, appendForAll, type NewDelivery } from '../../store/append-deliveries.ts';
import type { Store } from '../../store/database.ts';
import type { Sql } from '../../store/workspace-scope.ts';

/** Makes deliveries durable: those of all workspaces that come together, with one write to the disk. */
export interface GroupCommit {
  /** Resolves when the delivery is durable, and only then. Throws what kept it from being so. */
  append(workspace: number, delivery: NewDelivery): Promise<AppendedRow>;
  /** Whether deliveries come faster than the disk writes, so that whatever else can wait should wait for them. */
  isCrowded(): boolean;
}

interface GroupCommitDeps extends Pick<Store, 'look'> {
  readonly sql: Sql;
  readonly clock: Clock;
}

/** Bounds of one commit, which holds up everything else in the process while the disk writes. */
const MOST_IN_COMMIT = 64;
const MOST_BYTES_IN_COMMIT = 4 * 1024 * 1024;
/** Turns of the event loop that a delivery waits at most for others to share its commit. */
const MOST_TURNS = 8;

/** A crowd has passed when no two deliveries shared a commit for this time, milliseconds: longer than a busy machine stalls. */
const CROWD = 250;

interface Waiting {
  readonly workspace: number;
  readonly delivery: NewDelivery;
  readonly resolve: (appended: AppendedRow) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * What arrives in successive turns of the event loop, or while a commit runs, becomes durable at once. A lone delivery does not
 * wait.
 */
export function createGroupCommit({ sql, look, clock }: GroupCommitDeps): GroupCommit {
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
      await yieldToEventLoop();
    }
  }

  /** Never throws: it settles each delivery of the batch. */
  async function commit(batch: readonly Waiting[]): Promise<void> {
    try {
      const deliveries = batch.map(({ workspace, delivery }) => ({ ...delivery, workspace }));
      const appended = await appendForAll(sql, deliveries, clock.now());
      checkPlace();
      for (const [index, { resolve }] of batch.entries()) resolve(appended[index] as AppendedRow);
    } catch (error) {
      for (const { reject } of batch) reject(asSyncError(error));
    }
    // After the commit: a slow one must not look like the end of the crowd.
    if (batch.length > 1) crowdedAt = clock.monotonic();
  }

  /** A commit into a file that is gone is a promise to nobody. Throws where another one will be read. */
  function checkPlace(): void {
    const fault = look();
    if (fault) throw fault;
  }

  return {
    append(workspace, delivery) {
      return new Promise((resolve, reject) => {
        waiting.push({ workspace, delivery, resolve, reject });
        if (!running) void run();
      });
    },
    isCrowded: () => clock.monotonic() - crowdedAt < CROWD,
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
