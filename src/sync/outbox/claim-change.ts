import { type Clock, sleep } from '../../platform/lib/clock.ts';
import type { Store } from '../../store/database.ts';
import type { DueChange } from '../../store/next-change.ts';
import type { ChangeSelection } from './change-selection.ts';
import { type Prepared, prepareNext } from './prepare.ts';
import type { Slot, Slots } from './send-context.ts';

export interface TakeDeps {
  readonly store: Store;
  readonly throttle: Slots;
  readonly clock: Clock;
  readonly choice: ChangeSelection;
}

/** A backfill delays nobody: undefined if something else is due, or may become due, before it has a slot. */
export async function slotFor(
  { throttle, clock, choice }: TakeDeps,
  { lane, due }: DueChange,
  news: Promise<void>,
  signal: AbortSignal,
): Promise<Slot | undefined> {
  if (lane !== 'backfill') return throttle.acquire({ lane, due, signal });
  const live = await choice.nextLive();
  const woken = new AbortController();
  const gone = AbortSignal.any([signal, woken.signal]);
  if (live !== undefined) void sleep(clock, Math.max(0, live.at - clock.now()), gone).then(() => woken.abort());
  void news.then(() => woken.abort());
  try {
    return await throttle.acquire({ lane, due, signal: gone });
  } catch (error) {
    if (signal.aborted || !woken.signal.aborted) throw error;
    return undefined;
  } finally {
    woken.abort();
  }
}

/**
 * One transaction takes the change that goes next, stores its request and writes the ledger row. The request is dated within that
 * transaction, because it may have waited for others: what they stored came before this request.
 */
export async function claimChange(
  { store, clock, choice }: TakeDeps,
  slot: Slot,
  { entity, askedAt }: { readonly entity: string | undefined; readonly askedAt: number },
): Promise<Prepared | undefined> {
  const slotAt = clock.now();
  try {
    const eligible = await choice.eligible();
    const prepared = await store.commit(async (transaction) => {
      const next = await prepareNext(transaction, { ...eligible, now: clock.now() }, entity, { askedAt, slotAt });
      if (next) await slot.record(transaction);
      return next;
    });
    if (!prepared) slot.release();
    return prepared;
  } catch (error) {
    slot.release();
    throw error;
  }
}

/** Until the time has passed or something more urgent may have come. */
export async function waitFor(clock: Clock, ms: number, news: Promise<void>, signal: AbortSignal): Promise<void> {
  const woken = new AbortController();
  const timer = sleep(clock, ms, AbortSignal.any([signal, woken.signal]));
  await Promise.race([timer, news]);
  woken.abort();
}
