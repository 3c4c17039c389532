import { createHash } from 'node:crypto';
import type { Translation } from '../connectors/connector.ts';
import { SyncError } from '../errors/sync-error.ts';
import type { Logger } from '../lib/logger.ts';
import { piecesOf } from '../lib/pieces.ts';
import { isEcho } from '../model/comment.ts';
import { type Item, type ItemKey, type ItemReference, isFinished } from '../model/item.ts';
import { holdCreates } from '../store/creates.ts';
import {
  type CostlyPage,
  type PendingDelivery,
  quarantineParts,
  settleDeliveries,
  type Verdict,
} from '../store/inbox.ts';
import { findItem, findItems, type ItemMark, itemMarks, readFields, saveItem } from '../store/items.ts';
import { foresee, inOrder, keepRows, rowsWritten } from '../store/kept-rows.ts';
import { wishTaskList } from '../store/list-reads.ts';
import { expectNotices, standingComment } from '../store/notices.ts';
import { expectFetches, requestFetch } from '../store/wanted-fetches.ts';
import type { Answer } from '../store/workspace-answers.ts';
import type { Scope } from '../store/workspace-scope.ts';
import { applyAnswer } from './answers/apply.ts';
import { comeWithEarlierFetch, lacksCommits } from './awaited-commits.ts';
import type { Cause } from './changes.ts';
import type { Moment, Source, Sources } from './context.ts';
import { type Evaluated, evaluate } from './evaluate.ts';
import { PLAIN_RULES, type Rules } from './item-rules.ts';
import type { KeyHorizon } from './key-horizon.ts';
import { type GuardLimits, guardChanges } from './mass-change-guard.ts';
import { clampTime, type Held, judge } from './newest.ts';
import { reasonOf, type Translated } from './translate-deliveries.ts';

export interface BatchResult {
  readonly verdicts: readonly Verdict[];
  /** An answer of the workspace was applied: it may also be what the outbox waits for to begin. */
  readonly answersTaken: boolean;
  /** The set of task keys may have changed. */
  readonly tasksChanged: boolean;
  readonly evaluated: number;
  readonly fetchesAsked: number;
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
  moment: Moment,
  { sources, horizon, logger, guard, rules = PLAIN_RULES }: Surroundings,
  again: readonly ItemKey[] = [],
): Promise<BatchResult> {
  const rows = query.kept ? query : keepRows(query);
  const work = new Batch(rows, moment, { sources, logger, rules });
  await work.load(batch);
  for (const translated of batch) await work.take(translated);
  for (const key of again) work.lookAt(key);
  await work.evaluateChanged();
  await rowsWritten(rows);
  await quarantineParts(query, work.costly, moment.now);
  const naming = work.naming(horizon);
  if (naming.length > 0) {
    const waits = await holdCreates(query, naming, moment.now);
    await wishTaskList(query, { ...moment, lane: waits ? 'triage' : 'read', notBefore: 0 });
  }
  const held = guard === undefined ? [] : await guardChanges(query, guard);
  for (const reason of held) logger.warn({ reason }, 'changes are held: they need approval');
  await settleDeliveries(query, work.verdicts, moment.now);
  return work;
}

/** Items that are evaluated in one go. */
const EVALUATED = 500;

interface Changed {
  readonly source: Source;
  readonly cause: Cause;
}

type Unknown = Pick<Evaluated, 'unknownKeys' | 'unknownIds'>;

const TELL_TASKS: ReadonlySet<Answer['action']> = new Set(['read-tasks', 'create-task', 'saw-task', 'saw-tasks']);

class Batch implements BatchResult {
  readonly verdicts: Verdict[] = [];
  readonly costly: CostlyPage[] = [];
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
  /** What the deliveries say of items, by the items as they came. */
  readonly #said = new Map<Item, Said>();
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

  /** One read for all items of the batch, of only what shows that nothing changed; then everything that the others need. */
  async load(batch: readonly Translated[]): Promise<void> {
    const keys = new Set<ItemKey>();
    for (const { delivery, translation } of batch) {
      for (const raw of saidIn(translation)) {
        keys.add(raw.key);
        const item = clampTime(raw, delivery.receivedAt);
        this.#said.set(raw, { item, hash: hashOf(item) });
      }
    }
    this.#marks = await itemMarks(this.#query, [...keys]);
    const other = batch.flatMap((translated) => this.#changedIn(translated));
    await Promise.all([
      findItems(
        this.#query,
        other.map(({ item }) => item.key),
      ),
      expectFetches(this.#query, [...batch.flatMap(referencesIn), ...other.map(({ reference }) => reference)]),
      expectNotices(this.#query, batch.flatMap(commentedIn)),
      this.#foreseeAnswers(batch),
    ]);
  }

  /** The items of which a delivery says something else than is known, and what would fetch them. */
  #changedIn(translated: Translated): { item: Item; reference: ItemReference }[] {
    const { source, translation } = translated;
    if (!source) return [];
    const said = saidIn(translation).flatMap((raw) => this.#said.get(raw) ?? []);
    return said
      .filter((each) => !this.#isKnown(each) || completes(translated))
      .map(({ item }) => ({ item, reference: source.reference(item) }));
  }

  #isKnown({ item, hash }: Said): boolean {
    const mark = this.#marks.get(item.key);
    return mark?.provider_time === item.updatedAt && mark.hash === hash;
  }

  async #foreseeAnswers(batch: readonly Translated[]): Promise<void> {
    const works = batch.flatMap(({ delivery, answer }) => {
      if (!answer) return [];
      return async (ahead: Scope) => {
        const { edited = [] } = await applyAnswer(ahead, answer, this.#moment);
        for (const key of edited) await this.#askFor(delivery, key, ahead);
      };
    });
    await foresee(this.#query, works);
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
  #putAside({ delivery, costly = [] }: Translated): void {
    for (const { reason } of costly) this.#warn(delivery, new SyncError('over_budget', reason));
    if (costly.length > 0) this.costly.push({ page: delivery, parts: costly });
  }

  async #takeItems(
    translated: Translated,
    source: Source,
    translation: Exclude<Translation, { readonly outcome: 'ignored' }>,
  ): Promise<void> {
    const { delivery, part } = translated;
    const isCarried = translation.outcome === 'items';
    const items = saidIn(translation).filter(({ key }) => isCarried || this.#marks.has(key));
    const isTaken = (key: ItemKey) => !isCarried && items.some((item) => item.key === key);
    for (const reference of translation.references ?? [])
      if (!isTaken(reference.key)) await this.#ask(delivery, reference);
    let superseded = items.length > 0;
    for (const item of items) {
      if (await this.#takeItem(translated, source, item)) superseded = false;
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
    for (const key of edited) if (await this.#askFor(delivery, key)) this.fetchesAsked++;
    this.answersTaken = true;
    if (TELL_TASKS.has(answer.action)) this.tasksChanged = true;
    this.verdicts.push({ id: delivery.id, state: 'applied' });
  }

  /** @returns whether the item says anything that was not known to be outdated */
  async #takeItem(translated: Translated, source: Source, raw: Item): Promise<boolean> {
    const { delivery } = translated;
    const said = this.#said.get(raw) as Said;
    const { item, hash } = said;
    const isCompleted = completes(translated);
    if (this.#isKnown(said) && !isCompleted) return true;
    const held = await this.#heldItem(item.key, this.#marks.get(item.key));
    // After an event an older one may come; other sources that call an unknown item gone would only fill rows.
    if (!held && item.gone && delivery.source !== 'webhook') return true;
    const judgement = judge(held, item, delivery.source);
    const applied = judgement.outcome === 'applied' ? judgement : undefined;
    const looked = applied?.held ?? (isCompleted ? held : undefined);
    const lacks = source.fetchesCommits && looked && lacksCommits(held?.item, looked.item, delivery.source, item);
    const isCovered = !judgement.doubtful && looked !== undefined && comeWithEarlierFetch(looked.item, delivery.source);
    if (lacks || judgement.doubtful) await this.#ask(delivery, source.reference(item), isCovered);
    if (!applied) return judgement.outcome !== 'superseded';
    // A guess may contain less than the delivery said: the fetched object must be judged, also if it says the same.
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
    // Where the clock was set back meanwhile: dated ahead, the change would wait until that time has come again.
    const at = Math.min(delivery.receivedAt, this.#moment.now);
    // Nobody waits for a backfill's changes: they go when there is nothing else to send.
    const own = delivery.source === 'backfill' ? [] : [{ id: delivery.id, at }];
    const waiting = [...(before?.waiting ?? []), ...own];
    const since = before?.since ?? at;
    const cause = { since, latest: at, waiting, isBackfill, delivery: delivery.id };
    this.#changed.set(item.key, { source, cause });
  }

  /** @param isCovered a fetch that waits, or is under way, brings what is wanted, or shows that it must be asked for anew */
  async #ask({ connection, id }: PendingDelivery, reference: ItemReference, isCovered = false): Promise<void> {
    this.fetchesAsked++;
    await requestFetch(this.#query, { connection, reference, deliveryId: id, now: this.#moment.now, isCovered });
  }

  /** By the connection that it came through. @returns whether there is one */
  async #askFor({ id }: PendingDelivery, key: ItemKey, query = this.#query): Promise<boolean> {
    const row = await findItem(query, key);
    const source = row && this.#sources.get(row.connection);
    if (!source) return false;
    const { connection, reference } = { ...row, reference: source.reference(readFields(row).item) };
    await requestFetch(query, { connection, reference, deliveryId: id, now: this.#moment.now });
    return true;
  }

  /** Items that name what may be a new task. An id says nothing of that: one named for the first time is looked for once. */
  naming(horizon: KeyHorizon): readonly ItemKey[] {
    const isNew = ({ unknownKeys, unknownIds }: Unknown) =>
      unknownIds.length > 0 || unknownKeys.some((key) => horizon.mayBeNew(key));
    return [...this.#unknown].filter(([, unknown]) => isNew(unknown)).map(([key]) => key);
  }

  async evaluateChanged(): Promise<void> {
    const changed = [...this.#changed].map(([key, why]) => ({ item: (this.#held.get(key) as Held).item, ...why }));
    await this.#evaluate(changed);
    await this.#lookAgain([...this.#again].filter((key) => !this.#changed.has(key)));
    const isLookedAt = (key: ItemKey) => this.#changed.has(key) || this.#again.has(key);
    await this.#lookAgain(
      [...this.#swept].filter((key) => !isLookedAt(key)),
      true,
    );
    // Re-evaluating them may lead to others.
    for (let looked = 0; looked < this.#told.size; ) {
      const told = [...this.#told].slice(looked);
      looked = this.#told.size;
      await this.#lookAgain(told);
    }
  }

  async #lookAgain(keys: readonly ItemKey[], isSweep = false): Promise<void> {
    const cause = { since: this.#moment.now, waiting: [], isSweep };
    for (const some of piecesOf(keys, EVALUATED)) {
      const rows = await findItems(this.#query, some);
      await this.#evaluate(
        rows.flatMap((row) => {
          const source = this.#sources.get(row.connection);
          return source ? [{ item: readFields(row).item, source, cause }] : [];
        }),
      );
    }
  }

  async #evaluate(looks: readonly (Changed & { readonly item: Item })[]): Promise<void> {
    this.evaluated += looks.length;
    const surroundings = { moment: this.#moment, rules: this.#rules, sources: this.#sources };
    const works = looks.map((look) => async (query: Scope) => ({
      key: look.item.key,
      ...(await evaluate({ query, ...look, ...surroundings })),
    }));
    for (const { key, unknownKeys, unknownIds, again } of await inOrder(this.#query, works)) {
      if (unknownKeys.length + unknownIds.length > 0) this.#unknown.set(key, { unknownKeys, unknownIds });
      for (const told of again) this.#told.add(told);
    }
  }
}

/** What a delivery says of one item, with no time from the future, and the hash of that. */
interface Said {
  readonly item: Item;
  readonly hash: string;
}

/** A backfill is asked for by hand: it also brings what the repeated pages of polls do not ask for again. */
function completes({ delivery, source }: Translated): boolean {
  return source?.fetchesCommits === true && delivery.source === 'backfill';
}

function referencesIn({ translation }: Translated): readonly ItemReference[] {
  return translation?.outcome === 'ignored' ? [] : (translation?.references ?? []);
}

/** The items that the comments of a delivery are on. */
function commentedIn({ translation }: Translated): ItemKey[] {
  if (translation?.outcome !== 'references' || translation.comment === undefined) return [];
  return translation.references.map(({ key }) => key);
}

/** What a delivery says of items: of those that it carries, and of those that it refers to. */
function saidIn(translation: Translation | undefined): readonly Item[] {
  if (translation?.outcome === 'items') return translation.items;
  return translation?.outcome === 'references' ? (translation.told ?? []) : [];
}

/** Of what the delivery says, not of what is stored: deliveries of one shape repeat, and that must be cheap to see. */
function hashOf(item: Item): string {
  return createHash('sha1').update(JSON.stringify(item)).digest('base64');
}
