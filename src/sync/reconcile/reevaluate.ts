import { asSyncError } from '../../model/errors/sync-error.ts';
import { USUAL_ID_PREFIXES } from '../../model/task.ts';
import { createAdaptiveBatchSize } from '../../platform/lib/adaptive-batch-size.ts';
import { yieldForRequests } from '../../platform/lib/yield.ts';
import { entitiesOf, findEntities } from '../../store/entities.ts';
import { itemsAfter, openItemsAfter } from '../../store/items.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import { changesAfter } from '../../store/outbox-rows.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { applyBatch, type FurtherEvaluations } from './apply-batch.ts';
import type { BatchContexts, ReconcileContext, Rules } from './context.ts';
import { countDecisions, ITEMS_PER_TRANSACTION, isDeliveryFault } from './process.ts';
import { forgetRulesInForce, rulesInForceSince } from './workflow/evaluate-task.ts';

/**
 * Names of stored facts: the rules by which all open items were evaluated, and the progress of the evaluation by new
 * rules.
 */
const EVALUATED_BY = 'rules.looked_by';
const PROGRESS = 'rules.looking';
/**
 * Phases of the evaluation by new rules. Changes in the outbox come first, because the new rules may no longer want them. The
 * stored progress names the phase after the position.
 */
const PHASES = ['changes', 'open', 'finished'] as const;
type Phase = (typeof PHASES)[number];

export interface Reevaluation {
  /**
   * Evaluates the changes in the outbox and all open items again after the rules or the prefixes of task ids changed. The items
   * may need other links; the guard holds a mass of them. If `since` of the rules for tasks reaches back, the tasks of finished
   * items follow. Repeated calls with the same rules and prefixes do nothing.
   */
  reevaluate(signal: AbortSignal): Promise<void>;
  /** Whether the present rules have evaluated all changes in the outbox. Until then none may be sent. */
  areChangesCurrent(): boolean;
}

export function createReevaluation(context: ReconcileContext, contexts: BatchContexts): Reevaluation {
  const { store, clock, logger, meter, rules, outbox, writeBack } = context;
  const batchSize = createAdaptiveBatchSize(clock, ITEMS_PER_TRANSACTION);
  let done: string | undefined;
  let areChangesCurrent = rules.digest === undefined;

  async function reevaluateAll(signal: AbortSignal): Promise<void> {
    const digest = digestOf(rules, await contexts.idPrefixes());
    const { isOn, since } = rules.workflow;
    if (isOn && digest !== done) {
      // Stored at the start, so that all work that begins from now on is newer than the rules.
      await store.commit((transaction) => rulesInForceSince(transaction, rules.workflow, clock.now()));
    }
    while (digest !== undefined && digest !== done && !signal.aborted) {
      const includesFinished = isOn && since !== undefined;
      const batch = await store.commit((transaction) =>
        nextToReevaluate(transaction, { digest, isOn, includesFinished, limit: batchSize.size() }),
      );
      if (batch?.phase !== 'changes') areChangesCurrent = true;
      if (batch === undefined) done = digest;
      else await reevaluate(batch, digest);
      outbox.notify();
      writeBack?.notify();
      if (batch !== undefined) await yieldForRequests();
    }
  }

  async function reevaluate(batch: ReevaluationBatch, digest: string): Promise<void> {
    const { names } = batch;
    const contextNow = await contexts.load();
    try {
      const result = await store.commitRelaxed(async (transaction) => {
        const applied = await batchSize.work(names.length, async () =>
          applyBatch(transaction, [], contextNow(), await itemsAndTasksOf(transaction, batch)),
        );
        await recordProgress(transaction, digest, batch);
        return applied;
      });
      countDecisions(meter, result);
    } catch (error) {
      if (!isDeliveryFault(error)) throw error;
      // These items are evaluated when they change; nothing else waits for them.
      logger.error(
        { error: asSyncError(error), from: names[0], items: names.length },
        'items could not be re-evaluated',
      );
      await store.commit((transaction) => recordProgress(transaction, digest, batch));
    }
  }

  return { reevaluate: reevaluateAll, areChangesCurrent: () => areChangesCurrent };
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

/** Names of changes in the outbox or keys of items to evaluate at once. */
interface ReevaluationBatch {
  readonly names: readonly string[];
  readonly phase: Phase;
}

interface BatchRequest {
  readonly digest: string;
  /** There are rules for tasks. */
  readonly isOn: boolean;
  /** `since` of the rules for tasks reaches back to finished items. */
  readonly includesFinished: boolean;
  readonly limit: number;
}

/** Returns the next changes and items that were not evaluated by these rules, in the order of the phases; undefined when all were. */
async function nextToReevaluate(query: Scope, request: BatchRequest): Promise<ReevaluationBatch | undefined> {
  const { digest, isOn, includesFinished, limit } = request;
  if ((await rulesEvaluatedBy(query)) === digest) return undefined;
  const [progressOf, position = '', began] = ((await readMeta(query, PROGRESS)) ?? '').split('\n');
  const isBegun = progressOf === digest;
  if (!isBegun && !isOn) await forgetRulesInForce(query);
  // Earlier versions stored no phase for open items.
  const present = isBegun ? PHASES.indexOf((began ?? 'open') as Phase) : 0;
  for (const phase of PHASES.slice(present)) {
    const after = isBegun && phase === PHASES[present] ? position : '';
    const names = await NEXT[phase](query, after, limit, includesFinished);
    if (names.length > 0) return { names, phase };
  }
  await writeMeta(query, EVALUATED_BY, digest);
  return undefined;
}

type NextNames = (query: Scope, after: string, limit: number, includesFinished: boolean) => Promise<readonly string[]>;

const NEXT: Readonly<Record<Phase, NextNames>> = {
  changes: changesAfter,
  open: openItemsAfter,
  finished: async (query, after, limit, includesFinished) =>
    includesFinished ? itemsAfter(query, after, { finished: true, most: limit }) : [],
};

/**
 * Returns the items and the tasks of changes, open items themselves, and the tasks of finished items, which keep their links
 * until they change.
 */
async function itemsAndTasksOf(query: Scope, { names, phase }: ReevaluationBatch): Promise<FurtherEvaluations> {
  if (phase === 'open') return { items: names, tasks: [] };
  const isOfChanges = phase === 'changes';
  const rows = isOfChanges ? await findEntities(query, names) : await entitiesOf(query, names);
  const kind = isOfChanges ? 'task_update' : 'link';
  const ofTasks = rows.filter((row) => row.kind === kind && row.hand !== 'gone');
  const items = isOfChanges ? rows.flatMap(({ item_key }) => item_key ?? []) : [];
  return { items: [...new Set(items)], tasks: [...new Set(ofTasks.flatMap(({ task_id }) => task_id ?? []))] };
}

/** Stores the last evaluated change or item. Must run in the transaction of the evaluation. */
async function recordProgress(query: Scope, digest: string, { names, phase }: ReevaluationBatch): Promise<void> {
  await writeMeta(query, PROGRESS, [digest, names.at(-1), phase].join('\n'));
}
