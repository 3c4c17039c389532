import { asSyncError } from '../../model/errors/sync-error.ts';
import type { ItemKey } from '../../model/item.ts';
import { USUAL_ID_PREFIXES } from '../../model/task.ts';
import { createAdaptiveBatchSize } from '../../platform/lib/adaptive-batch-size.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { yieldForRequests } from '../../platform/lib/yield.ts';
import { entitiesOf } from '../../store/entities.ts';
import { itemsAfter, openItemsAfter } from '../../store/items.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import type { WorkspaceContext } from '../../store/workspace-context.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { applyBatch, type FurtherEvaluations } from './apply-batch.ts';
import type { BatchContexts, Rules } from './context.ts';
import { countDecisions, ITEMS_PER_TRANSACTION, isDeliveryFault } from './process.ts';
import { rulesInForceSince } from './workflow/evaluate-task.ts';

/**
 * Names of stored facts: the rules by which all open items were evaluated, and the progress of the evaluation by new
 * rules.
 */
const EVALUATED_BY = 'rules.looked_by';
const PROGRESS = 'rules.looking';
/** Follows the item in the progress while finished items are evaluated. */
const FINISHED = 'finished';

export interface ReevaluationOptions extends Pick<WorkspaceContext, 'store' | 'clock' | 'logger'> {
  readonly meter?: Meter;
  readonly contexts: BatchContexts;
  readonly rules?: Rules;
  /** Notified when the outbox may have a new change. */
  readonly outbox: WakeSignal;
  /** Notified when a notice may have to be written to a vendor. */
  readonly writeBack?: WakeSignal;
}

/**
 * Creates the function that evaluates all open items again after the rules or the prefixes of task ids changed. The
 * items may need other links; the guard holds a mass of them. If `since` of the rules for tasks reaches back, the tasks of
 * finished items follow. Repeated calls with the same rules and prefixes do nothing.
 */
export function createReevaluation(options: ReevaluationOptions): (signal: AbortSignal) => Promise<void> {
  const { store, clock, logger, meter, contexts, rules, outbox, writeBack } = options;
  const batchSize = createAdaptiveBatchSize(clock, ITEMS_PER_TRANSACTION);
  let done: string | undefined;

  async function reevaluateOpenItems(signal: AbortSignal): Promise<void> {
    const digest = rules && digestOf(rules, await contexts.idPrefixes());
    if (rules?.workflow.isOn && digest !== done) {
      // Stored at the start, so that all work that begins from now on is newer than the rules.
      await store.commit((transaction) => rulesInForceSince(transaction, rules.workflow, clock.now()));
    }
    while (digest !== undefined && digest !== done && !signal.aborted) {
      const includesFinished = rules?.workflow.isOn === true && rules.workflow.since !== undefined;
      const batch = await store.commit((transaction) =>
        nextToReevaluate(transaction, { digest, includesFinished, limit: batchSize.size() }),
      );
      if (batch === undefined) {
        done = digest;
        return;
      }
      await reevaluate(batch, digest);
      outbox.notify();
      writeBack?.notify();
      await yieldForRequests();
    }
  }

  async function reevaluate(batch: ReevaluationBatch, digest: string): Promise<void> {
    const { keys } = batch;
    const contextNow = await contexts.load();
    try {
      const result = await store.commitRelaxed(async (transaction) => {
        const applied = await batchSize.work(keys.length, async () =>
          applyBatch(transaction, [], contextNow(), await itemsAndTasksOf(transaction, batch)),
        );
        await recordProgress(transaction, digest, batch);
        return applied;
      });
      if (meter) countDecisions(meter, result);
    } catch (error) {
      if (!isDeliveryFault(error)) throw error;
      // These items are evaluated when they change; nothing else waits for them.
      logger.error({ error: asSyncError(error), from: keys[0], items: keys.length }, 'items could not be re-evaluated');
      await store.commit((transaction) => recordProgress(transaction, digest, batch));
    }
  }

  return reevaluateOpenItems;
}

/**
 * Identifies the rules that items are evaluated by: the configured rules and the recognized prefixes of task ids. The
 * usual prefixes do not count, so that the first list of tasks causes no re-evaluation in most workspaces.
 */
export function digestOf({ digest }: Pick<Rules, 'digest'>, idPrefixes: readonly string[]): string | undefined {
  const unusual = idPrefixes.filter((prefix) => !USUAL_ID_PREFIXES.includes(prefix));
  return digest === undefined || unusual.length === 0 ? digest : `${digest} ${unusual.join(' ')}`;
}

/** Returns the digest of the rules by which all open items were evaluated; undefined before the first time. */
export function rulesEvaluatedBy(query: Scope): Promise<string | undefined> {
  return readMeta(query, EVALUATED_BY);
}

/** Items to evaluate at once: either open or finished ones. */
interface ReevaluationBatch {
  readonly keys: readonly ItemKey[];
  readonly finished: boolean;
}

interface BatchRequest {
  readonly digest: string;
  /** `since` of the rules for tasks reaches back to finished items. */
  readonly includesFinished: boolean;
  readonly limit: number;
}

/** Returns the next items that were not evaluated by these rules, open ones first; undefined when all were. */
async function nextToReevaluate(query: Scope, request: BatchRequest): Promise<ReevaluationBatch | undefined> {
  const { digest, includesFinished, limit } = request;
  if ((await rulesEvaluatedBy(query)) === digest) return undefined;
  const [progressOf, after = '', phase] = ((await readMeta(query, PROGRESS)) ?? '').split('\n');
  const [position, isFinishedPhase] = progressOf === digest ? [after, phase === FINISHED] : ['', false];
  const open = isFinishedPhase ? [] : await openItemsAfter(query, position, limit);
  if (open.length > 0) return { keys: open, finished: false };
  const afterFinished = isFinishedPhase ? position : '';
  const finished = includesFinished ? await itemsAfter(query, afterFinished, { finished: true, most: limit }) : [];
  if (finished.length > 0) return { keys: finished, finished: true };
  await writeMeta(query, EVALUATED_BY, digest);
  return undefined;
}

/** Returns open items themselves. Finished ones keep their links until they change, so only their tasks are evaluated. */
async function itemsAndTasksOf(query: Scope, { keys, finished }: ReevaluationBatch): Promise<FurtherEvaluations> {
  if (!finished) return { items: keys, tasks: [] };
  const links = (await entitiesOf(query, keys)).filter(({ kind, hand }) => kind === 'link' && hand !== 'gone');
  return { items: [], tasks: [...new Set(links.flatMap(({ task_id }) => task_id ?? []))] };
}

/** Stores the last evaluated item. Must run in the transaction of the evaluation. */
async function recordProgress(query: Scope, digest: string, { keys, finished }: ReevaluationBatch): Promise<void> {
  await writeMeta(query, PROGRESS, [digest, keys.at(-1), ...(finished ? [FINISHED] : [])].join('\n'));
}
