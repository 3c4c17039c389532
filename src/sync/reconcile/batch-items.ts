import { createHash } from 'node:crypto';
import type { Translation } from '../../connectors/connector.ts';
import type { DeliverySource } from '../../model/delivery.ts';
import { type Item, type ItemKey, type ItemReference, isFinished } from '../../model/item.ts';
import type { PendingDelivery } from '../../store/inbox.ts';
import { findItem, type ItemVersion, itemVersions, readFields, saveItem } from '../../store/items.ts';
import { lastBeforeRestore } from '../../store/mark-unverified.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { comeWithEarlierFetch, lacksCommits } from './awaited-commits.ts';
import type { BatchFetches } from './batch-fetches.ts';
import type { EvaluationContext, Source } from './context.ts';
import type { Changed } from './evaluation-queue.ts';
import { clampTime, type Held, type Judgement, judge } from './newest.ts';
import type { Translated } from './translate-deliveries.ts';

/** What the deliveries of a batch say of items, compared with what is known of them. */
export class BatchItems {
  /** By the key of the item. */
  readonly changed = new Map<ItemKey, Changed>();
  readonly #query: Scope;
  readonly #moment: EvaluationContext;
  readonly #fetches: BatchFetches;
  #marks = new Map<ItemKey, ItemVersion>();
  /** By the items as they came. */
  readonly #said = new Map<Item, Said>();
  readonly #held = new Map<ItemKey, Held>();
  #lastBeforeRestore: number | undefined;

  constructor(query: Scope, moment: EvaluationContext, fetches: BatchFetches) {
    this.#query = query;
    this.#moment = moment;
    this.#fetches = fetches;
  }

  /** Reads only what tells that nothing changed. */
  async load(batch: readonly Translated[]): Promise<void> {
    const keys = new Set<ItemKey>();
    for (const { delivery, translation } of batch) {
      for (const raw of saidIn(translation)) {
        keys.add(raw.key);
        const item = clampTime(raw, delivery.receivedAt);
        this.#said.set(raw, { item, hash: hashOf(item) });
      }
    }
    this.#marks = await itemVersions(this.#query, [...keys]);
  }

  isKnown(key: ItemKey): boolean {
    return this.#marks.has(key);
  }

  /** The items of which a delivery says something else than is known, and what would fetch them. */
  news(translated: Translated): { item: Item; reference: ItemReference }[] {
    const { source, translation } = translated;
    if (!source) return [];
    const said = saidIn(translation).flatMap((raw) => this.#said.get(raw) ?? []);
    const isWanted = completes(translated) || translated.delivery.isReplayed === true;
    return said
      .filter((each) => !this.#saysNothingNew(each) || isWanted)
      .map(({ item }) => ({ item, reference: source.reference(item) }));
  }

  #saysNothingNew({ item, hash }: Said): boolean {
    const mark = this.#marks.get(item.key);
    return mark?.provider_time === item.updatedAt && mark.hash === hash;
  }

  /** @returns whether the item says anything that was not known to be outdated */
  async take(translated: Translated, source: Source, raw: Item): Promise<boolean> {
    const { delivery } = translated;
    const said = this.#said.get(raw) as Said;
    const isCompleted = completes(translated);
    const { isReplayed = false } = delivery;
    const mark = this.#marks.get(raw.key);
    const isUnverified = mark?.unverified === 1;
    if (this.#saysNothingNew(said) && !isCompleted && !isReplayed && !isUnverified) return true;
    // A delivery that came before a restore confirms nothing, and neither does a part that a delivery tells in passing.
    const isPresent =
      mark?.unverified === 0 ||
      (translated.translation?.outcome === 'items' && (await this.#cameSinceRestore(delivery)));
    const held = await this.#heldItem(raw.key, mark);
    const item = clampTime(raw, delivery.receivedAt, held?.item);
    // After an event an older one may come; other sources that call an unknown item gone would only fill rows.
    if (!held && item.gone && delivery.source !== 'webhook') return true;
    // What was fetched some time ago is no authority on what exists now: where it tells something else, a fetch decides.
    const judgement = judge(held, item, isReplayed ? 'webhook' : delivery.source);
    const applied = judgement.outcome === 'applied' ? judgement : undefined;
    const looked = applied?.held ?? (isCompleted ? held : undefined);
    const wanted = fetchWanted({ translated, source, said: item, before: held, looked, judgement });
    if (wanted) await this.#fetches.ask(delivery, source.reference(item), wanted.isCovered);
    const isVerified = isPresent && (!isUnverified || verifies(judgement, delivery.source));
    const unverified = isVerified ? 0 : 1;
    if (!applied && held && isUnverified && isVerified)
      await this.#hold(delivery, source, held, { hash: mark.hash, unverified });
    else if (!applied && held && isReplayed && isVerified) this.#note(delivery, source, held.item);
    if (!applied) return judgement.outcome !== 'superseded';
    // A guess may contain less than the delivery said: the fetched object must be judged, also if it says the same.
    await this.#hold(delivery, source, applied.held, { hash: applied.doubtful ? '' : said.hash, unverified });
    return true;
  }

  async #cameSinceRestore({ id }: PendingDelivery): Promise<boolean> {
    this.#lastBeforeRestore ??= await lastBeforeRestore(this.#query);
    return id > this.#lastBeforeRestore;
  }

  async #heldItem(key: ItemKey, mark: ItemVersion | undefined): Promise<Held | undefined> {
    const held = this.#held.get(key);
    if (held || !mark) return held;
    const row = await findItem(this.#query, key);
    return row && readFields(row);
  }

  async #hold(
    delivery: PendingDelivery,
    source: Source,
    held: Held,
    { hash, unverified }: Pick<ItemVersion, 'hash' | 'unverified'>,
  ): Promise<void> {
    const { item } = held;
    this.#held.set(item.key, held);
    this.#marks.set(item.key, { key: item.key, provider_time: item.updatedAt, hash, unverified });
    const row = {
      key: item.key,
      kind: item.kind,
      connector: item.connector,
      connection: delivery.connection,
      provider_time: item.updatedAt,
      hash,
      unverified,
      finished: isFinished(item) ? 1 : 0,
      gone: item.gone ? 1 : 0,
      seen_at: this.#moment.now,
      fields: JSON.stringify(held),
    } as const;
    await saveItem(this.#query, row, delivery.id);
    if (unverified === 0) this.#note(delivery, source, item);
  }

  /** The item is to be looked at because of this delivery. */
  #note(delivery: PendingDelivery, source: Source, item: Item): void {
    const before = this.changed.get(item.key)?.cause;
    const isBackfill = delivery.source === 'backfill' && before?.isBackfill !== false;
    // Where the clock was set back meanwhile: dated ahead, the change would wait until that time has come again.
    // Nobody has waited for a replay since it came first.
    const at = delivery.isReplayed ? this.#moment.now : Math.min(delivery.receivedAt, this.#moment.now);
    // Nobody waits for a backfill's changes: they go when there is nothing else to send.
    const own = delivery.source === 'backfill' ? [] : [{ id: delivery.id, at }];
    const waiting = [...(before?.waiting ?? []), ...own];
    const since = before?.since ?? at;
    const cause = { since, latest: at, waiting, isBackfill, delivery: delivery.id };
    this.changed.set(item.key, { item, source, cause });
  }
}

/** What a delivery says of one item, with no time from the future, and the hash of that. */
interface Said {
  readonly item: Item;
  readonly hash: string;
}

interface Looked {
  readonly translated: Translated;
  readonly source: Source;
  /** What the delivery itself says. */
  readonly said: Item;
  readonly before: Held | undefined;
  /** What is held with it, where it may lack something. */
  readonly looked: Held | undefined;
  readonly judgement: Judgement;
}

/** Whether the object is to be fetched, and whether a fetch that waits already brings it. */
function fetchWanted({
  translated,
  source,
  said,
  before,
  looked,
  judgement,
}: Looked): { isCovered: boolean } | undefined {
  const via = translated.delivery.source;
  const lacks = source.fetchesCommits && looked && lacksCommits(before?.item, looked.item, via, said);
  if (!lacks && !judgement.doubtful) return undefined;
  return { isCovered: !judgement.doubtful && looked !== undefined && comeWithEarlierFetch(looked.item, via) };
}

/**
 * Whether the delivery confirms an item that is unverified since a restore. An old webhook may arrive late; everything else was
 * asked for since then. Two contents of one time confirm nothing: the fetch decides.
 */
function verifies({ outcome, doubtful }: Judgement, source: DeliverySource): boolean {
  return outcome === 'applied' || (!doubtful && (outcome === 'unchanged' || source !== 'webhook'));
}

/** A backfill is asked for by hand: it also brings what the repeated pages of polls do not ask for again. */
function completes({ delivery, source }: Translated): boolean {
  return source?.fetchesCommits === true && delivery.source === 'backfill';
}

/** What a delivery says of items: of those that it carries, and of those that it refers to. */
export function saidIn(translation: Translation | undefined): readonly Item[] {
  if (translation?.outcome === 'items') return translation.items;
  return translation?.outcome === 'references' ? (translation.told ?? []) : [];
}

/** Of what the delivery says, not of what is stored: deliveries of one shape repeat, and that must be cheap to see. */
function hashOf(item: Item): string {
  return createHash('sha1').update(JSON.stringify(item)).digest('base64');
}
