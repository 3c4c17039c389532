import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { ItemKey } from '../../model/item.ts';
import { DatabaseFault } from '../../platform/database/database-fault.ts';
import { createAdaptiveBatchSize } from '../../platform/lib/adaptive-batch-size.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import type { Tracer } from '../../platform/lib/tracer.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { yieldForRequests, yieldToEventLoop } from '../../platform/lib/yield.ts';
import type { Store } from '../../store/database.ts';
import { countAttempt, type DeliveryOutcome, type PendingDelivery, settleDeliveries } from '../../store/inbox.ts';
import { applyBatch, type BatchResult } from './batch.ts';
import type { BatchInputs } from './batch-inputs.ts';
import type { Sources } from './context.ts';
import { decisionSpan } from './decision-spans.ts';
import type { PoisonMessages } from './poison-messages.ts';
import { partsOf, reasonOf, type Translated, translateAll, weightOf } from './translate-deliveries.ts';

export interface DeliveryProcessorDeps {
  readonly store: Store;
  readonly sources: Sources;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly meter: Meter;
  readonly tracer?: Tracer;
  readonly inputs: BatchInputs;
  readonly poisonMessages: PoisonMessages;
  /** Notified when the outbox may have a new change. */
  readonly outbox: WakeSignal;
  /** Notified when objects are to be fetched. */
  readonly fetches: WakeSignal;
  /** Notified when a notice may have to be written to a vendor. */
  readonly writeBack?: WakeSignal;
}

/**
 * Takes deliveries over into items. When a batch fails, its deliveries are tried one by one, so that only the one at fault
 * waits.
 */
export interface DeliveryProcessor {
  suspect(delivery: PendingDelivery): Promise<void>;
  all(pending: readonly PendingDelivery[]): Promise<void>;
}

/**
 * Items of one transaction: enough to share its cost, few enough not to hold up intake, also where the next ones have all
 * changed and cost ten times as much.
 */
export const ITEMS = { least: 10, most: 40 };

/** A delivery that fails on its own this often is put into quarantine. */
const MOST_ATTEMPTS = 3;

/** A delivery over which the process ended this often, each time while it was processed alone, is put into quarantine. */
const MOST_ENDS = 5;

/** Unknown types of events that are counted one by one. */
const MAX_UNKNOWN_TYPES = 50;
const EVENT_TYPE = /^[A-Za-z0-9._-]{1,64}$/;

export function createDeliveryProcessor(deps: DeliveryProcessorDeps): DeliveryProcessor {
  const { store, clock, logger, meter, inputs, poisonMessages } = deps;
  const told = createAdaptiveBatchSize(clock, ITEMS);
  /** Suspects whose present attempt is counted. A database that does not take them over ends no process: they are tried again. */
  const counted = new Set<number>();
  const unknownTypes = new Set<string>();

  /** Alone, and with the attempt committed before: so a text that ends the process again is recognised. */
  async function takeOverSuspect(delivery: PendingDelivery): Promise<void> {
    if (delivery.attempts >= MOST_ENDS) {
      const message = `the process ended ${MOST_ENDS} times while it processed this delivery`;
      return quarantine(delivery, new SyncError('over_budget', message));
    }
    if (!counted.has(delivery.id)) await store.commit((transaction) => countAttempt(transaction, [delivery.id]));
    counted.add(delivery.id);
    await takeOver([delivery]);
    counted.delete(delivery.id);
  }

  async function takeOver(pending: readonly PendingDelivery[]): Promise<void> {
    const translated = await translateAll(pending, {
      query: store.query,
      sources: deps.sources,
      isSuspect: poisonMessages.has,
    });
    const parts = translated.flatMap((each) => partsOf(each, ITEMS.least));
    const failed = new Set<number>();
    for (let first = 0; first < parts.length; ) {
      await (first > 0 ? yieldForRequests() : yieldToEventLoop());
      const portion = nextPortion(parts.slice(first), told.size());
      await takeOverPortion(portion, failed);
      first += portion.length;
    }
  }

  /** @param failed deliveries of which a part failed: no further part of them is to settle them */
  async function takeOverPortion(parts: readonly Translated[], failed: Set<number>): Promise<void> {
    const portion = parts.filter(({ delivery }) => !failed.has(delivery.id));
    if (portion.length === 0) return;
    const deliveries = portion.map(({ delivery }) => delivery);
    const from = clock.now();
    try {
      report(deliveries, await apply(portion), from);
      for (const { unknownType } of portion) if (unknownType !== undefined) countUnknownType(unknownType);
    } catch (error) {
      if (!isFaultOfDelivery(error)) throw error;
      if (portion.length > 1) for (const each of portion) await takeOverPortion([each], failed);
      else await retryOrQuarantine(deliveries[0] as PendingDelivery, error, failed);
    }
  }

  async function apply(portion: readonly Translated[]): Promise<BatchResult> {
    const surroundings = await inputs.around();
    const items = portion.reduce((sum, each) => sum + weightOf(each), 0);
    // Until the commit is on disk the deliveries count as pending, and nothing that came of them was sent: a request is
    // committed with a sync before it leaves.
    return store.commitRelaxed((transaction) =>
      told.work(items, () => applyBatch(transaction, portion, inputs.moment(), surroundings)),
    );
  }

  async function retryOrQuarantine(delivery: PendingDelivery, error: unknown, failed: Set<number>): Promise<void> {
    failed.add(delivery.id);
    logger.error({ delivery: delivery.id, error: asSyncError(error) }, 'delivery could not be applied');
    if (delivery.attempts + 1 >= MOST_ATTEMPTS) return quarantine(delivery, asSyncError(error));
    // The attempt of a suspect is counted already.
    if (!poisonMessages.has(delivery)) await store.commit((transaction) => countAttempt(transaction, [delivery.id]));
  }

  async function quarantine(delivery: PendingDelivery, error: SyncError): Promise<void> {
    const verdict = { id: delivery.id, state: 'quarantined', reason: reasonOf(error) } as const;
    const from = clock.now();
    await store.commit((transaction) => settleDeliveries(transaction, [verdict], from));
    tell(delivery, verdict, [], from);
  }

  /** One line, one count and one span for each delivery that has come to its end. */
  function tell(delivery: PendingDelivery, verdict: DeliveryOutcome, items: readonly ItemKey[], from: number): void {
    const { id, key, connection, source } = delivery;
    const { state: outcome, reason } = verdict;
    meter.count('deliveries_total', { connection, outcome });
    logger.debug({ delivery: id, key, connection, outcome, reason, items }, 'delivery taken over');
    // The request that brought an answer of the workspace tells all of it.
    if (source !== 'answer') deps.tracer?.record(decisionSpan({ delivery, verdict, items, from, to: clock.now() }));
  }

  /** The number of labels is limited, because servers choose the types. */
  function countUnknownType(type: string): void {
    const hasRoom = unknownTypes.size < MAX_UNKNOWN_TYPES && EVENT_TYPE.test(type);
    if (hasRoom) unknownTypes.add(type);
    meter.count('workspace_events_unknown_total', { type: unknownTypes.has(type) ? type : 'other' });
  }

  function report(pending: readonly PendingDelivery[], result: BatchResult, from: number): void {
    const deliveries = new Map(pending.map((each) => [each.id, each]));
    const changed = changedBy(result);
    for (const verdict of result.verdicts) {
      const delivery = deliveries.get(verdict.id);
      if (delivery) tell(delivery, verdict, changed.get(verdict.id) ?? [], from);
    }
    if (result.tasksChanged) inputs.tasksChanged();
    if (result.evaluated > 0 || result.answersTaken) deps.outbox.notify();
    if (result.evaluated > 0 || result.answersTaken) deps.writeBack?.notify();
    if (result.fetchesAsked > 0) deps.fetches.notify();
  }

  return { suspect: takeOverSuspect, all: takeOver };
}

/** The items that each delivery has changed. A page of a backfill is no cause that waits, and is told of all the same. */
function changedBy({ changed }: BatchResult): ReadonlyMap<number, readonly ItemKey[]> {
  const keys = new Map<number, ItemKey[]>();
  for (const [key, { cause }] of changed) {
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

/** The first of them, with no more than so many items together, but always at least one. */
function nextPortion(translated: readonly Translated[], items: number): readonly Translated[] {
  let sum = 0;
  const end = translated.findIndex((each, index) => {
    sum += weightOf(each);
    return index > 0 && sum > items;
  });
  return end < 0 ? translated : translated.slice(0, end);
}

/** A database that cannot write, or a workspace that others own by now, fails every delivery alike: none of them is at fault. */
export function isFaultOfDelivery(error: unknown): boolean {
  return !(error instanceof DatabaseFault) && asSyncError(error).code !== 'lease_lost';
}
