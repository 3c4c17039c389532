import { z } from 'zod';
import type { Translation } from '../../connectors/connector.ts';
import { DELIVERY_SOURCES, DELIVERY_STATES } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { Item, ItemKey } from '../../model/item.ts';
import { LARGE, yieldForRequests } from '../../platform/lib/concurrency.ts';
import {
  type DeliveryFilter,
  type DeliveryPosition,
  deliveriesByIds,
  deliveriesByKey,
  deliveriesWithBody,
  deliveryPosition,
  hasDeliveries,
  isReplayable,
  keysWithPrefix,
  type ListedDelivery,
  latestDeliveryIds,
  replayDeliveries,
  searchDeliveries,
  storedBodies,
} from '../../store/deliveries/find-deliveries.ts';
import {
  countQuarantined,
  dismissQuarantined,
  quarantinedDeliveries,
  retryQuarantined,
  type StoredBody,
  unpackBody,
} from '../../store/deliveries/inbox.ts';
import { findItems as itemRows, readDeliveries } from '../../store/items/items.ts';
import { type Answer, readAnswer, WORKSPACE } from '../../store/workspace/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { ReconcileConnection, ReconcileConnections } from '../../sync/reconcile/context.ts';
import { translateEvent } from '../../sync/reconcile/workspace-events.ts';
import { findItems, findTask, itemsAbout, type NamedItem, nameOfItem, noSuchItem } from '../items/human-names.ts';
import { unknownName } from '../named.ts';
import { countSchema, type OpenWorkspace, operation, textSchema } from '../open-workspace.ts';

const wantedSchema = z.strictObject({
  /** Our number or the vendor's id of one, or an item by any name: those that changed it. */
  about: textSchema.optional(),
  state: z.enum(DELIVERY_STATES).optional(),
  connection: textSchema.optional(),
  source: z.enum(DELIVERY_SOURCES).optional(),
  /** Whether answers to worksync and webhooks of the workspace are shown too. */
  own: z.boolean().optional(),
});

export type WantedDeliveries = z.infer<typeof wantedSchema>;

const numberSchema = z.int().positive();

const pageSchema = wantedSchema.extend({
  limit: z.int().min(1).max(200),
  /** `next` of the previous page. */
  before: numberSchema.optional(),
});

export interface ShownDelivery extends ListedDelivery {
  /** The first items in it; null if its body is purged, or too large to read for a list. */
  readonly items: readonly NamedItem[] | null;
}

export type DeliveryPage = Awaited<ReturnType<typeof listDeliveries>>;

/** Deliveries per statement, and statements per page: a few milliseconds each, so that a page stays fast. */
const LOOKED_AT = 1_000;
const MOST_LOOKS = 20;

/**
 * Returns the latest deliveries that match, the newest first; the number that the next page begins before; and the receipt of the oldest
 * delivery that was read, because with a rare state a page may end before it is full. Throws `not_found`, and `usage` for an unknown
 * connection.
 */
async function listDeliveries(partition: OpenWorkspace, wanted: z.infer<typeof pageSchema>) {
  const { query } = partition.store;
  const named = await namedBy(partition, wanted);
  if (named !== undefined) {
    const all = named.filter(({ id }) => wanted.before === undefined || id < wanted.before);
    const page = all.slice(0, wanted.limit);
    const next = all.length > page.length ? (page.at(-1)?.id ?? null) : null;
    return { deliveries: await show(partition, page), next, lookedBackTo: page.at(-1)?.receivedAt ?? null };
  }
  const before = wanted.before === undefined ? undefined : await deliveryPosition(query, wanted.before);
  if (wanted.before !== undefined && before === undefined) return { deliveries: [], next: null, lookedBackTo: null };
  const { found, next } = await look(query, filterOf(partition, wanted), { before, wanted: wanted.limit });
  const lookedBackTo = next?.at ?? found.at(-1)?.receivedAt ?? null;
  return { deliveries: await show(partition, found), next: next?.id ?? null, lookedBackTo };
}

/** Searches backwards until it has found enough or has read enough; the next page continues from there. */
async function look(
  query: Scope,
  filter: DeliveryFilter,
  {
    before,
    wanted,
    most = LOOKED_AT,
  }: { readonly before: DeliveryPosition | undefined; readonly wanted: number; readonly most?: number },
): Promise<{ readonly found: readonly ListedDelivery[]; readonly next: DeliveryPosition | undefined }> {
  const found: ListedDelivery[] = [];
  let next = before;
  for (let looks = 0; looks < MOST_LOOKS; looks++) {
    const looked = await searchDeliveries(query, filter, {
      before: next,
      most,
      wanted: wanted - found.length,
    });
    found.push(...looked.found);
    next = looked.next;
    if (found.length >= wanted || next === undefined) break;
    await yieldForRequests();
  }
  return { found, next };
}

const OF_OTHERS = ['webhook', 'poll', 'backfill', 'fetch'] as const;

/** Throws `usage`. */
function filterOf(
  { connections }: OpenWorkspace,
  { state, connection, source, own }: WantedDeliveries,
): DeliveryFilter {
  const names = [...connections.map(({ name }) => name), WORKSPACE];
  if (connection !== undefined && !names.includes(connection)) throw unknownName('connection', connection, names);
  const isOwn = own === true || connection === WORKSPACE;
  const sources = source ? [source] : isOwn ? undefined : OF_OTHERS;
  return { ...(state && { states: [state] }), ...(connection && { connection }), ...(sources && { sources }) };
}

/** Returns the deliveries that `about` names and the filter matches, the newest first; undefined if `about` is absent. */
async function namedBy(partition: OpenWorkspace, filter: WantedDeliveries): Promise<ListedDelivery[] | undefined> {
  if (filter.about === undefined) return undefined;
  const { states, connection, sources } = filterOf(partition, { ...filter, own: true });
  const found = (await deliveriesCalled(partition, filter.about)) ?? (await deliveriesOfItem(partition, filter.about));
  const isWanted = (each: ListedDelivery) =>
    (states?.includes(each.state) ?? true) &&
    (sources?.includes(each.source) ?? true) &&
    (connection === undefined || each.connection === connection);
  return found.filter(isWanted);
}

const NUMBER = /^[1-9]\d{0,14}$/;

/** A delivery by our number, or those with this id of their vendor; undefined where there is none. */
export async function deliveriesCalled(
  { store: { query }, connections }: OpenWorkspace,
  name: string,
): Promise<ListedDelivery[] | undefined> {
  const byNumber = NUMBER.test(name) ? await deliveriesByIds(query, [Number(name)]) : [];
  const names = [...connections.map((connection) => connection.name), WORKSPACE];
  const byKey = byNumber.length > 0 ? [] : await deliveriesByKey(query, names, name);
  const found = [...byNumber, ...byKey];
  return found.length > 0 ? found : undefined;
}

/** Throws `not_found`. */
async function deliveriesOfItem({ store: { query }, rules }: OpenWorkspace, name: string): Promise<ListedDelivery[]> {
  const task = await findTask(query, name);
  const keys = task ? await itemsAbout(query, task) : await findItems(query, name, rules);
  if (keys.length === 0 && !task) throw await noSuchItem(query, name);
  return deliveriesThatChanged(query, keys);
}

/** The last deliveries that changed these items, the newest first. */
export async function deliveriesThatChanged(query: Scope, keys: readonly ItemKey[]): Promise<ListedDelivery[]> {
  const rows = await itemRows(query, keys);
  return deliveriesByIds(query, [...new Set(rows.flatMap(readDeliveries))]);
}

const MOST_NEAR = 5;
const SHORTEST_START = 4;

/** Returns the error for an unknown delivery, with similar ids. */
export async function noSuchDelivery(
  { store: { query }, connections }: OpenWorkspace,
  name: string,
): Promise<SyncError> {
  const near: string[] = [];
  for (const connection of connections)
    if (name.length >= SHORTEST_START && near.length < MOST_NEAR)
      near.push(...(await keysWithPrefix(query, connection.name, name, MOST_NEAR)));
  if (near.length === 0) near.push(...(await latestDeliveryIds(query, MOST_NEAR)).map(String));
  const hint =
    near.length === 0
      ? 'Nothing has come in yet, or everything was purged.'
      : `There are: ${near.slice(0, MOST_NEAR).join(', ')}. "worksync deliveries list" finds others.`;
  return new SyncError('not_found', `there is no delivery ${name}, or it was purged`, { hint });
}

/** Bytes of the largest body that a list reads: a webhook of one item, and not a page of a hundred. */
const LOOKED_INTO = 64 * 1024;
const AT_ONCE = 5;
const NAMED = 3;

async function show(partition: OpenWorkspace, page: readonly ListedDelivery[]): Promise<ShownDelivery[]> {
  const { query } = partition.store;
  const shown: ShownDelivery[] = [];
  for (let at = 0; at < page.length; at += AT_ONCE) {
    const some = page.slice(at, at + AT_ONCE);
    const readable = some.filter(({ attempts, state }) => attempts === 0 && state !== 'quarantined');
    const bodies = await storedBodies(
      query,
      readable.map(({ id }) => id),
      LOOKED_INTO,
    );
    for (const delivery of some) {
      const stored = bodies.find(({ id }) => id === delivery.id);
      const body = stored?.body;
      const read =
        body && (await readDelivery(partition.sources, delivery, { body, unpacked_length: stored.unpacked_length }));
      shown.push({
        ...delivery,
        items: read?.outcome === 'items' ? read.items.slice(0, NAMED).map(nameOfItem) : read ? [] : null,
      });
    }
    await yieldForRequests();
  }
  return shown;
}

const replaySchema = wantedSchema.extend({
  ids: z.array(numberSchema).min(1).max(10_000).optional(),
  /** Returns what would be replayed, and changes nothing. */
  preview: z.boolean(),
});

type ReplayRequest = z.infer<typeof replaySchema>;

const MOST_REPLAYED = 10_000;
/** Deliveries per statement of a replay. A statement takes some milliseconds, most of them for the rows. */
const LOOKED_AT_OF_ALL = 10_000;

/**
 * Puts deliveries back to pending, so that reconcile reads them with the present rules and connectors. The newest data still
 * wins, so an old delivery reverts nothing. Idempotent. Throws `not_found`, `usage`.
 */
async function replay(partition: OpenWorkspace, filter: ReplayRequest) {
  const { store, wakeReconcile } = partition;
  const { found, more } = await wantedForReplay(partition, filter);
  const replayable = found.filter(isReplayable).map(({ id }) => id);
  const quarantined = found.filter(({ state }) => state === 'quarantined').map(({ id }) => id);
  const kept = await withBodies(store.query, replayable);
  const result = {
    // Put back to pending, or, in a preview, would be.
    replayed: kept.length + quarantined.length,
    quarantined: quarantined.length,
    pending: found.filter(({ state }) => state === 'pending').length,
    // Their bodies were purged.
    purged: replayable.length - kept.length,
    // Deliveries of the workspace are out of date, so worksync reads the workspace again instead.
    own: found.filter((each) => each.state !== 'pending' && each.state !== 'quarantined' && !isReplayable(each)).length,
    // The filter matches more than one replay takes: repeat the request.
    more,
  };
  if (filter.preview) return result;
  const retried = quarantined.length > 0 ? await retryQuarantined(store, quarantined) : 0;
  const replayed = await replayDeliveries(store, kept);
  wakeReconcile();
  return { ...result, replayed: replayed + retried, quarantined: retried };
}

async function wantedForReplay(
  partition: OpenWorkspace,
  { ids, ...filter }: ReplayRequest,
): Promise<{ readonly found: readonly ListedDelivery[]; readonly more: boolean }> {
  const { query } = partition.store;
  if (ids) {
    const found = await deliveriesByIds(query, ids);
    const unknown = ids.find((id) => !found.some((each) => each.id === id));
    if (unknown !== undefined) throw await noSuchDelivery(partition, String(unknown));
    return { found, more: false };
  }
  const named = await namedBy(partition, filter);
  if (named) return { found: named, more: false };
  const stored = filterOf(partition, filter);
  if (stored.connection !== undefined && !(await hasDeliveries(query, stored.connection)))
    return { found: [], more: false };
  const found: ListedDelivery[] = [];
  let before: DeliveryPosition | undefined;
  do {
    const looked = await look(query, stored, { before, wanted: MOST_REPLAYED - found.length, most: LOOKED_AT_OF_ALL });
    found.push(...looked.found);
    before = looked.next;
  } while (before !== undefined && found.length < MOST_REPLAYED);
  return { found, more: before !== undefined };
}

async function withBodies(query: Scope, ids: readonly number[]): Promise<number[]> {
  const kept: number[] = [];
  for (let at = 0; at < ids.length; at += LOOKED_AT) {
    kept.push(...(await deliveriesWithBody(query, ids.slice(at, at + LOOKED_AT))));
    await yieldForRequests();
  }
  return kept;
}

export const deliveryOperations = {
  deliveries: operation({ body: pageSchema, run: listDeliveries }),
  replay: operation({
    body: replaySchema,
    run: replay,
    audit: {
      isPreview: ({ preview }) => preview,
      subject: ({ ids = [], about, connection, state, source }) =>
        [...ids, about, connection, state, source].filter(Boolean).join(', ') || null,
      count: ({ replayed }) => replayed,
    },
  }),
};

const selectionSchema = z.strictObject({ ids: z.array(numberSchema).min(1).max(10_000).optional() });

type Selection = z.infer<typeof selectionSchema>;

const subject = ({ ids }: Selection) => ids?.join(', ') ?? null;
const preview = ({ store }: OpenWorkspace, { ids }: Selection) => countQuarantined(store.query, ids);

export const quarantineOperations = {
  quarantine: operation({
    body: z.strictObject({ limit: countSchema }),
    run: ({ store }, { limit }) => quarantinedDeliveries(store.query, limit),
  }),
  retry: operation({
    body: selectionSchema,
    async run({ store, wakeReconcile }, { ids }) {
      const retried = await retryQuarantined(store, ids ?? 'all');
      wakeReconcile();
      return { retried };
    },
    audit: { subject, count: ({ retried }) => retried },
    preview,
  }),
  dismiss: operation({
    body: selectionSchema,
    run: async ({ store }, { ids }, clock) => ({
      dismissed: await dismissQuarantined(store, ids ?? 'all', clock.now()),
    }),
    audit: { subject, count: ({ dismissed }) => dismissed },
    preview,
  }),
};

/** The content of a stored delivery, read again from its body with the present connectors and options. */
export type ReadDelivery =
  | { readonly outcome: 'items'; readonly items: readonly Item[]; readonly references: readonly string[] }
  | { readonly outcome: 'answer'; readonly answer: Answer }
  | { readonly outcome: 'ignored'; readonly reason: string }
  | { readonly outcome: 'failed'; readonly code: string; readonly message: string };

type Stored = Pick<ListedDelivery, 'id' | 'connection' | 'source' | 'event' | 'receivedAt' | 'state' | 'attempts'>;

/** Changes nothing. Never rejects. */
export async function readDelivery(
  sources: ReconcileConnections,
  delivery: Stored,
  stored: StoredBody,
): Promise<ReadDelivery> {
  try {
    if (delivery.source === 'answer') return { outcome: 'answer', answer: readAnswer(unpackBody(stored)) };
    if (delivery.source === 'workspace') return readEvent(delivery, stored);
    const connection = sources.get(delivery.connection);
    if (connection) return contentOf(await translate(connection.inspection ?? connection, delivery, stored));
    return failed('connection_unknown', `no connection "${delivery.connection}" is configured any more`);
  } catch (error) {
    const { code, message } = asSyncError(error);
    return failed(code, message);
  }
}

function failed(code: string, message: string): ReadDelivery {
  return { outcome: 'failed', code, message };
}

function readEvent(delivery: Stored, stored: StoredBody): ReadDelivery {
  const event = translateEvent({ ...delivery, body: unpackBody(stored) });
  return event.outcome === 'answer' ? event : contentOf(event);
}

/** A large body, or one that failed before, is read in another thread within a budget. */
async function translate(
  { translate: atOnce, worker }: Pick<ReconcileConnection, 'translate' | 'worker'>,
  delivery: Stored,
  stored: StoredBody,
): Promise<Translation> {
  const bytes = stored.unpacked_length ?? stored.body.length;
  const isSuspect = delivery.attempts > 0 || delivery.state === 'quarantined';
  if (worker && (bytes > LARGE || isSuspect)) return worker.translate({ ...delivery, stored });
  return atOnce({ ...delivery, body: unpackBody(stored) });
}

function contentOf(translation: Translation): ReadDelivery {
  if (translation.outcome === 'ignored') return translation;
  const references = (translation.references ?? []).map(({ key }) => key);
  const items = translation.outcome === 'items' ? translation.items : (translation.partialItems ?? []);
  return { outcome: 'items', items, references };
}

/** Returns the keys of the items that it contains or refers to, each once. */
export function keysIn(read: ReadDelivery): readonly string[] {
  if (read.outcome !== 'items') return [];
  return [...new Set([...read.items.map(({ key }) => key), ...read.references])];
}
