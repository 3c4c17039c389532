import type { Translation } from '../../connectors/connector.ts';
import type { SyncError } from '../../model/errors/sync-error.ts';
import type { ItemKey, ItemReference } from '../../model/item.ts';
import { isEcho } from '../../model/notice.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import {
  type DeliveryOutcome,
  type PendingDelivery,
  quarantineParts,
  type RejectedPage,
  settleDeliveries,
} from '../../store/inbox.ts';
import { findItems } from '../../store/items.ts';
import { currentComment, prefetchNotices } from '../../store/notices.ts';
import { areTasksUnverified, delayCreations } from '../../store/task-creations.ts';
import { beginUnitOfWork, flushRows, prefetch } from '../../store/unit-of-work/unit-of-work.ts';
import { prefetchFetches } from '../../store/wanted-fetches.ts';
import type { Answer } from '../../store/workspace-answers.ts';
import { enqueueTaskListRead } from '../../store/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { applyAnswer } from './answers/apply.ts';
import { BatchFetches } from './batch-fetches.ts';
import { BatchItems, saidIn } from './batch-items.ts';
import type { EvaluationContext, Source, Sources } from './context.ts';
import { type Changed, EvaluationQueue } from './evaluation-queue.ts';
import { PLAIN_RULES, type Rules } from './item-rules.ts';
import type { KeyHorizon } from './key-horizon.ts';
import { type GuardLimits, guardChanges } from './mass-change-guard.ts';
import { reasonOf, type Translated } from './translate-deliveries.ts';

export interface BatchResult {
  readonly verdicts: readonly DeliveryOutcome[];
  /** An answer of the workspace was applied: it may also be what the outbox waits for to begin. */
  readonly answersTaken: boolean;
  /** The set of task keys may have changed. */
  readonly tasksChanged: boolean;
  readonly evaluated: number;
  readonly fetchesAsked: number;
  /** The items that deliveries have changed. */
  readonly changed: ReadonlyMap<ItemKey, Pick<Changed, 'cause'>>;
}

/** What processing a batch needs, besides the database. */
export interface Surroundings {
  readonly sources: Sources;
  readonly horizon: KeyHorizon;
  readonly logger: Logger;
  /** Absent: those that hold where nothing is configured. */
  readonly rules?: Rules;
  /** Absent: nothing is held. */
  readonly guard?: GuardLimits;
}

/**
 * Processes a batch in the caller's transaction: items, mentions, desired, known, outbox, and the inbox itself.
 *
 * @param again items to look at besides
 */
export async function applyBatch(
  query: Scope,
  batch: readonly Translated[],
  moment: EvaluationContext,
  { sources, horizon, logger, guard, rules = PLAIN_RULES }: Surroundings,
  again: readonly ItemKey[] = [],
): Promise<BatchResult> {
  const rows = query.unit ? query : beginUnitOfWork(query);
  const work = new Batch(rows, moment, { sources, logger, rules });
  await work.load(batch);
  for (const translated of batch) await work.take(translated);
  await work.lookAt(again);
  await flushRows(rows);
  await quarantineParts(query, work.rejected, moment.now);
  const naming = work.naming(horizon);
  const unsure =
    rules.triage.isOn && work.workItems.length > 0 && (await areTasksUnverified(query)) ? work.workItems : [];
  const waits = await delayCreations(query, [...new Set([...naming, ...unsure])], moment.now);
  if (naming.length > 0 || waits)
    await enqueueTaskListRead(query, { ...moment, lane: waits ? 'triage' : 'read', notBefore: 0 });
  const held = guard === undefined ? [] : await guardChanges(query, guard);
  for (const passed of held) logger.warn({ ...passed }, 'changes are held: they need approval');
  await settleDeliveries(query, work.verdicts, moment.now);
  return work;
}

const TELL_TASKS: ReadonlySet<Answer['action']> = new Set([
  'read-tasks',
  'read-task',
  'create-task',
  'saw-task',
  'saw-tasks',
]);

class Batch implements BatchResult {
  readonly verdicts: DeliveryOutcome[] = [];
  readonly rejected: RejectedPage[] = [];
  answersTaken = false;
  tasksChanged = false;
  readonly #query: Scope;
  readonly #moment: EvaluationContext;
  readonly #logger: Logger;
  readonly #fetches: BatchFetches;
  readonly #items: BatchItems;
  readonly #looks: EvaluationQueue;

  constructor(
    query: Scope,
    moment: EvaluationContext,
    { sources, logger, rules }: { sources: Sources; logger: Logger; rules: Rules },
  ) {
    this.#query = query;
    this.#moment = moment;
    this.#logger = logger;
    this.#fetches = new BatchFetches(query, moment, sources);
    this.#items = new BatchItems(query, moment, this.#fetches);
    this.#looks = new EvaluationQueue(query, { moment, rules, sources });
  }

  get workItems(): readonly ItemKey[] {
    return this.#looks.workItems;
  }

  get evaluated(): number {
    return this.#looks.evaluated;
  }

  get changed(): ReadonlyMap<ItemKey, Changed> {
    return this.#items.changed;
  }

  get fetchesAsked(): number {
    return this.#fetches.asked;
  }

  /** One read for all items of the batch, of only what shows that nothing changed; then everything that the others need. */
  async load(batch: readonly Translated[]): Promise<void> {
    await this.#items.load(batch);
    const other = batch.flatMap((translated) => this.#items.news(translated));
    await Promise.all([
      findItems(
        this.#query,
        other.map(({ item }) => item.key),
      ),
      prefetchFetches(this.#query, [...batch.flatMap(referencesIn), ...other.map(({ reference }) => reference)]),
      prefetchNotices(this.#query, batch.flatMap(commentedIn)),
      this.#foreseeAnswers(batch),
    ]);
  }

  async #foreseeAnswers(batch: readonly Translated[]): Promise<void> {
    const works = batch.flatMap(({ delivery, answer }) => {
      if (!answer) return [];
      return async (ahead: Scope) => {
        const { edited = [] } = await applyAnswer(ahead, answer, this.#moment);
        for (const key of edited) await this.#fetches.askFor(delivery, key, ahead);
      };
    });
    await prefetch(this.#query, works);
  }

  async take(translated: Translated): Promise<void> {
    const { delivery, source, translation, answer, failure } = translated;
    this.#putAside(translated);
    if (failure) return this.#quarantine(delivery, failure);
    if (answer) return this.#takeAnswer(delivery, answer);
    if (translation?.outcome === 'ignored') {
      this.verdicts.push({ id: delivery.id, state: 'ignored', reason: translation.reason });
      return;
    }
    if (!source || !translation) return;
    if (await this.#tellsOwnComment(translation)) {
      this.verdicts.push({ id: delivery.id, state: 'ignored', reason: 'own_comment' });
      return;
    }
    await this.#takeItems(translated, source, translation);
  }

  /** Elements of a page that could not be read do not delay the rest of it. */
  #putAside({ delivery, rejected = [] }: Translated): void {
    const { id, key, connection, event } = delivery;
    for (const { reason } of rejected)
      this.#logger.warn({ delivery: id, key, connection, event, reason }, 'element of a page quarantined');
    if (rejected.length > 0) this.rejected.push({ page: delivery, parts: rejected });
  }

  async #takeItems(
    translated: Translated,
    source: Source,
    translation: Exclude<Translation, { readonly outcome: 'ignored' }>,
  ): Promise<void> {
    const { delivery, part } = translated;
    const isCarried = translation.outcome === 'items';
    const items = saidIn(translation).filter(({ key }) => isCarried || this.#items.isKnown(key));
    const isTaken = (key: ItemKey) => !isCarried && items.some((item) => item.key === key);
    for (const reference of translation.references ?? [])
      if (!isTaken(reference.key)) await this.#fetches.ask(delivery, reference);
    let superseded = items.length > 0;
    for (const item of items) {
      if (await this.#items.take(translated, source, item)) superseded = false;
    }
    if (part && !superseded) part.whole.isApplied = true;
    if (part && !part.isLast) return;
    const isOutdated = superseded && !part?.whole.isApplied;
    this.verdicts.push({ id: delivery.id, state: isOutdated ? 'superseded' : 'applied' });
  }

  async #tellsOwnComment(translation: Translation): Promise<boolean> {
    if (translation.outcome !== 'references' || translation.comment === undefined) return false;
    const [on, ...others] = translation.references;
    if (on === undefined || others.length > 0) return false;
    return isEcho(translation.comment, await currentComment(this.#query, on.key));
  }

  /** Looks at what the deliveries changed, and at these besides. */
  async lookAt(again: readonly ItemKey[]): Promise<void> {
    for (const key of again) this.#looks.lookAt(key);
    await this.#looks.evaluate(this.#items.changed);
  }

  naming(horizon: KeyHorizon): readonly ItemKey[] {
    return this.#looks.naming(horizon);
  }

  #quarantine(delivery: PendingDelivery, failure: SyncError): void {
    this.#warn(delivery, failure);
    this.verdicts.push({ id: delivery.id, state: 'quarantined', reason: reasonOf(failure) });
  }

  #warn({ id, key, connection, event }: PendingDelivery, error: SyncError): void {
    this.#logger.warn({ delivery: id, key, connection, event, error }, 'delivery quarantined');
  }

  async #takeAnswer(delivery: PendingDelivery, answer: Answer): Promise<void> {
    const { again, isSweep, swept, edited = [] } = await applyAnswer(this.#query, answer, this.#moment);
    for (const key of again) this.#looks.lookAt(key, isSweep);
    if (swept) this.#logger.info({ tasks: swept.tasks, records: swept.records }, 'workspace swept');
    for (const key of edited) if (await this.#fetches.askFor(delivery, key)) this.#fetches.asked++;
    this.answersTaken = true;
    if (TELL_TASKS.has(answer.action)) this.tasksChanged = true;
    this.verdicts.push({ id: delivery.id, state: 'applied' });
  }
}

function referencesIn({ translation }: Translated): readonly ItemReference[] {
  return translation?.outcome === 'ignored' ? [] : (translation?.references ?? []);
}

/** The items that the comments of a delivery are on. */
function commentedIn({ translation }: Translated): ItemKey[] {
  if (translation?.outcome !== 'references' || translation.comment === undefined) return [];
  return translation.references.map(({ key }) => key);
}
