import { asSyncError } from '../errors/sync-error.ts';
import type { Bell } from '../lib/bell.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import { createPortion } from '../lib/portion.ts';
import { letOthersIn } from '../lib/turn.ts';
import type { Store } from '../store/database.ts';
import { applyBatch } from './batch.ts';
import type { BatchInputs } from './batch-inputs.ts';
import type { Rules } from './item-rules.ts';
import { digestOf, lookedAt, nextToLookAt } from './look-again.ts';
import { ITEMS, isFaultOfDelivery } from './take-deliveries.ts';

export interface LookAtOpenDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly inputs: BatchInputs;
  readonly rules?: Rules;
  readonly outbox: Bell;
  readonly writeBack?: Bell;
}

/**
 * Evaluates open items again by changed rules, or by new forms of task ids: they may need other links, and the guard holds
 * a mass of them. Costs nothing when called again for the same rules and ids.
 */
export function createLookAtOpen(deps: LookAtOpenDeps): (signal: AbortSignal) => Promise<void> {
  const { store, logger, inputs } = deps;
  const lookedAgain = createPortion(deps.clock, ITEMS);
  let done: string | undefined;

  async function lookAgain(signal: AbortSignal): Promise<void> {
    const digest = deps.rules && digestOf(deps.rules, await inputs.idPrefixes());
    while (digest !== undefined && digest !== done && !signal.aborted) {
      const keys = await store.commit((transaction) => nextToLookAt(transaction, digest, lookedAgain.size()));
      if (keys === undefined) {
        done = digest;
        return;
      }
      await lookAt(keys, digest);
      deps.outbox.ring();
      deps.writeBack?.ring();
      await letOthersIn();
    }
  }

  async function lookAt(keys: readonly string[], digest: string): Promise<void> {
    const surroundings = await inputs.around();
    try {
      await store.commitRelaxed(async (transaction) => {
        await lookedAgain.work(keys.length, () => applyBatch(transaction, [], inputs.moment(), surroundings, keys));
        await lookedAt(transaction, digest, keys);
      });
    } catch (error) {
      if (!isFaultOfDelivery(error)) throw error;
      // They are evaluated when they change; nothing else waits for them.
      logger.error({ error: asSyncError(error), from: keys[0], items: keys.length }, 'items could not be re-evaluated');
      await store.commit((transaction) => lookedAt(transaction, digest, keys));
    }
  }

  return lookAgain;
}
