// Design: src/decisions/polls-and-walks.md

import type { PollPage } from '../../connectors/connector.ts';
import type { SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { sha256Of } from '../../platform/lib/digest.ts';
import type { Random } from '../../platform/lib/random.ts';
import type { Tracer } from '../../platform/lib/tracer.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { type AppendedRow, appendDeliveries } from '../../store/append-deliveries.ts';
import { packBodyAsync, type StoredBody } from '../../store/bodies.ts';
import type { Store } from '../../store/database.ts';
import { loadPollState, type PollState, savePollState, type Walk } from '../../store/poll-states.ts';
import type { ActiveConnection } from './active-connection.ts';
import { readSpan } from './intake-spans.ts';
import { afterPage, afterUnchanged, faultAfter, isSamePage, positionOf, walkOf } from './position.ts';

export interface WalkDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  /** Notified when a page is in the inbox. */
  readonly inbox: WakeSignal;
  readonly tracer?: Tracer;
}

export type WalkOutcome = 'complete' | 'unchanged';

/**
 * Reads a unit to its end, from where its last walk stopped. Each page and the position after it are one transaction:
 * a process that dies in between reads one page again and stores none twice. Throws what the connection and the database throw,
 * and `list_endless` where the vendor names pages on and on.
 */
export async function walkUnit(
  deps: WalkDeps,
  active: ActiveConnection,
  unit: string,
  signal: AbortSignal,
): Promise<WalkOutcome> {
  for (;;) {
    const state = await loadPollState(deps.store.query, active.name, unit);
    const walk = walkOf(state, deps.clock.now());
    const version = active.names?.version();
    const from = deps.clock.now();
    const page = await active.connection.poll(positionOf(unit, state, walk), signal);
    const next = await take(state, walk, page, deps.clock);
    // If a name was bound again meanwhile, what was read under it belongs to another thing.
    const isStill = () => active.names?.version() === version;
    if (!(await save(deps, active.name, { unit, taken: next, from, isStill }))) continue;
    if (next.fault) throw next.fault;
    if (next.isLast) return next.page ? 'complete' : 'unchanged';
    signal.throwIfAborted();
  }
}

interface Taken {
  readonly state: PollState;
  readonly isLast: boolean;
  /** Why the walk stops behind this page. */
  readonly fault?: SyncError;
  /** What goes to the inbox. */
  readonly page?: Extract<PollPage, { outcome: 'page' }>;
  readonly packed?: StoredBody;
}

/** A large body is worked through while the main thread goes on. */
async function take(state: PollState, walk: Walk, page: PollPage, clock: Clock): Promise<Taken> {
  if (page.outcome === 'unchanged') return { state: afterUnchanged(state, walk), isLast: true };
  const digest = await sha256Of(page.body);
  const after = afterPage(state, walk, page, digest, clock.now());
  const isLast = page.next === undefined;
  if (isSamePage(state, walk, page, digest)) return { state: after, isLast };
  const fault = faultAfter(walk, page);
  return { state: after, isLast, page, packed: await packBodyAsync(page.body), ...(fault && { fault }) };
}

interface Saved {
  readonly unit: string;
  readonly taken: Taken;
  /** When the page was asked for, epoch milliseconds. */
  readonly from: number;
  isStill(): boolean;
}

/** @returns whether it was kept */
async function save(
  deps: WalkDeps,
  connection: string,
  { unit, taken: { state, isLast, page, packed }, from, isStill }: Saved,
): Promise<boolean> {
  const now = deps.clock.now();
  const saved = await deps.store.commit(async (transaction) => {
    if (!isStill()) return undefined;
    const rows: AppendedRow[] = [];
    if (page) {
      const key = `poll:${deps.random.uuid()}`;
      const delivery = { connection, key, source: 'poll' as const, event: page.event, body: page.body, packed };
      rows.push(...(await appendDeliveries(transaction, [delivery], now)));
    }
    await savePollState(transaction, connection, unit, state, isLast ? now : undefined);
    return rows;
  });
  if (!saved) return false;
  if (page) deps.inbox.notify();
  const [row] = saved;
  if (page && row)
    deps.tracer?.record(readSpan('poll', row, { connection, event: page.event, from, to: deps.clock.now() }));
  return true;
}
