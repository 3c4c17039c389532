import { asSyncError } from '../../model/errors.ts';
import { USUAL_ID_PREFIXES } from '../../model/task.ts';
import { backoff, sleep } from '../../platform/lib/clock.ts';
import { createAdaptiveBatchSize, yieldForRequests } from '../../platform/lib/concurrency.ts';
import { entitiesOf, findEntities } from '../../store/changes/entities.ts';
import { changesAfter } from '../../store/changes/outbox-rows.ts';
import { pendingDeliveries } from '../../store/deliveries/inbox.ts';
import { itemsAfter } from '../../store/items/items.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { WorkspaceContext } from '../workspace-context.ts';
import { applyBatch, type FurtherEvaluations } from './apply-batch.ts';
import type { Rules } from './context.ts';
import {
  type BatchContexts,
  countDecisions,
  createBatchContexts,
  createPoisonMessages,
  createProcessor,
  ITEMS_PER_TRANSACTION,
  isDeliveryFault,
} from './process.ts';
import { forgetRulesInForce, rulesInForceSince } from './workflow/evaluate-task.ts';
import type { Workflow } from './workflow/workflow-rules.ts';

/** Deliveries read at once, and their bytes: the main thread translates so many in a few milliseconds. */
const BATCH = 100;
const BATCH_BYTES = 1024 * 1024;

/** The longest time that a burst of webhooks may delay reconcile, and the interval of the checks, milliseconds. */
const MAX_LAG_MS = 5_000;
const CROWD_CHECK_MS = 10;

/**
 * Creates the stage between inbox and outbox: process → evaluate → enqueue. Takes pending deliveries in batches, oldest
 * first.
 */
export function createReconcile(context: WorkspaceContext) {
  const { store, clock, logger, random, inbox } = context;
  const contexts = createBatchContexts(context);
  const poisonMessages = createPoisonMessages(context, BATCH);
  const processor = createProcessor(context, contexts, poisonMessages);
  const reevaluation = createReevaluation(context, contexts);
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      try {
        await reevaluation.reevaluate(signal);
        await drain(signal);
        // A list of tasks may have shown ids with a new prefix.
        await reevaluation.reevaluate(signal);
        failures = 0;
        await inbox.wait();
      } catch (error) {
        // Most likely the database does not accept writes now, for example because the disk is full. Faults of a single
        // delivery end in quarantine and do not get here.
        logger.error({ error: asSyncError(error) }, 'reconcile cannot write; it retries after a pause');
        await sleep(clock, backoff(random, failures++, 500, 5_000), signal);
      }
    }
  }

  async function drain(signal?: AbortSignal): Promise<void> {
    await poisonMessages.detect();
    const yieldUntil = clock.monotonic() + MAX_LAG_MS;
    for (let isFirst = true; !signal?.aborted && (await processNext(isFirst, yieldUntil, signal)); ) isFirst = false;
  }

  /**
   * One round: read the next pending deliveries, process those alone that may have crashed the process, and the others in
   * batches.
   *
   * @returns false if none is pending
   */
  async function processNext(isFirst: boolean, yieldUntil: number, signal?: AbortSignal): Promise<boolean> {
    const paused = poisonMessages.paused();
    const pending = await pendingDeliveries(store.query, BATCH, BATCH_BYTES, new Set(paused.keys()));
    if (pending.length === 0) {
      if (paused.size > 0) await waitForInbox(Math.min(...paused.values()));
      return paused.size > 0;
    }
    if (!isFirst) await yieldForRequests();
    await poisonMessages.markBusy();
    if (signal) await yieldToIntake(yieldUntil, signal);

    // The suspected deliveries have the lowest ids, so they come first.
    const suspected = pending.filter(poisonMessages.isSuspected);
    for (const delivery of suspected) if (!signal?.aborted) await processor.processAlone(delivery);
    const others = pending.slice(suspected.length);
    if (others.length > 0) await processor.processDeliveries(others);
    return true;
  }

  async function waitForInbox(timeoutMs: number): Promise<void> {
    const cancel = clock.after(timeoutMs, inbox.notify);
    await inbox.wait();
    cancel();
  }

  /**
   * Waits while intake is crowded, because senders wait for their 2xx and no caller waits for reconcile. After `until`,
   * monotonic milliseconds, a lasting burst no longer delays the batches.
   */
  async function yieldToIntake(until: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && context.collector.isCrowded() && clock.monotonic() < until)
      await sleep(clock, CROWD_CHECK_MS, signal);
  }

  return {
    /** Processes all pending deliveries and resolves when none is left. */
    drain: () => drain(),
    reevaluation,
    start(): void {
      if (running) return;
      stopping = new AbortController();
      running = run(stopping.signal);
    },
    async stop(): Promise<void> {
      stopping?.abort();
      inbox.notify();
      await running;
      running = undefined;
      await poisonMessages.markIdle();
    },
  };
}

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

export function createReevaluation(context: WorkspaceContext, contexts: BatchContexts) {
  const { store, clock, logger, meter, rules, outbox, writeBack } = context;
  const batchSize = createAdaptiveBatchSize(clock, ITEMS_PER_TRANSACTION);
  let done: string | undefined;

  /**
   * Evaluates the changes in the outbox and all open items again after the rules or the prefixes of task ids changed. The items
   * may need other links; the guard holds a mass of them. If `since` of the rules for tasks reaches back, the tasks of finished
   * items follow. Repeated calls with the same rules and prefixes do nothing.
   */
  async function reevaluateAll(signal: AbortSignal): Promise<void> {
    const digest = digestOf(rules, await contexts.idPrefixes());
    if (rules.workflow.isOn && digest !== done) {
      // Stored at the start, so that all work that begins from now on is newer than the rules.
      await store.commit((transaction) => rulesInForceSince(transaction, rules.workflow, clock.now()));
    }
    while (digest !== undefined && digest !== done && !signal.aborted) {
      const batch = await store.commit((transaction) =>
        nextToReevaluate(transaction, digest, rules.workflow, batchSize.size()),
      );
      if (batch?.phase !== 'changes') reevaluation.areChangesCurrent = true;
      if (batch === undefined) done = digest;
      else await reevaluate(batch, digest);
      outbox.notify();
      writeBack.notify();
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

  const reevaluation = {
    reevaluate: reevaluateAll,
    /** Whether the present rules have evaluated all changes in the outbox. Until then none may be sent. */
    areChangesCurrent: rules.digest === undefined,
  };
  return reevaluation;
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

/** Returns the next changes and items that were not evaluated by these rules, in the order of the phases; undefined when all were. */
async function nextToReevaluate(
  query: Scope,
  digest: string,
  { isOn, since }: Workflow,
  limit: number,
): Promise<ReevaluationBatch | undefined> {
  if ((await rulesEvaluatedBy(query)) === digest) return undefined;
  const [progressOf, position = '', began] = ((await readMeta(query, PROGRESS)) ?? '').split('\n');
  const isBegun = progressOf === digest;
  if (!isBegun && !isOn) await forgetRulesInForce(query);
  // Earlier versions stored no phase for open items.
  const present = isBegun ? PHASES.indexOf((began ?? 'open') as Phase) : 0;
  for (const phase of PHASES.slice(present)) {
    const after = isBegun && phase === PHASES[present] ? position : '';
    // Only a configured `since` reaches back to finished items.
    const names = phase === 'finished' && since === undefined ? [] : await NEXT[phase](query, after, limit);
    if (names.length > 0) return { names, phase };
  }
  await writeMeta(query, EVALUATED_BY, digest);
  return undefined;
}

type NextNames = (query: Scope, after: string, limit: number) => Promise<readonly string[]>;

const NEXT: Readonly<Record<Phase, NextNames>> = {
  changes: changesAfter,
  open: (query, after, limit) => itemsAfter(query, after, limit),
  finished: (query, after, limit) => itemsAfter(query, after, limit, true),
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
