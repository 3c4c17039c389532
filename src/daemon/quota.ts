import type { Clock } from '../lib/clock.ts';
import { LANES, type Lane } from '../model/lane.ts';
import { waitingByLane } from '../store/outbox.ts';
import type { Throttle } from '../throttle/throttle.ts';
import type { Partition } from './partition.ts';

/** The quota of one workspace as it is now, and when what waits will have been sent. Times are epoch milliseconds. */
export interface QuotaReport extends Omit<ReturnType<Throttle['snapshot']>, 'waiting'> {
  readonly at: number;
  /** Changes that wait in each lane; commands and callers of the gateway are `interactive`. */
  readonly lanes: Readonly<Record<Lane, number>>;
  /** When the last of the requests that wait can be sent, if nothing more comes and the share stays as it is. */
  readonly forecast: { readonly requests: number; readonly drainedAt: number };
}

export async function describeQuota({ store, throttle }: Partition, clock: Clock): Promise<QuotaReport> {
  const { waiting, ...snapshot } = throttle.snapshot();
  const lanes = Object.fromEntries(LANES.map((lane) => [lane, 0])) as Record<Lane, number>;
  for (const { lane, count } of await waitingByLane(store.query)) lanes[lane] = count;
  lanes.interactive += waiting.interactive;
  const requests = Object.values(lanes).reduce((sum, count) => sum + count, 0);
  const forecast = { requests, drainedAt: throttle.drainedAt(requests) };
  return { ...snapshot, at: clock.now(), lanes, forecast };
}
