// Design: src/decisions/polls-and-walks.md

import { asSyncError, SyncError } from '../../model/errors.ts';
import { sleep } from '../../platform/lib/clock.ts';
import {
  type Extended,
  extendTrail,
  NO_PAGES,
  type PageTrail,
  type TrailedPage,
  type TrailFault,
} from '../../platform/lib/page-trail.ts';
import { ALL_UNITS } from '../../store/connections/unit-states.ts';
import { type AppendedRow, appendDeliveries, type NewDelivery } from '../../store/deliveries/append-deliveries.ts';
import { packBodyAsync } from '../../store/deliveries/inbox.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { WorkspaceContext } from '../workspace-context.ts';
import { readSpan } from './append.ts';

/** The position of a unit. The unit `ALL_UNITS` stands for the list of units, as long as that was not read. */
interface Target {
  readonly unit: string;
}

/** A page that was read, and the trail of the pages before it. */
type Read = TrailedPage & { readonly trail?: PageTrail | undefined };

/** The pages of one connection that a poll, a backfill or a sweep reads, and what it keeps of them. */
export interface PageSelection<Position extends Target, Page extends Read | undefined> {
  readonly connection: string;
  readonly reader: keyof typeof READERS;
  /** Waits until a page may be requested, and returns its position. Returns undefined when nothing is left to read. */
  next(): Promise<Position | undefined>;
  /** Reads the units of the connection, and selects among them. */
  selectUnits(position: Position): Promise<void>;
  request(position: Position): Promise<Page>;
  /** Stores the page and the position after it in one transaction, so that a crash loses no page and stores none twice. */
  keep(position: Position, page: Page, extended: Extended): Promise<void>;
  /**
   * Decides where to continue. A rate limit pauses the connection for `limit` milliseconds.
   *
   * @returns how to store the failure; undefined if the page is requested again and nothing is reported
   */
  onFailure(position: Position, error: SyncError, limit: number): ((query: Scope) => Promise<void>) | undefined;
}

/** The use of the vendor's rate limit, and the metric that counts failures. */
const READERS = {
  poll: { use: 'poll', metric: 'polls_total' },
  backfill: { use: 'background', metric: 'backfill_pages_total' },
  sweep: { use: 'background', metric: 'sweeps_total' },
} as const;

/** Reads the selected pages one after the other, until nothing is left or the signal aborts. Throws only what `next` throws. */
export async function readPages<Position extends Target, Page extends Read | undefined>(
  context: WorkspaceContext,
  selection: PageSelection<Position, Page>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const position = await selection.next();
    if (position === undefined || signal.aborted) return;
    try {
      if (position.unit === ALL_UNITS) {
        await selection.selectUnits(position);
        continue;
      }
      const page = await selection.request(position);
      const extended = extendTrail(page?.trail ?? NO_PAGES, page ?? {});
      await selection.keep(position, page, extended);
      if (extended.fault) throw endlessList(extended.fault);
    } catch (thrown) {
      if (signal.aborted) return;
      await recordFailure(context, selection, position, asSyncError(thrown));
    }
  }
}

/** A commit checks the lease, so a process that has lost the workspace stores no failure for its new owner. */
async function recordFailure<Position extends Target>(
  { store, pauses, meter, logger }: WorkspaceContext,
  { connection, reader, onFailure }: Pick<PageSelection<Position, never>, 'connection' | 'reader' | 'onFailure'>,
  position: Position,
  error: SyncError,
): Promise<void> {
  const { use, metric } = READERS[reader];
  const limit = pauses.recordFailure(connection, error, use);
  const record = onFailure(position, error, limit);
  if (!record) return;
  const isOff = error.code === 'feature_off';
  const fields = { connection, unit: position.unit };
  meter.count(metric, { connection, outcome: isOff ? 'off' : limit > 0 ? 'limited' : 'failed' });
  logger[isOff ? 'debug' : 'warn']({ ...fields, code: error.code, error }, `${reader} failed`);
  await store
    .commit(record)
    .catch((reason: unknown) => logger.error({ ...fields, error: reason }, `failure of a ${reader} not recorded`));
}

/** Resolves when the connection is free for background work, or when the signal aborts. */
export async function waitWhilePaused(
  { clock, pauses }: WorkspaceContext,
  connection: string,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const left = pauses.left(connection, 'background');
    if (left === 0) return;
    await sleep(clock, left, signal);
  }
}

/** Returns the error of a list whose pages do not end. */
export function endlessList({ message }: TrailFault): SyncError {
  return new SyncError('list_endless', `the list was left: ${message}`);
}

/** The result of a read at a vendor, to append to the inbox. */
interface ReadDelivery extends NewDelivery {
  readonly source: 'poll' | 'backfill' | 'fetch';
  /** The time of the request, epoch milliseconds. Absent: it is not traced. */
  readonly from?: number;
  /** The delivery that requested the read. */
  readonly wantedBy?: number;
}

/**
 * Appends what was read at a vendor. Large bodies are compressed outside the main thread.
 *
 * @param save runs in the same transaction. If it returns false, the read is not appended.
 * @returns the new row; undefined if it was not appended
 */
export async function appendRead(
  { store, clock, inbox, tracer }: WorkspaceContext,
  read: ReadDelivery,
  save: (query: Scope, now: number) => Promise<boolean> = async () => true,
): Promise<AppendedRow | undefined> {
  const packed = read.packed ?? (await packBodyAsync(read.body));
  const row = await store.commit(async (transaction) => {
    const now = clock.now();
    return (await save(transaction, now))
      ? (await appendDeliveries(transaction, [{ ...read, packed }], now))[0]
      : undefined;
  });
  if (!row) return undefined;
  inbox.notify();
  const { from } = read;
  if (from !== undefined) tracer?.record(readSpan(read.source, row, { ...read, from, to: clock.now() }));
  return row;
}
