// Design: src/decisions/webhooks.md

import { beginOf, decisionOf } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { isDeadlock } from '../../platform/database/database-fault.ts';
import type { Clock, WakeSignal } from '../../platform/lib/clock.ts';
import { yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import type { Span } from '../../platform/lib/telemetry.ts';
import {
  type AppendedRow,
  appendForWorkspaces,
  countPending,
  type NewDelivery,
} from '../../store/deliveries/append-deliveries.ts';
import type { Installation } from '../../store/installation/installation.ts';
import type { StoreContext } from '../../store/store-context.ts';

export type Collector = ReturnType<typeof createCollector>;

/**
 * Appends deliveries to the inbox of one workspace.
 *
 * @param groupCommit shared by all workspaces of the process
 * @param wakeSignal notified after each commit that appended a delivery
 * @param mostPending the number of pending deliveries from which more are rejected
 */
export function createCollector(
  context: Pick<StoreContext, 'store' | 'clock'>,
  groupCommit: GroupCommit,
  wakeSignal: Pick<WakeSignal, 'notify'>,
  mostPending = 50_000,
) {
  const { store } = context;
  const bound = createInboxBound(context, mostPending);
  return {
    /**
     * Resolves once the delivery is durable. Throws `disk_full`, `database_failed` or `inbox_full`; then the sender
     * should repeat the delivery. If it was stored in spite of the error, the repeat is recognised.
     */
    async append(delivery: NewDelivery) {
      await bound.check();
      const row = await groupCommit.append(store.query.workspace, delivery);
      if (row.appended !== 'repeated') {
        bound.countAppended();
        wakeSignal.notify();
      }
      return row;
    },
    isCrowded: groupCommit.isCrowded,
  };
}

/** Makes deliveries of all workspaces durable. Deliveries that arrive together share one write to the disk. */
export type GroupCommit = ReturnType<typeof createGroupCommit>;

/** Limits of one commit, because everything else in the process waits while the disk writes. */
const MOST_IN_COMMIT = 64;
const MOST_BYTES_IN_COMMIT = 4 * 1024 * 1024;
/** The most turns of the event loop for which a delivery waits until others share its commit. */
const MOST_TURNS = 8;
/** Milliseconds after the last shared commit until a crowd counts as over: longer than a busy machine stalls. */
const CROWD = 250;

interface PendingAppend {
  readonly workspace: number;
  readonly delivery: NewDelivery;
  readonly resolve: (appended: AppendedRow) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Commits together the deliveries that arrive in successive turns of the event loop, or while a commit runs. A single
 * delivery waits for one turn. A commit is one INSERT, and one UPDATE for each repeat, without a transaction around them.
 */
export function createGroupCommit(
  { query, checkFileReplaced }: Pick<Installation, 'query' | 'checkFileReplaced'>,
  clock: Clock,
) {
  const queue: PendingAppend[] = [];
  let isRunning = false;
  let crowdedAt = Number.NEGATIVE_INFINITY;

  async function run(): Promise<void> {
    isRunning = true;
    try {
      while (queue.length > 0) {
        await waitForOthers();
        await appendBatch(takeBatch(queue));
      }
    } finally {
      isRunning = false;
    }
  }

  /** Lets more deliveries in, as long as each turn of the event loop brings some. */
  async function waitForOthers(): Promise<void> {
    for (let turn = 0, known = 0; turn < MOST_TURNS && queue.length > known && known < MOST_IN_COMMIT; turn++) {
      known = queue.length;
      await yieldToEventLoop();
    }
  }

  /** Never throws, because it settles each append of the batch. */
  async function appendBatch(batch: readonly PendingAppend[]): Promise<void> {
    try {
      const deliveries = batch.map(({ workspace, delivery }) => ({ ...delivery, workspace }));
      const rows = await appendAgainAfterDeadlock(deliveries);
      checkFile();
      for (const [index, { resolve }] of batch.entries()) resolve(rows[index] as AppendedRow);
    } catch (error) {
      for (const { reject } of batch) reject(asSyncError(error));
    }
    // After the commit, so that a slow one does not look like the end of the crowd.
    if (batch.length > 1) crowdedAt = clock.monotonic();
  }

  /** Replicas that get the same deliveries in another order wait for each other. Repeats are recognised, so nothing is stored twice. */
  async function appendAgainAfterDeadlock(deliveries: Parameters<typeof appendForWorkspaces>[1]) {
    try {
      return await appendForWorkspaces(query, deliveries, clock.now());
    } catch (error) {
      if (!isDeadlock(error)) throw error;
      return appendForWorkspaces(query, deliveries, clock.now());
    }
  }

  /** Throws if the database file was deleted or replaced, because then the commit is lost. */
  function checkFile(): void {
    const fault = checkFileReplaced();
    if (fault) throw fault;
  }

  return {
    /** Resolves once the delivery is durable. Throws the error of the commit. */
    append(workspace: number, delivery: NewDelivery) {
      return new Promise<AppendedRow>((resolve, reject) => {
        queue.push({ workspace, delivery, resolve, reject });
        if (!isRunning) void run();
      });
    },
    /** Whether deliveries arrive faster than the disk writes. Work that can wait should then wait. */
    isCrowded: () => clock.monotonic() - crowdedAt < CROWD,
  };
}

/** Removes the next deliveries within the limits of one commit, at least one. */
function takeBatch(queue: PendingAppend[]): PendingAppend[] {
  let bytes = 0;
  let count = 0;
  while (count < Math.min(queue.length, MOST_IN_COMMIT)) {
    bytes += (queue[count] as PendingAppend).delivery.body.length;
    if (count > 0 && bytes > MOST_BYTES_IN_COMMIT) break;
    count++;
  }
  return queue.splice(0, count);
}

/** The shortest time between two counts of the rows while the inbox is full, milliseconds. */
const RECOUNT = 1_000;
/** The delay until senders should repeat while the inbox is full, milliseconds. */
const FULL_RETRY = 30_000;

/**
 * Limits the pending rows without counting them for each request. `estimate` is the last count plus the rows appended
 * since then. Rows that were settled meanwhile make it too high, so the rows are counted again only when it reaches the
 * limit.
 */
function createInboxBound({ store, clock }: Pick<StoreContext, 'store' | 'clock'>, mostPending: number) {
  let estimate = Number.POSITIVE_INFINITY;
  let countedAt = Number.NEGATIVE_INFINITY;
  let counting: Promise<void> | undefined;

  async function recount(): Promise<void> {
    try {
      estimate = await countPending(store.query, mostPending);
      countedAt = clock.monotonic();
    } catch (error) {
      throw asSyncError(error);
    } finally {
      counting = undefined;
    }
  }

  return {
    /** Throws `inbox_full`. */
    async check(): Promise<void> {
      if (estimate < mostPending) return;
      if (clock.monotonic() - countedAt >= RECOUNT) {
        counting ??= recount();
        await counting;
      }
      if (estimate < mostPending) return;
      throw new SyncError('inbox_full', `${mostPending} deliveries are pending`, { retryAfter: FULL_RETRY });
    },
    countAppended(): void {
      estimate++;
    },
  };
}

/** The origin of a delivery, for its span. */
interface SpanInput {
  readonly connection: string;
  readonly event: string;
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
}

/**
 * Returns the span of an accepted webhook request. Trace headers of the request are ignored: otherwise a stranger could
 * choose which deliveries form one trace, and which are recorded.
 */
export function receiveSpan({ appended, id }: AppendedRow, input: SpanInput & { readonly status: number }): Span {
  const { connection, from, to } = input;
  const attributes = {
    'http.request.method': 'POST',
    'http.route': '/webhooks/:workspace/:connection',
    'http.response.status_code': input.status,
    ...attributesOf(input, id),
    'worksync.delivery.stored': appended,
  };
  // A repeat has no row of its own, so it is a trace of its own.
  const of = id === undefined ? { trace: `repeat ${connection} ${from}`, span: 'begin' } : beginOf(id);
  return { of, name: 'receive', kind: 'server', from, to, attributes };
}

/** Returns the span of a read at a vendor: a page, or the object that the delivery `wantedBy` named. */
export function readSpan(
  name: 'poll' | 'fetch' | 'backfill',
  { id = 0 }: AppendedRow,
  input: SpanInput & { readonly wantedBy?: number },
): Span {
  const { from, to, wantedBy } = input;
  const links = wantedBy === undefined ? [] : [decisionOf(wantedBy)];
  return { of: beginOf(id), links, name, kind: 'client', from, to, attributes: attributesOf(input, id) };
}

function attributesOf({ connection, event }: SpanInput, id: number | undefined) {
  return { 'worksync.connection': connection, 'worksync.event': event, 'worksync.delivery': id };
}
