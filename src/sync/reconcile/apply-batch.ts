import type { Translation } from '../../connectors/connector.ts';
import type { SyncError } from '../../model/errors.ts';
import type { ItemKey, ItemReference } from '../../model/item.ts';
import { isEcho } from '../../model/notice.ts';
import {
  type DeliveryOutcome,
  type PendingDelivery,
  quarantineParts,
  type RejectedPage,
  settleDeliveries,
} from '../../store/deliveries/inbox.ts';
import { prefetchFetches } from '../../store/deliveries/wanted-fetches.ts';
import { findItems } from '../../store/items/items.ts';
import { currentComment, prefetchNotices } from '../../store/items/notices.ts';
import { areTasksUnverified, delayCreations } from '../../store/tasks/task-creations.ts';
import { beginUnitOfWork, flushRows, prefetch } from '../../store/unit-of-work/unit-of-work.ts';
import { type Answer, enqueueTaskListRead } from '../../store/workspace/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { applyAnswer } from './answers/apply-answer.ts';
import { BatchItems, itemsIn } from './apply-items.ts';
import type { BatchContext, ReconcileConnection } from './context.ts';
import { guardChanges, passLiveChanges } from './enqueue.ts';
import { EvaluationQueue } from './evaluate.ts';
import { reasonOf, type Translated } from './translate-deliveries.ts';

/** Items and tasks to evaluate although no delivery of the batch concerns them. */
export interface FurtherEvaluations {
  readonly items: readonly ItemKey[];
  readonly tasks: readonly string[];
}

/**
 * Processes a batch in the caller's transaction. Applies the deliveries to the items and to the known state, evaluates
 * the changed items, enqueues the differences, and settles the deliveries.
 */
export async function applyBatch(
  query: Scope,
  batch: readonly Translated[],
  context: BatchContext,
  further: FurtherEvaluations = { items: [], tasks: [] },
): Promise<Batch> {
  const unitOfWork = query.unitOfWork ? query : beginUnitOfWork(query);
  const applied = new Batch(unitOfWork, context);
  await applied.prefetch(batch);
  for (const translated of batch) await applied.apply(translated);
  await applied.evaluate(further);
  await flushRows(unitOfWork);
  await quarantineParts(query, applied.rejected, context.now);
  await requestTaskList(query, applied, context);
  await holdMassChanges(unitOfWork, applied, context);
  await settleDeliveries(query, applied.outcomes, context.now);
  return applied;
}

/**
 * Requests the list of tasks if the items name possible new tasks, or if creations must wait until the tasks are
 * verified.
 */
async function requestTaskList(query: Scope, { evaluations }: Batch, context: BatchContext): Promise<void> {
  const { now, usedShare, rules, keyHorizon } = context;
  const naming = evaluations.itemsNamingNewTasks(keyHorizon);
  const { workItems } = evaluations;
  const isUnsure = rules.triage.isOn && workItems.length > 0 && (await areTasksUnverified(query));
  const mayHaveTasks = new Set([...naming, ...(isUnsure ? workItems : [])]);
  if (mayHaveTasks.size === 0) return;
  const areCreatesDelayed = await delayCreations(query, [...mayHaveTasks], now);
  if (naming.length === 0 && !areCreatesDelayed) return;
  const lane = areCreatesDelayed ? 'triage' : 'read';
  await enqueueTaskListRead(query, { now, usedShare, lane, notBefore: 0 });
}

async function holdMassChanges(query: Scope, { evaluations }: Batch, context: BatchContext): Promise<void> {
  const { guard, logger } = context;
  if (guard === undefined) return;
  for (const burst of await passLiveChanges(query, evaluations, guard, context))
    logger.warn({ ...burst }, 'a burst of new changes: those above the limit are sent after all others');
  for (const exceeded of await guardChanges(query, guard))
    logger.warn({ ...exceeded }, 'changes are held: they need approval');
}

/** Answers that may contain a new task key. */
const TASK_ANSWERS: ReadonlySet<Answer['action']> = new Set([
  'read-tasks',
  'read-task',
  'create-task',
  'saw-task',
  'saw-tasks',
]);

/** The deliveries of a batch, and what they led to. */
export class Batch {
  readonly outcomes: DeliveryOutcome[] = [];
  readonly rejected: RejectedPage[] = [];
  /** An answer of the workspace was applied. The outbox may wait for that answer before it sends its first change. */
  answersApplied = false;
  /** The set of task keys may have changed. */
  tasksChanged = false;
  readonly evaluations: EvaluationQueue;
  readonly items: BatchItems;
  readonly #query: Scope;
  readonly #context: BatchContext;

  constructor(query: Scope, context: BatchContext) {
    this.#query = query;
    this.#context = context;
    this.items = new BatchItems(query, context);
    this.evaluations = new EvaluationQueue(query, context);
  }

  /** Reads in one query what shows that an item is unchanged, then the rows that the changed ones need. */
  async prefetch(batch: readonly Translated[]): Promise<void> {
    await this.items.load(batch);
    const changed = batch.flatMap((translated) => this.items.changedBy(translated));
    const keys = changed.map(({ item }) => item.key);
    const references = [...batch.flatMap(referencesIn), ...changed.map(({ reference }) => reference)];
    const commentedKeys = batch.flatMap(commentedItems);
    const steps = batch.flatMap(({ delivery, answer }) =>
      answer ? [(ahead: Scope) => this.#applyAhead(ahead, delivery, answer)] : [],
    );
    await Promise.all([
      findItems(this.#query, keys),
      prefetchFetches(this.#query, references),
      prefetchNotices(this.#query, commentedKeys),
      prefetch(this.#query, steps),
    ]);
  }

  /** Applies an answer in the prefetch, which shows the rows that it needs. */
  async #applyAhead(ahead: Scope, delivery: PendingDelivery, answer: Answer): Promise<void> {
    const { edited = [] } = await applyAnswer(ahead, answer, this.#context);
    for (const key of edited) await this.items.requestItem(delivery, key, ahead);
  }

  /** Applies one delivery. */
  async apply(translated: Translated): Promise<void> {
    const { delivery, connection, translation, answer, failure } = translated;
    this.#quarantineElements(translated);
    if (failure) return this.#quarantine(delivery, failure);
    if (answer) return this.#applyAnswer(delivery, answer);
    if (translation?.outcome === 'ignored') {
      const { outside } = translation;
      if (connection && outside && (await this.items.hasLeftScope(outside, delivery.connection)))
        await this.items.apply(translated, connection, outside);
      this.outcomes.push({ id: delivery.id, state: 'ignored', reason: translation.reason });
      return;
    }
    if (!connection || !translation) return;
    if (await this.#isOwnComment(translation)) {
      this.outcomes.push({ id: delivery.id, state: 'ignored', reason: 'own_comment' });
      return;
    }
    await this.#applyItems(translated, connection, translation);
  }

  /** Quarantines the unreadable elements of a page, so that they do not delay the rest of the page. */
  #quarantineElements({ delivery, rejected = [] }: Translated): void {
    const { id, key, connection, event } = delivery;
    for (const { reason } of rejected)
      this.#context.logger.warn({ delivery: id, key, connection, event, reason }, 'element of a page quarantined');
    if (rejected.length > 0) this.rejected.push({ page: delivery, parts: rejected });
  }

  async #applyItems(
    translated: Translated,
    connection: ReconcileConnection,
    translation: Exclude<Translation, { readonly outcome: 'ignored' }>,
  ): Promise<void> {
    const { delivery, part } = translated;
    const isWhole = translation.outcome === 'items';
    const items = itemsIn(translation).filter(({ key }) => isWhole || this.items.isKnown(key));
    const isApplied = (key: ItemKey) => !isWhole && items.some((item) => item.key === key);
    for (const reference of translation.references ?? [])
      if (!isApplied(reference.key)) await this.items.requestFetch(delivery, reference);
    let superseded = items.length > 0;
    for (const [index, item] of items.entries()) {
      const place = (part?.start ?? 0) + index;
      if (await this.items.apply(translated, connection, item, place)) superseded = false;
    }
    if (part && !superseded) part.whole.isApplied = true;
    if (part && !part.isLast) return;
    const isOutdated = superseded && !part?.whole.isApplied;
    const unread = (translation.outcome === 'items' && translation.unread) || [];
    const reason = unread.length === 0 ? {} : { reason: `fields of another type, not read: ${unread.join(', ')}` };
    this.outcomes.push({ id: delivery.id, state: isOutdated ? 'superseded' : 'applied', ...reason });
  }

  async #isOwnComment(translation: Translation): Promise<boolean> {
    if (translation.outcome !== 'references' || translation.comment === undefined) return false;
    const [commented, ...others] = translation.references;
    if (commented === undefined || others.length > 0) return false;
    return isEcho(translation.comment, await currentComment(this.#query, commented.key));
  }

  /** Evaluates the changed items, and these further items and tasks. */
  async evaluate(further: FurtherEvaluations): Promise<void> {
    for (const key of further.items) this.evaluations.add(key);
    for (const task of further.tasks) this.evaluations.addTask(task);
    await this.evaluations.evaluate(this.items.changed);
  }

  #quarantine({ id, key, connection, event }: PendingDelivery, failure: SyncError): void {
    this.#context.logger.warn({ delivery: id, key, connection, event, error: failure }, 'delivery quarantined');
    this.outcomes.push({ id, state: 'quarantined', reason: reasonOf(failure) });
  }

  async #applyAnswer(delivery: PendingDelivery, answer: Answer): Promise<void> {
    const applied = await applyAnswer(this.#query, answer, this.#context);
    const { reevaluate, isSweep, swept, edited = [], tasks = [] } = applied;
    const { wantedAt = answer.sentAt } = answer;
    for (const key of reevaluate) this.evaluations.add(key, { isSweep, wantedAt });
    for (const task of tasks) this.evaluations.addTask(task, wantedAt);
    if (swept) this.#context.logger.info({ tasks: swept.tasks, records: swept.records }, 'workspace swept');
    for (const key of edited) if (await this.items.requestItem(delivery, key)) this.items.fetchesRequested++;
    this.answersApplied = true;
    if (TASK_ANSWERS.has(answer.action)) this.tasksChanged = true;
    this.outcomes.push({ id: delivery.id, state: 'applied' });
  }
}

function referencesIn({ translation }: Translated): readonly ItemReference[] {
  return translation?.outcome === 'ignored' ? [] : (translation?.references ?? []);
}

/** Returns the items whose comments a delivery contains. */
function commentedItems({ translation }: Translated): ItemKey[] {
  if (translation?.outcome !== 'references' || translation.comment === undefined) return [];
  return translation.references.map(({ key }) => key);
}
