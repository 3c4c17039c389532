import type { Store } from '../../../src/store/workspace-scope.ts';
import {
  type GuardLimits,
  PLAIN_RULES,
  type ReconcileConnection,
  type Rules,
} from '../../../src/sync/reconcile/context.ts';
import { createReconcile } from '../../../src/sync/reconcile/reconcile.ts';
import type { WorkspaceContext } from '../../../src/sync/workspace-context.ts';
import { createTravellingClock, type TravellingClock } from '../fakes/travelling-clock.ts';
import { workspaceContext } from './workspace-context.ts';

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
  const collector = { isCrowded } as WorkspaceContext['collector'];
  const sources = new Map([['main', main]]);
  return createReconcile(workspaceContext({ store, version, clock, sources, collector, rules }, { guard }));
}
