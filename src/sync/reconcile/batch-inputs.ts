import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import { highestTaskKeys, taskIdPrefixes } from '../../store/cached-tasks.ts';
import type { Store } from '../../store/database.ts';
import type { Surroundings } from './batch.ts';
import type { EvaluationContext, Sources } from './context.ts';
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
  /** The conditions of a transaction; call `around` first. */
  moment(): EvaluationContext;
  /** Not within a transaction: it may read of its own. */
  around(): Promise<Surroundings>;
  /** Not within a transaction: it may read of its own. */
  idPrefixes(): Promise<readonly string[]>;
  /** Tasks were added or renamed: the highest keys and the prefixes of ids are read again. */
  tasksChanged(): void;
}

export function createBatchInputs(deps: BatchInputsDeps): BatchInputs {
  const { store, sources, clock, logger, rules, guard } = deps;
  let horizon: KeyHorizon | undefined;
  let prefixes: readonly string[] | undefined;
  async function idPrefixes(): Promise<readonly string[]> {
    prefixes ??= await taskIdPrefixes(store.query);
    return prefixes;
  }
  return {
    moment: () => ({
      now: clock.now(),
      usedShare: deps.usedShare(),
      visibility: deps.visibility,
      idPrefixes: prefixes,
    }),
    async around() {
      horizon ??= keyHorizon(await highestTaskKeys(store.query));
      await idPrefixes();
      return { sources, horizon, logger, rules, guard };
    },
    idPrefixes,
    tasksChanged() {
      horizon = undefined;
      prefixes = undefined;
    },
  };
}
