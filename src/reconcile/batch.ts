import { createHash } from 'node:crypto';
import type { Translation } from '../connectors/connector.ts';
import { SyncError } from '../errors/sync-error.ts';
import type { Logger } from '../lib/logger.ts';
import { isEcho } from '../model/comment.ts';
import { type Item, type ItemKey, type ItemReference, isFinished } from '../model/item.ts';
import type { Answer } from '../store/answers.ts';
import { holdCreates } from '../store/creates.ts';
import { requestFetch } from '../store/fetches.ts';
import { type PendingDelivery, quarantineParts, settleDeliveries, type Verdict } from '../store/inbox.ts';
import { findItem, type ItemMark, itemMarks, readFields, saveItem } from '../store/items.ts';
import { wishTaskList } from '../store/list-reads.ts';
import { standingComment } from '../store/notices.ts';
import type { Scope } from '../store/scope.ts';
import { applyAnswer } from './answers/apply.ts';
import type { Cause } from './changes.ts';
import { comeWithEarlierFetch, lacksCommits } from './commits.ts';
import type { Moment, Source, Sources } from './context.ts';
import { type Evaluated, evaluate } from './evaluate.ts';
import { type GuardLimits, guardChanges } from './guard.ts';
import type { KeyHorizon } from './key-horizon.ts';
import { clampTime, type Held, judge } from './newest.ts';
import { PLAIN_RULES, type Rules } from './rules.ts';
import { reasonOf, type Translated } from './translate.ts';

export interface BatchResult {
  readonly verdicts: readonly Verdict[];
  /** Something that the workspace said was taken over: it may also be what the outbox waits for to begin. */
  readonly answersTaken: boolean;
  /** The set of task keys may have changed. */
  readonly tasksChanged: boolean;
  readonly evaluated: number;
  readonly fetchesAsked: number;
}

/** What a batch is taken over with, beside the database. */
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
 * Takes a batch over in the caller's transaction: items, mentions, desired, known, outbox, and the inbox itself.
 *
 * @param again items to look at besides
 */
export async function applyBatch(
  query: Scope,
  batch: readonly Translated[],
  moment: Moment,
  { sources, horizon, logger, guard, rules = PLAIN_RULES }: Surroundings,
  again: readonly ItemKey[] = [],
): Promise<BatchResult> {
  const work = new Batch(query, moment, { sources, logger, rules });
  await work.load(batch);
  for (const translated of batch) await work.take(translated);
  for (const key of again) work.lookAt(key);
  await work.evaluateChanged();
  const naming = work.naming(horizon);
  if (naming.length > 0) {
    const waits = await holdCreates(query, naming, moment.now);
    await wishTaskList(query, { ...moment, lane: waits ? 'triage' : 'read', notBefore: 0 });
  }
  const held = guard === undefined ? [] : await guardChanges(query, guard);
  for (const reason of held) logger.warn({ reason }, 'changes are held until someone confirms them');
  await settleDeliveries(query, work.verdicts, moment.now);
  return work;
}

interface Changed {
  readonly source: Source;
  readonly cause: Cause;
}

type Unknown = Pick<Evaluated, 'unknownKeys' | 'unknownIds'>;

const TELL_TASKS: ReadonlySet<Answer['action']> = new Set(['read-tasks', 'create-task', 'saw-task', 'saw-tasks']);

class Batch implements BatchResult {
  readonly verdicts: Verdict[] = [];
  /** The items that name what is no cached task. */
  readonly #unknown = new Map<ItemKey, Unknown>();
  answersTaken = false;
  tasksChanged = false;
  evaluated = 0;
  fetchesAsked = 0;
  readonly #query: Scope;
  readonly #moment: Moment;
  readonly #logger: Logger;
  #marks = new Map<ItemKey, ItemMark>();
  readonly #held = new Map<ItemKey, Held>();
  readonly #changed = new Map<ItemKey, Changed>();
  /** Items to look at again because of what the workspace said. */
  readonly #again = new Set<ItemKey>();
  /** Items to look at again because of what a round of the workspace sweep found: nobody waits for them. */
  readonly #swept = new Set<ItemKey>();
  /** Items to look at again because they name a work item whose tasks have changed. */
  readonly #told = new Set<ItemKey>();
  readonly #sources: Sources;
  readonly #rules: Rules;

  constructor(
    query: Scope,
    moment: Moment,
    { sources, logger, rules }: { sources: Sources; logger: Logger; rules: Rules },
  ) {
    this.#query = query;
    this.#moment = moment;
    this.#sources = sources;
    this.#logger = logger;
    this.#rules = rules;
  }

  /** One look for all items of the batch, reading only what tells that nothing changed. */
  async load(batch: readonly Translated[]): Promise<void> {
    const keys = new Set<ItemKey>();
    for (const { translation } of batch) for (const item of saidIn(translation)) keys.add(item.key);
    this.#marks = await itemMarks(this.#query, [...keys]);
  }

  async take({ delivery, source, translation, answer, failure, part, costly = [] }: Translated): Promise<void> {
    for (const { reason } of costly) this.#warn(delivery, new SyncError('over_budget', reason));
    await quarantineParts(this.#query, delivery, costly, this.#moment.now);
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
    const isCarried = translation.outcome === 'items';
    const items = saidIn(translation).filter(({ key }) => isCarried || this.#marks.has(key));
    const isTaken = (key: ItemKey) => !isCarried && items.some((item) => item.key === key);
    for (const reference of translation.references ?? [])
      if (!isTaken(reference.key)) await this.#ask(delivery, reference);
    let superseded = items.length > 0;
    for (const item of items) {
      if (await this.#takeItem(delivery, source, item)) superseded = false;
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
    return isEcho(translation.comment, await standingComment(this.#query, on.key));
  }

  lookAt(key: ItemKey): void {
    this.#again.add(key);
  }

  #quarantine(delivery: PendingDelivery, failure: SyncError): void {
    this.#warn(delivery, failure);
    this.verdicts.push({ id: delivery.id, state: 'quarantined', reason: reasonOf(failure) });
  }

  #warn({ id, connection, event }: PendingDelivery, error: SyncError): void {
    this.#logger.warn({ delivery: id, connection, event, error }, 'delivery quarantined');
  }

  async #takeAnswer(delivery: PendingDelivery, answer: Answer): Promise<void> {
    const { again, isSweep, swept, edited = [] } = await applyAnswer(this.#query, answer, this.#moment);
    for (const key of again) (isSweep ? this.#swept : this.#again).add(key);
    if (swept) this.#logger.info({ tasks: swept.tasks, records: swept.records }, 'workspace swept');
    for (const key of edited) await this.#askFor(delivery, key);
    this.answersTaken = true;
    if (TELL_TASKS.has(answer.action)) this.tasksChanged = true;
    this.verdicts.push({ id: delivery.id, state: 'applied' });
  }

  /** @returns whether the item says anything that was not known to be outdated */
  async #takeItem(delivery: PendingDelivery, source: Source, raw: Item): Promise<boolean> {
    const item = clampTime(raw, delivery.receivedAt);
    const hash = hashOf(item);
    const mark = this.#marks.get(item.key);
    // A backfill is asked for by hand: it also brings what the repeated pages of polls do not ask for again.
    const completes = source.fetchesCommits && delivery.source === 'backfill';
    if (mark?.provider_time === item.updatedAt && mark.hash === hash && !completes) return true;
    const held = await this.#heldItem(item.key, mark);
    // Of an event an older one may follow; what else says so of something that nobody knows would only fill rows.
    if (!held && item.gone && delivery.source !== 'webhook') return true;
    const judgement = judge(held, item, delivery.source);
    const applied = judgement.outcome === 'applied' ? judgement : undefined;
    const looked = applied?.held ?? (completes ? held : undefined);
    const lacks = source.fetchesCommits && looked && lacksCommits(held?.item, looked.item, delivery.source, item);
    const isCovered = !judgement.doubtful && looked !== undefined && comeWithEarlierFetch(looked.item, delivery.source);
    if (lacks || judgement.doubtful) await this.#ask(delivery, source.reference(item), isCovered);
    if (!applied) return judgement.outcome !== 'superseded';
    // A guess may hold less than the delivery said: the fetched object must be judged, also where it says the same.
    await this.#hold(delivery, source, applied.held, applied.doubtful ? '' : hash);
    return true;
  }

  async #heldItem(key: ItemKey, mark: ItemMark | undefined): Promise<Held | undefined> {
    const held = this.#held.get(key);
    if (held || !mark) return held;
    const row = await findItem(this.#query, key);
    return row && readFields(row);
  }

  async #hold(delivery: PendingDelivery, source: Source, held: Held, hash: string): Promise<void> {
    const { item } = held;
    this.#held.set(item.key, held);
    this.#marks.set(item.key, { key: item.key, provider_time: item.updatedAt, hash });
    await saveItem(this.#query, {
      key: item.key,
      kind: item.kind,
      connector: item.connector,
      connection: delivery.connection,
      provider_time: item.updatedAt,
      hash,
      finished: isFinished(item) ? 1 : 0,
      gone: item.gone ? 1 : 0,
      seen_at: this.#moment.now,
      fields: JSON.stringify(held),
    });
    const before = this.#changed.get(item.key)?.cause;
    const isBackfill = delivery.source === 'backfill' && before?.isBackfill !== false;
    // Nobody waits for what a backfill brings: it is to be sent when there is nothing else to send.
    const own = delivery.source === 'backfill' ? [] : [{ id: delivery.id, at: delivery.receivedAt }];
    const waiting = [...(before?.waiting ?? []), ...own];
    const since = before?.since ?? delivery.receivedAt;
    const cause = { since, latest: delivery.receivedAt, waiting, isBackfill, delivery: delivery.id };
    this.#changed.set(item.key, { source, cause });
  }

  /** @param isCovered a fetch that waits, or is under way, brings what is wanted, or shows that it must be asked for anew */
  async #ask(delivery: PendingDelivery, reference: ItemReference, isCovered = false): Promise<void> {
    this.fetchesAsked++;
    const { connection, id } = delivery;
    await requestFetch(this.#query, { connection, reference, deliveryId: id, now: this.#moment.now, isCovered });
  }

  /** By the connection that it came through. */
  async #askFor(delivery: PendingDelivery, key: ItemKey): Promise<void> {
    const row = await findItem(this.#query, key);
    const source = row && this.#sources.get(row.connection);
    if (source) await this.#ask({ ...delivery, connection: row.connection }, source.reference(readFields(row).item));
  }

  /** Items that name what may be a new task. An id says nothing of that: one named for the first time is looked for once. */
  naming(horizon: KeyHorizon): readonly ItemKey[] {
    const isNew = ({ unknownKeys, unknownIds }: Unknown) =>
      unknownIds.length > 0 || unknownKeys.some((key) => horizon.mayBeNew(key));
    return [...this.#unknown].filter(([, unknown]) => isNew(unknown)).map(([key]) => key);
  }

  async evaluateChanged(): Promise<void> {
    for (const [key, { source, cause }] of this.#changed) {
      await this.#evaluate((this.#held.get(key) as Held).item, source, cause);
    }
    for (const key of this.#again) {
      if (!this.#changed.has(key)) await this.#lookAgain(key);
    }
    for (const key of this.#swept) {
      if (!this.#changed.has(key) && !this.#again.has(key)) await this.#lookAgain(key, true);
    }
    for (const key of this.#told) await this.#lookAgain(key);
  }

  async #lookAgain(key: ItemKey, isSweep = false): Promise<void> {
    const row = await findItem(this.#query, key);
    const source = row && this.#sources.get(row.connection);
    if (!row || !source) return;
    await this.#evaluate(readFields(row).item, source, { since: this.#moment.now, waiting: [], isSweep });
  }

  async #evaluate(item: Item, source: Source, cause: Cause): Promise<void> {
    this.evaluated++;
    const surroundings = { query: this.#query, moment: this.#moment, rules: this.#rules, sources: this.#sources };
    const { unknownKeys, unknownIds, again } = await evaluate({ ...surroundings, item, source, cause });
    if (unknownKeys.length + unknownIds.length > 0) this.#unknown.set(item.key, { unknownKeys, unknownIds });
    for (const key of again) this.#told.add(key);
  }
}

/** What a delivery says of items: of those that it carries, and of those that it refers to. */
function saidIn(translation: Translation | undefined): readonly Item[] {
  if (translation?.outcome === 'items') return translation.items;
  return translation?.outcome === 'references' ? (translation.told ?? []) : [];
}

/** Of what the delivery says, not of what is held: deliveries of one shape repeat, and that must be cheap to see. */
function hashOf(item: Item): string {
  return createHash('sha1').update(JSON.stringify(item)).digest('base64');
}
