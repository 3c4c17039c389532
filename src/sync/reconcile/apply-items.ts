import { createHash } from 'node:crypto';
import type { Translation } from '../../connectors/connector.ts';
import type { DeliveryOrigin } from '../../model/delivery.ts';
import { type Item, type ItemKey, type ItemReference, isFinished, type WorkItem } from '../../model/item.ts';
import { isLiveAt, type PendingDelivery, type Webhook, webhookOf } from '../../store/deliveries/inbox.ts';
import { requestFetch } from '../../store/deliveries/wanted-fetches.ts';
import {
  findItem,
  type ItemVersion,
  itemVersions,
  readFields,
  type StoredItem,
  saveItem,
} from '../../store/items/items.ts';
import { lastBeforeRestore } from '../../store/meta.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { BatchContext, EvaluatedItem, ReconcileConnection } from './context.ts';
import { clampTime, type MergeResult, mergeNewest } from './newest-wins.ts';
import type { Translated } from './translate-deliveries.ts';

/** Merges the items of a batch's deliveries into the stored items. */
export class BatchItems {
  /** The items that the batch changed, by their keys. */
  readonly changed = new Map<ItemKey, EvaluatedItem>();
  fetchesRequested = 0;
  readonly #query: Scope;
  readonly #context: BatchContext;
  #versions = new Map<ItemKey, ItemVersion>();
  /** By the items as the deliveries contain them. */
  readonly #received = new Map<Item, ReceivedItem>();
  readonly #stored = new Map<ItemKey, StoredItem>();
  #lastBeforeRestore: number | undefined;

  constructor(query: Scope, context: BatchContext) {
    this.#query = query;
    this.#context = context;
  }

  /** Reads only the columns that show whether an item is unchanged. */
  async load(batch: readonly Translated[]): Promise<void> {
    const keys = new Set<ItemKey>();
    for (const { delivery, translation } of batch) {
      for (const raw of itemsIn(translation)) {
        keys.add(raw.key);
        const item = clampTime(raw, delivery.receivedAt);
        this.#received.set(raw, { item, hash: hashOf(item) });
      }
    }
    this.#versions = await itemVersions(this.#query, [...keys]);
  }

  isKnown(key: ItemKey): boolean {
    return this.#versions.has(key);
  }

  /**
   * Whether an item that is outside the scope of this connection was in it before: the connection reported it last. An item that
   * is unverified since a restore counts too, because no other delivery of it will come.
   */
  async hasLeftScope({ key, containerId }: WorkItem, connection: string): Promise<boolean> {
    const row = this.isKnown(key) ? await findItem(this.#query, key) : undefined;
    if (row?.connection !== connection) return false;
    const { item } = readFields(row);
    return item.kind === 'work_item' && (item.containerId !== containerId || row.unverified === 1);
  }

  /** Returns the items that differ from the stored ones, and the references that would fetch them. */
  changedBy(translated: Translated): { item: Item; reference: ItemReference }[] {
    const { connection, translation } = translated;
    if (!connection) return [];
    const received = itemsIn(translation).flatMap((raw) => this.#received.get(raw) ?? []);
    return received
      .filter((each) => !this.#isUnchanged(each) || isAlwaysMerged(translated))
      .map(({ item }) => ({ item, reference: connection.reference(item) }));
  }

  #isUnchanged({ item, hash }: ReceivedItem): boolean {
    const version = this.#versions.get(item.key);
    return version?.provider_time === item.updatedAt && version.hash === hash;
  }

  /**
   * Merges one item of a delivery. Returns false if everything that it contains is outdated.
   *
   * @param place the item's position in the whole delivery
   */
  async apply(translated: Translated, connection: ReconcileConnection, raw: Item, place = 0): Promise<boolean> {
    const { delivery } = translated;
    const source = { delivery, connection, place };
    const received = this.#received.get(raw) as ReceivedItem;
    const version = this.#versions.get(raw.key);
    const isUnverified = version?.unverified === 1;
    if (this.#isUnchanged(received) && !isUnverified && !isAlwaysMerged(translated)) return true;
    const mayVerify = version?.unverified === 0 || (await this.#mayVerify(translated));
    const stored = await this.#findStored(raw.key, version);
    const item = clampTime(raw, delivery.receivedAt, stored?.item);
    // After a webhook an older one may still come. Other sources that report an unknown item as gone would only add
    // rows.
    if (!stored && item.gone && delivery.source !== 'webhook') return true;
    // A replayed fetch is no authority on the present existence: if it differs, the item is fetched again.
    const result = mergeNewest(stored, item, delivery.isReplayed ? 'webhook' : delivery.source);
    await this.#fetchIfNeeded(translated, connection, item, stored, result);
    const isVerified = mayVerify && (!isUnverified || verifies(result, delivery.source));
    if (result.outcome === 'applied') {
      // The merged item may lack content of the delivery. An empty hash ensures that the fetched object is merged, even
      // if it is equal.
      const hash = result.needsFetch ? '' : received.hash;
      await this.#store(source, result.stored, { hash, unverified: isVerified ? 0 : 1 });
      return true;
    }
    if (stored && isVerified) {
      if (isUnverified) await this.#store(source, stored, { hash: version.hash, unverified: 0 });
      else if (delivery.isReplayed) this.#markChanged(source, stored.item);
    }
    return result.outcome !== 'superseded';
  }

  /** Whether a delivery may verify an item after a restore. Older deliveries and partial items may not. */
  async #mayVerify({ delivery, translation }: Translated): Promise<boolean> {
    if (translation?.outcome === 'references') return false;
    this.#lastBeforeRestore ??= await lastBeforeRestore(this.#query);
    return delivery.id > this.#lastBeforeRestore;
  }

  /** Requests the object if only a fetch can settle its state, or if its commits are missing. */
  async #fetchIfNeeded(
    translated: Translated,
    connection: ReconcileConnection,
    received: Item,
    before: StoredItem | undefined,
    result: MergeResult,
  ): Promise<void> {
    const { delivery } = translated;
    const merged = result.outcome === 'applied' ? result.stored : undefined;
    const current = (merged ?? (mayLackCommits(translated) ? before : undefined))?.item;
    const lacksCommits =
      connection.fetchesCommits && current && needsCommits(before?.item, current, delivery.source, received);
    if (!lacksCommits && !result.needsFetch) return;
    const isCovered = !result.needsFetch && current !== undefined && isCoveredByFetch(current, delivery.source);
    await this.requestFetch(delivery, connection.reference(received), isCovered);
  }

  async #findStored(key: ItemKey, version: ItemVersion | undefined): Promise<StoredItem | undefined> {
    const stored = this.#stored.get(key);
    if (stored || !version) return stored;
    const row = await findItem(this.#query, key);
    return row && readFields(row);
  }

  async #store(
    source: ItemSource,
    stored: StoredItem,
    { hash, unverified }: Pick<ItemVersion, 'hash' | 'unverified'>,
  ): Promise<void> {
    const { delivery } = source;
    const { item } = stored;
    this.#stored.set(item.key, stored);
    this.#versions.set(item.key, { key: item.key, provider_time: item.updatedAt, hash, unverified });
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
      seen_at: this.#context.now,
      fields: JSON.stringify(stored),
      number_sign: (item.kind === 'pull_request' && item.numberSign) || null,
    } as const;
    await saveItem(this.#query, row, delivery.id);
    if (unverified === 0) this.#markChanged(source, item);
  }

  /** Marks an item for evaluation because of this delivery. */
  #markChanged({ delivery, connection, place }: ItemSource, item: Item): void {
    const before = this.changed.get(item.key)?.cause;
    const isBackfill = delivery.source === 'backfill' && before?.isBackfill !== false;
    // If our clock was set back, a receipt lies in the future, and a change dated by it would wait until then.
    // A replay counts from now, because its lag is not the lag of the original delivery.
    const at = delivery.isReplayed ? this.#context.now : Math.min(delivery.receivedAt, this.#context.now);
    // The lag of imports is not measured: they bring more changes at once than the quota allows. A backfill waits for nothing,
    // so that its changes stay in its lane.
    const own = delivery.source === 'backfill' ? [] : [{ id: delivery.id, at: delivery.isImport ? null : at }];
    const waiting = [...(before?.waiting ?? []), ...own];
    const since = before?.since ?? at;
    const webhook = liveWebhookOf(delivery, this.#context.now) ?? before?.webhook;
    const cause = { since, latest: at, place, waiting, isBackfill, delivery: delivery.id, webhook };
    this.changed.set(item.key, { item, connection, cause });
  }

  /**
   * Requests an object that a delivery names without its whole content.
   *
   * @param isCovered a waiting or running fetch returns the missing content, or shows that it must be requested again
   */
  async requestFetch(delivery: PendingDelivery, reference: ItemReference, isCovered = false): Promise<void> {
    this.fetchesRequested++;
    const { now } = this.#context;
    const { connection, id: deliveryId } = delivery;
    const isLive = liveWebhookOf(delivery, now) !== undefined;
    await requestFetch(this.#query, { connection, reference, deliveryId, now, isCovered, isLive });
  }

  /**
   * Requests an item by the connection that it came through. Returns false if that connection is no longer configured.
   */
  async requestItem({ id }: PendingDelivery, key: ItemKey, query = this.#query): Promise<boolean> {
    const { now, sources } = this.#context;
    const row = await findItem(query, key);
    const connection = row && sources.get(row.connection);
    if (!connection) return false;
    const reference = connection.reference(readFields(row).item);
    await requestFetch(query, { connection: row.connection, reference, deliveryId: id, now });
    return true;
  }
}

/** Returns the webhook that a delivery is, or because of which it was fetched, if it is live and nobody replays it. */
function liveWebhookOf(delivery: PendingDelivery, now: number): Webhook | undefined {
  const webhook = delivery.isReplayed ? undefined : webhookOf(delivery);
  return webhook !== undefined && isLiveAt(webhook, now) ? webhook : undefined;
}

/** One item of a delivery, without a time in the future, and its hash. */
interface ReceivedItem {
  readonly item: Item;
  readonly hash: string;
}

/** The delivery that contains an item, and the position of the item in it. */
interface ItemSource {
  readonly delivery: PendingDelivery;
  readonly connection: ReconcileConnection;
  readonly place: number;
}

/**
 * Decides whether the commits of a pull request must be fetched: none are known, or its head changed and is not the
 * head whose commits are known. For finished pull requests only a webhook causes the fetch, because a list of old ones
 * would cost a request each.
 *
 * A fetched object causes another fetch only if its commits belong to a head that is no longer the newest. Otherwise it
 * contained the commits, or showed that they cannot be read.
 *
 * @param before the stored item before the delivery
 * @param current the stored item after it
 * @param received the content of the delivery itself
 */
export function needsCommits(
  before: Item | undefined,
  current: Item,
  origin: DeliveryOrigin,
  received: Item = current,
): boolean {
  if (current.kind !== 'pull_request' || current.gone) return false;
  if (origin === 'fetch') {
    const commitsSha = received.kind === 'pull_request' ? received.commitsSha : undefined;
    return commitsSha !== undefined && commitsSha !== current.headSha;
  }
  if (current.state !== 'open' && origin !== 'webhook') return false;
  if (current.commitMessages === undefined) return true;
  return current.commitsSha !== current.headSha && headOf(before) !== current.headSha;
}

/**
 * Decides whether a waiting or running fetch will return the missing commits, or show that they must be requested
 * again. A fetch that began when the commits of an older head were known may return none.
 */
function isCoveredByFetch(current: Item, origin: DeliveryOrigin): boolean {
  return origin === 'fetch' || (current.kind === 'pull_request' && current.commitsSha === undefined);
}

function headOf(item: Item | undefined): string | undefined {
  return item?.kind === 'pull_request' ? item.headSha : undefined;
}

/**
 * Decides whether the delivery verifies an item that is unverified since a restore. An old webhook may arrive late; all
 * other sources were read since then. Two contents of one time verify nothing: the fetch decides.
 */
function verifies({ outcome, needsFetch }: MergeResult, origin: DeliveryOrigin): boolean {
  return !needsFetch && (outcome !== 'superseded' || origin !== 'webhook');
}

/** Replays and completing backfills are merged even if the item is unchanged. */
function isAlwaysMerged(translated: Translated): boolean {
  return translated.delivery.isReplayed === true || mayLackCommits(translated);
}

/**
 * Backfills also complete unchanged items with their commits. Repeated pages of polls do not, because that would cost
 * requests.
 */
function mayLackCommits({ delivery, connection }: Translated): boolean {
  return connection?.fetchesCommits === true && delivery.source === 'backfill';
}

/** Returns the items that a delivery contains: whole ones, parts of the items that it refers to, or one outside the scope. */
export function itemsIn(translation: Translation | undefined): readonly Item[] {
  if (translation?.outcome === 'items') return translation.items;
  if (translation?.outcome === 'ignored') return translation.outside ? [translation.outside] : [];
  return translation?.partialItems ?? [];
}

/**
 * Hashes the delivery's content, not the stored content, so that a repeated delivery is recognized without reading the
 * item.
 */
function hashOf(item: Item): string {
  return createHash('sha1').update(JSON.stringify(item)).digest('base64');
}
