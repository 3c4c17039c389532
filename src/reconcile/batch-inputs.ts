import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import { highestTaskKeys } from '../store/cached-tasks.ts';
import type { Store } from '../store/database.ts';
import type { Surroundings } from './batch.ts';
import type { Moment, Sources } from './context.ts';
import type { Rules } from './item-rules.ts';
import { type KeyHorizon, keyHorizon } from './key-horizon.ts';
import type { GuardLimits } from './mass-change-guard.ts';

export interface BatchInputsDeps {
  readonly store: Store;
  readonly sources: Sources;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly usedShare: () => number;
  readonly visibility?: number;
  readonly rules?: Rules;
  readonly guard?: GuardLimits;
}

/** What a batch needs to know beside its deliveries. */
export interface BatchInputs {
  moment(): Moment;
  /** Not within a transaction: it may read of its own. */
  around(): Promise<Surroundings>;
  /** Tasks were added or renamed: the highest keys are read again. */
  tasksChanged(): void;
}

export function createBatchInputs(deps: BatchInputsDeps): BatchInputs {
  const { store, sources, clock, logger, rules, guard } = deps;
  let horizon: KeyHorizon | undefined;
  return {
    moment: () => ({ now: clock.now(), usedShare: deps.usedShare(), visibility: deps.visibility }),
    async around() {
      horizon ??= keyHorizon(await highestTaskKeys(store.query));
      return { sources, horizon, logger, rules, guard };
    },
    tasksChanged() {
      horizon = undefined;
    },
  };
}
