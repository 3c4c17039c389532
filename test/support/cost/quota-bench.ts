import type { Lane } from '../../../src/model/change.ts';
import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import type { StoreContext } from '../../../src/store/store-context.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import type { QuotaOptions } from '../../../src/sync/quota/limits.ts';
import type { Slot } from '../../../src/sync/quota/slot.ts';
import { createThrottle, type Throttle } from '../../../src/sync/quota/throttle.ts';
import { createTravellingClock, type TravellingClock } from '../fakes/travelling-clock.ts';
import { openTestStore } from '../harness/intake.ts';

export const MINUTE = 60_000;

const QUOTA: QuotaOptions = {
  requests: 10,
  window: 15 * MINUTE,
  burst: 4,
  burstWindow: MINUTE,
  share: 1,
  concurrency: 4,
};

const random = { float: () => 0.5, uuid: () => 'none', bytes: (length: number) => Buffer.alloc(length) };

export interface QuotaBench {
  readonly clock: TravellingClock;
  readonly store: Store;
  readonly throttle: Throttle;
  /** Lanes and due times in the order in which they got a slot. */
  readonly granted: string[];
  acquire(lane: Lane, due?: number, signal?: AbortSignal): Promise<Slot>;
  send(lane: Lane, due?: number, status?: number, retryAfter?: number): Promise<void>;
  spend(count: number, lane?: Lane): Promise<void>;
  /** Opens another throttle over the same store and clock. Without `throttle.stop` before it, this is a crash. */
  restart(quota?: Partial<QuotaOptions>): Promise<QuotaBench>;
}

type BenchParts = Partial<Pick<StoreContext, 'store' | 'logger'>> & { readonly clock?: TravellingClock };

export async function openQuotaBench(quota: Partial<QuotaOptions> = {}, parts: BenchParts = {}): Promise<QuotaBench> {
  const { clock = createTravellingClock(), store = await openTestStore(), logger = silentLogger } = parts;
  const options = { store, clock, random, logger, meter: silentMeter };
  const throttle = await createThrottle(options, { ...QUOTA, ...quota });
  const granted: string[] = [];
  const acquire: QuotaBench['acquire'] = async (lane, due = 1, signal) => {
    const slot = await throttle.acquire({ lane, due, signal });
    granted.push(`${lane} ${due}`);
    await store.commit((query) => slot.record(query));
    return slot;
  };
  const send: QuotaBench['send'] = async (lane, due, status = 200, retryAfter) => {
    const slot = await acquire(lane, due);
    await slot.complete({ status, retryAfter });
  };
  return {
    ...{ clock, store, throttle, granted, acquire, send },
    async spend(count, lane = 'mirror') {
      for (let sent = 0; sent < count; sent += 1) await send(lane);
    },
    restart: (changed = {}) => openQuotaBench({ ...quota, ...changed }, { clock, store, logger }),
  };
}
