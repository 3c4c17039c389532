import { asSyncError } from '../../model/errors/sync-error.ts';
import { createAdaptiveBatchSize } from '../../platform/lib/adaptive-batch-size.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { yieldForRequests } from '../../platform/lib/yield.ts';
import type { Store } from '../../store/database.ts';
import { applyBatch } from './batch.ts';
import type { BatchInputs } from './batch-inputs.ts';
import type { Rules } from './item-rules.ts';
import { ITEMS, isFaultOfDelivery } from './process-deliveries.ts';
import { digestOf, nextToReevaluate, noteReevaluated } from './reevaluation.ts';

export interface ReevaluateOpenDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly inputs: BatchInputs;
  readonly rules?: Rules;
  readonly outbox: WakeSignal;
  readonly writeBack?: WakeSignal;
}

/**
 * Evaluates open items again by changed rules, or by new forms of task ids: they may need other links, and the guard holds
 * a mass of them. Costs nothing when called again for the same rules and ids.
 */
export function createOpenReevaluation(deps: ReevaluateOpenDeps): (signal: AbortSignal) => Promise<void> {
  const { store, logger, inputs } = deps;
  const lookedAgain = createAdaptiveBatchSize(deps.clock, ITEMS);
  let done: string | undefined;

  async function lookAgain(signal: AbortSignal): Promise<void> {
    const digest = deps.rules && digestOf(deps.rules, await inputs.idPrefixes());
    while (digest !== undefined && digest !== done && !signal.aborted) {
      const keys = await store.commit((transaction) => nextToReevaluate(transaction, digest, lookedAgain.size()));
      if (keys === undefined) {
        done = digest;
        return;
      }
      await lookAt(keys, digest);
      deps.outbox.notify();
      deps.writeBack?.notify();
      await yieldForRequests();
    }
  }

  async function lookAt(keys: readonly string[], digest: string): Promise<void> {
    const surroundings = await inputs.around();
    try {
      await store.commitRelaxed(async (transaction) => {
        await lookedAgain.work(keys.length, () => applyBatch(transaction, [], inputs.moment(), surroundings, keys));
        await noteReevaluated(transaction, digest, keys);
      });
    } catch (error) {
      if (!isFaultOfDelivery(error)) throw error;
      // They are evaluated when they change; nothing else waits for them.
      logger.error({ error: asSyncError(error), from: keys[0], items: keys.length }, 'items could not be re-evaluated');
      await store.commit((transaction) => noteReevaluated(transaction, digest, keys));
    }
  }

  return lookAgain;
}
