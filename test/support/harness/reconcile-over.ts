import { createWakeSignal, systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import {
  type GuardLimits,
  PLAIN_RULES,
  type ReconcileConnection,
  type Rules,
} from '../../../src/sync/reconcile/context.ts';
import { createReconcile } from '../../../src/sync/reconcile/reconcile.ts';
import { createTravellingClock, type TravellingClock } from '../fakes/travelling-clock.ts';

interface Parts extends Pick<ReconcileConnection, 'translate'>, Partial<Pick<ReconcileConnection, 'worker'>> {
  readonly start?: number;
  readonly version?: string;
  readonly clock?: TravellingClock;
  readonly isCrowded?: () => boolean;
  readonly rules?: Rules;
  readonly guard?: GuardLimits;
}

/** Reconcile of the connection `main` at GitHub. */
export function reconcileOver(store: Store, parts: Parts) {
  const {
    start,
    version = '1.0.0',
    clock = createTravellingClock({ start }),
    isCrowded = () => false,
    rules = PLAIN_RULES,
    guard,
    ...source
  } = parts;
  const main: ReconcileConnection = {
    ...source,
    name: 'main',
    connector: { id: 'github', publicHost: 'github.com', capabilities: { pullRequests: true } },
    records: true,
    reference: ({ kind, key }) => ({ kind, key, locator: {} }),
  };
  return createReconcile({
    ...{ store, version, clock, random: systemRandom() },
    ...{ logger: silentLogger, meter: silentMeter, sources: new Map([['main', main]]) },
    ...{ inbox: createWakeSignal(), outbox: createWakeSignal(), fetches: createWakeSignal() },
    usedShare: () => 0,
    isCrowded,
    rules,
    guard,
  });
}
