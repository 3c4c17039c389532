import { BEGIN, decisionOf } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { ItemKey } from '../../model/item.ts';
import { DatabaseFault } from '../../platform/database/database-fault.ts';
import { createAdaptiveBatchSize, yieldForRequests, yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import type { Meter, Span } from '../../platform/lib/telemetry.ts';
import {
  countAttempt,
  type DeliveryOutcome,
  oldestPending,
  type PendingDelivery,
  retryQuarantined,
  settleDeliveries,
} from '../../store/deliveries/inbox.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import { highestTaskKeys, taskIdPrefixes } from '../../store/tasks/stored-tasks.ts';
import type { WorkspaceContext } from '../workspace-context.ts';
import { applyBatch, type Batch } from './apply-batch.ts';
import { type BatchContext, createKeyHorizon, type KeyHorizon, type LiveStatuses } from './context.ts';
import { partsOf, reasonOf, type Translated, translateAll, weightOf } from './translate-deliveries.ts';

/**
 * Items of one transaction: enough to share its cost, few enough not to delay intake. Changed items cost ten times as
 * much as unchanged ones.
 */
export const ITEMS_PER_TRANSACTION = { least: 10, most: 40 };

/** A delivery that fails on its own this often is quarantined. */
const MAX_ATTEMPTS = 3;

/** Unknown types of events that are counted under their own label. */
const MAX_UNKNOWN_TYPES = 50;
const EVENT_TYPE = /^[A-Za-z0-9._-]{1,64}$/;

export type BatchContexts = ReturnType<typeof createBatchContexts>;

/** Creates the contexts of batches, and caches what they read from the list of tasks. */
export function createBatchContexts(context: WorkspaceContext) {
  const { store, sources, clock, logger, throttle, rules, config } = context;
  const { guard, quota } = config;
  const liveStatuses: LiveStatuses = new Map();
  let horizon: KeyHorizon | undefined;
  let prefixes: readonly string[] | undefined;

  /** Returns the prefixes of task ids. Must not be called within a transaction. */
  async function idPrefixes(): Promise<readonly string[]> {
    prefixes ??= await taskIdPrefixes(store.query);
    return prefixes;
  }

  return {
    /**
     * Reads what a context needs. Returns a function that creates the context of a transaction when it begins. Must not
     * be called within a transaction, because it runs queries of its own.
     */
    async load(): Promise<() => BatchContext> {
      horizon ??= createKeyHorizon(await highestTaskKeys(store.query));
      const shared = {
        keyHorizon: horizon,
        idPrefixes: await idPrefixes(),
        sources,
        rules,
        logger,
        guard,
        visibility: quota.visibility,
        liveStatuses,
      };
      return () => ({ ...shared, now: clock.now(), usedShare: throttle.usedShare() });
    },
    idPrefixes,
    /** Drops the cache because tasks were added or renamed. */
    invalidate() {
      horizon = undefined;
      prefixes = undefined;
    },
  };
}

export function createProcessor(
  context: WorkspaceContext,
  contexts: BatchContexts,
  poisonMessages: Pick<PoisonMessages, 'isSuspected'>,
) {
  const { store, sources, clock, logger, meter, tracer } = context;
  const batchSize = createAdaptiveBatchSize(clock, ITEMS_PER_TRANSACTION);
  /**
   * Suspected deliveries whose current attempt is already stored. A failed commit is not another crash, so it is not
   * counted.
   */
  const countedAttempts = new Set<number>();
  const unknownTypes = new Set<string>();

  /**
   * Processes pending deliveries in batches, one transaction each: translate, apply, record the outcome. If a batch
   * fails because of one delivery, its deliveries are retried one by one, so that only that one waits.
   */
  async function processDeliveries(pending: readonly PendingDelivery[]): Promise<void> {
    const { isSuspected } = poisonMessages;
    const translated = await translateAll(pending, { query: store.query, sources, isSuspected });
    const parts = translated.flatMap((each) => partsOf(each, ITEMS_PER_TRANSACTION.least));
    const failed = new Set<number>();
    for (let done = 0; done < parts.length; ) {
      await (done > 0 ? yieldForRequests() : yieldToEventLoop());
      const batch = nextBatch(parts.slice(done), batchSize.size());
      await processBatch(batch, failed);
      done += batch.length;
    }
  }

  /**
   * Processes a suspected poison message. Commits its attempt first, so that the attempt counts even if the process
   * crashes.
   */
  async function processAlone(delivery: PendingDelivery): Promise<void> {
    if (delivery.attempts >= MAX_CRASHES) {
      const message = `the process ended ${MAX_CRASHES} times while it processed this delivery alone`;
      return quarantine(delivery, new SyncError('over_budget', message));
    }
    if (!countedAttempts.has(delivery.id))
      await store.commit((transaction) => countAttempt(transaction, [delivery.id]));
    countedAttempts.add(delivery.id);
    await processDeliveries([delivery]);
    countedAttempts.delete(delivery.id);
  }

  /**
   * @param failed deliveries with a failed part. Their further parts are skipped, because the last part would settle
   * them.
   */
  async function processBatch(parts: readonly Translated[], failed: Set<number>): Promise<void> {
    const batch = parts.filter(({ delivery }) => !failed.has(delivery.id));
    if (batch.length === 0) return;
    const deliveries = batch.map(({ delivery }) => delivery);
    const startedAt = clock.now();
    try {
      recordOutcomes(deliveries, await commitBatch(batch), startedAt);
      for (const { unknownType } of batch) if (unknownType !== undefined) countUnknownType(unknownType);
    } catch (error) {
      if (!isDeliveryFault(error)) throw error;
      if (batch.length > 1) for (const part of batch) await processBatch([part], failed);
      else await retryOrQuarantine(deliveries[0] as PendingDelivery, error, failed);
    }
  }

  async function commitBatch(batch: readonly Translated[]): Promise<Batch> {
    const contextNow = await contexts.load();
    const items = batch.reduce((sum, each) => sum + weightOf(each), 0);
    // A relaxed commit is safe: until it is on disk the deliveries are pending, and the outbox commits each request
    // with a sync.
    return store.commitRelaxed((transaction) =>
      batchSize.work(items, () => applyBatch(transaction, batch, contextNow())),
    );
  }

  async function retryOrQuarantine(delivery: PendingDelivery, error: unknown, failed: Set<number>): Promise<void> {
    failed.add(delivery.id);
    logger.error({ delivery: delivery.id, error: asSyncError(error) }, 'delivery could not be applied');
    if (delivery.attempts + 1 >= MAX_ATTEMPTS) return quarantine(delivery, asSyncError(error));
    // The attempt of a suspected delivery is counted already.
    if (!poisonMessages.isSuspected(delivery))
      await store.commit((transaction) => countAttempt(transaction, [delivery.id]));
  }

  async function quarantine(delivery: PendingDelivery, error: SyncError): Promise<void> {
    const outcome = { id: delivery.id, state: 'quarantined', reason: reasonOf(error) } as const;
    const startedAt = clock.now();
    await store.commit((transaction) => settleDeliveries(transaction, [outcome], startedAt));
    recordOutcome({ ...outcome, delivery, items: [], from: startedAt });
  }

  /** Reports the settled deliveries, and notifies the stages that may have new work. */
  function recordOutcomes(batch: readonly PendingDelivery[], result: Batch, startedAt: number): void {
    const deliveries = new Map(batch.map((each) => [each.id, each]));
    const changed = changedItems(result);
    for (const outcome of result.outcomes) {
      const delivery = deliveries.get(outcome.id);
      if (delivery) recordOutcome({ ...outcome, delivery, items: changed.get(outcome.id) ?? [], from: startedAt });
    }
    countDecisions(meter, result);
    if (result.tasksChanged) contexts.invalidate();
    if (result.evaluations.evaluated > 0 || result.answersApplied) {
      context.outbox.notify();
      context.writeBack.notify();
    }
    if (result.items.fetchesRequested > 0) context.fetches.notify();
  }

  /** Writes one log line, one count and one span for a settled delivery. */
  function recordOutcome(decision: Decision): void {
    const { id, key, connection, source } = decision.delivery;
    const { state: outcome, reason, items } = decision;
    meter.count('deliveries_total', { connection, outcome });
    logger.debug({ delivery: id, key, connection, outcome, reason, items }, 'delivery processed');
    // The span of the request that received an answer covers the answer too.
    if (source !== 'answer') tracer?.record(decisionSpan(decision, clock.now()));
  }

  /** Counts an unknown event type. Servers choose the types, so the number of labels is limited. */
  function countUnknownType(type: string): void {
    const hasRoom = unknownTypes.size < MAX_UNKNOWN_TYPES && EVENT_TYPE.test(type);
    if (hasRoom) unknownTypes.add(type);
    meter.count('workspace_events_unknown_total', { type: unknownTypes.has(type) ? type : 'other' });
  }

  return { processDeliveries, processAlone };
}

/** Counts the decisions about the statuses of tasks: changes by rule, and those that stay by reason. */
export function countDecisions(meter: Meter, { evaluations }: Batch): void {
  for (const decision of evaluations.decisions) {
    if ('rule' in decision) meter.count('task_moves_total', { rule: decision.rule });
    else meter.count('task_stays_total', { reason: decision.stays });
  }
}

/** Returns the first parts with at most `items` items together, but at least one part. */
function nextBatch(parts: readonly Translated[], items: number): readonly Translated[] {
  let sum = 0;
  const end = parts.findIndex((part, index) => {
    sum += weightOf(part);
    return index > 0 && sum > items;
  });
  return end < 0 ? parts : parts.slice(0, end);
}

/** Returns false for a failed database and for a lost lease: they fail every delivery alike. */
export function isDeliveryFault(error: unknown): boolean {
  return !(error instanceof DatabaseFault) && asSyncError(error).code !== 'lease_lost';
}

/**
 * Returns the items that each delivery changed, by its id. Includes pages of backfills, although no change waits for
 * them.
 */
function changedItems({ items }: Batch): ReadonlyMap<number, readonly ItemKey[]> {
  const keys = new Map<number, ItemKey[]>();
  for (const [key, { cause }] of items.changed) {
    const ids = new Set(cause.waiting.map(({ id }) => id));
    if (cause.delivery !== undefined) ids.add(cause.delivery);
    for (const id of ids) {
      const known = keys.get(id);
      if (known) known.push(key);
      else keys.set(id, [key]);
    }
  }
  return keys;
}

/** Keys of items that a span names. */
const MAX_SPAN_KEYS = 5;

interface Decision extends Omit<DeliveryOutcome, 'id'> {
  readonly delivery: PendingDelivery;
  /** The items that the delivery changed. */
  readonly items: readonly ItemKey[];
  /** When its processing began, epoch milliseconds. */
  readonly from: number;
}

function decisionSpan({ delivery, state, reason, items, from }: Decision, to: number): Span {
  const { id, connection, source, event, receivedAt, isReplayed } = delivery;
  const { trace, span } = decisionOf(id);
  return {
    // A replay is another decision on the same delivery, so it needs a span id of its own.
    of: { trace, span: isReplayed ? `${span} ${from}` : span },
    parent: BEGIN,
    name: 'reconcile',
    kind: 'internal',
    from,
    to,
    error: state === 'quarantined' ? (reason ?? state) : undefined,
    attributes: {
      'worksync.connection': connection,
      'worksync.source': source,
      'worksync.event': event,
      'worksync.delivery': id,
      'worksync.delivery.state': state,
      'worksync.reason': reason,
      'worksync.items.count': items.length,
      'worksync.items': items.slice(0, MAX_SPAN_KEYS).join(' ') || undefined,
      'worksync.waited_ms': Math.max(0, from - receivedAt),
    },
  };
}

/**
 * Names of stored facts: `yes` while a process works on the inbox, and the version that tried the quarantined
 * deliveries.
 */
const AT_WORK = 'reconcile.at_work';
const TRIED_BY = 'reconcile.tried_by';

/**
 * A delivery that is processed alone is quarantined after this many attempts that did not settle it. Ordinary failures
 * count too, but fewer of them quarantine a delivery.
 */
const MAX_CRASHES = 5;

/**
 * If the process ended while it processed a delivery alone, the delivery waits this time for each attempt, and the others
 * are processed meanwhile. A kill cannot be told from a crash, so it counts as one. But kills do not depend on the
 * delivery, so after the pause the next one is unlikely to hit it again. A poison message crashes the process each time.
 */
const PAUSE_MS = 10_000;

export type PoisonMessages = ReturnType<typeof createPoisonMessages>;

/**
 * Finds deliveries that may have crashed the process: it died while it worked on the inbox, and they were in the batch
 * of that time. They are processed one by one, so that the one at fault can be identified.
 *
 * @param batch the largest number of deliveries in one batch
 */
export function createPoisonMessages({ store, clock, version }: WorkspaceContext, batch: number) {
  /** Deliveries up to this id are suspected. Undefined: not detected yet. */
  let suspectedUntil: number | undefined;
  /** When deliveries that were being processed alone when the process ended are retried, by id; monotonic milliseconds. */
  const retryAt = new Map<number, number>();
  /** Whether the stored fact `AT_WORK` is `yes`. */
  let isMarkedBusy = false;

  const mark = (value: 'yes' | 'no') => store.commit((transaction) => writeMeta(transaction, AT_WORK, value));

  /** Suspected deliveries that are still pending remain suspected: a stop during their pause proves nothing about them. */
  async function markCleanEnd(suspectedUntilId: number): Promise<void> {
    const [oldest] = await oldestPending(store.query, 1);
    if (!oldest || oldest.id > suspectedUntilId) await mark('no');
  }

  /**
   * Finds the suspected deliveries, once after each start. After an unclean end the batch of that time is still pending, among the
   * oldest deliveries. A different version may need less time or memory for the quarantined ones, so they become pending again.
   */
  async function detect(): Promise<void> {
    if (suspectedUntil !== undefined) return;
    const wasBusy = (await readMeta(store.query, AT_WORK)) === 'yes';
    const suspected = wasBusy ? await oldestPending(store.query, batch) : [];
    const isOtherVersion = (await readMeta(store.query, TRIED_BY)) !== version;
    if (isOtherVersion) {
      await retryQuarantined(store, 'costly');
      // A process killed before this commit retries the rest at its next start.
      await store.commit((transaction) => writeMeta(transaction, TRIED_BY, version));
    }
    isMarkedBusy = wasBusy;
    suspectedUntil = suspected.at(-1)?.id ?? 0;
    for (const { id, attempts } of suspected)
      if (attempts > 0 && attempts < MAX_CRASHES) retryAt.set(id, clock.monotonic() + attempts * PAUSE_MS);
  }

  /** Returns the milliseconds until each paused delivery may be processed, by its id. */
  function paused(): ReadonlyMap<number, number> {
    const now = clock.monotonic();
    for (const [id, at] of retryAt) if (at <= now) retryAt.delete(id);
    return new Map([...retryAt].map(([id, at]) => [id, at - now]));
  }

  return {
    detect,
    /** Records that the process works on the inbox. Must be called before the first delivery of a batch is read. */
    async markBusy() {
      if (isMarkedBusy) return;
      await mark('yes');
      isMarkedBusy = true;
    },
    isSuspected: ({ id }: Pick<PendingDelivery, 'id'>) => id <= (suspectedUntil ?? 0),
    paused,
    /** Records a clean end. If suspected deliveries are still pending, the next start suspects the oldest batch again. */
    async markIdle() {
      // If the database fails, the next start treats this as an unclean end, which only costs time.
      if (isMarkedBusy && suspectedUntil !== undefined) await markCleanEnd(suspectedUntil).catch(() => undefined);
      isMarkedBusy = false;
      suspectedUntil = undefined;
      retryAt.clear();
    },
  };
}
