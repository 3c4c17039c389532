import { z } from 'zod';
import type { ChangeState, Lane, RequestOutcome } from '../../model/change.ts';
import type { DeliveryOrigin } from '../../model/delivery.ts';
import { withoutSecrets } from '../../model/errors.ts';
import type { ItemKey } from '../../model/item.ts';
import { beginningOf } from '../../model/text-limits.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { entitiesOf, findEntity } from '../../store/changes/entities.ts';
import { findChanges, type OutboxRow, readWaiting } from '../../store/changes/outbox-rows.ts';
import { type RequestRow, requestsOfItems } from '../../store/changes/requests.ts';
import { deliveriesByIds, type ListedDelivery, storedBodies } from '../../store/deliveries/find-deliveries.ts';
import { type StoredBody, unpackBody } from '../../store/deliveries/inbox.ts';
import { findItems, type ItemRow, MOST_DELIVERIES, readDeliveries } from '../../store/items/items.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { type NamedEntity, type NamedItem, nameEntities, nameItems, nameOfItem } from '../items/human-names.ts';
import { type OpenWorkspace, operation, textSchema } from '../open-workspace.ts';
import { deliveriesCalled, keysIn, noSuchDelivery, type ReadDelivery, readDelivery } from './deliveries.ts';

/**
 * The steps of one request, or of a change that waits for one: the delivery, the decision, the wait for its due time, the wait
 * for a slot, and the answer. Pages draw it as a waterfall.
 */
export interface Timeline {
  /** `record of acme/app#1`, `link of acme/app#1 to BUG-12` */
  readonly about: NamedEntity;
  /** Number of the request in the history; null if it is not sent yet, or in flight. */
  readonly request: number | null;
  readonly action: string | null;
  readonly lane: Lane;
  /** `answered` … as in the history; else the state of the change: pending, sending, unknown, held. */
  readonly state: RequestOutcome | ChangeState;
  readonly status: number | null;
  readonly error: string | null;
  readonly attempt: number;
  readonly times: TimelineTimes;
  /** The parts of these times, one after the other. */
  readonly phases: readonly Phase[];
  /** The deliveries that caused it, the oldest first; none if only a backfill or a sweep did. */
  readonly deliveries: readonly ListedDelivery[];
  /** Number of those deliveries: more than are listed if some were purged. */
  readonly served: number;
}

/** Epoch milliseconds, in this order. Null: not reached, or not known. */
interface TimelineTimes {
  /** The first of its deliveries was stored. */
  readonly received: number | null;
  /** Reconcile had processed that delivery. */
  readonly decided: number | null;
  readonly due: number | null;
  /** It requested a slot of the quota, and got it. */
  readonly asked: number | null;
  readonly slot: number | null;
  readonly sent: number | null;
  readonly answered: number | null;
}

export interface Phase {
  /** decision: the wait for reconcile; due: the debounce; slot: the wait for its earliest time or the quota; request: the wait for the answer. */
  readonly name: 'decision' | 'due' | 'slot' | 'request';
  readonly from: number;
  /** Null: not ended yet. */
  readonly to: number | null;
}

/** Deliveries shown for one request, and requests of one query. */
const MOST_SHOWN = 20;
const MOST_TIMELINES = 100;
const MOST_SEARCHED = 500;

/** The part of one delivery: the requests that were sent because of it, or the request that it answers. */
interface Part {
  readonly delivery: number;
  readonly answer?: string;
}

/** Returns the pending changes of these items, then their latest requests. */
export async function timelinesOf(
  query: Scope,
  items: readonly ItemKey[],
  now: number,
  part?: Part,
): Promise<Timeline[]> {
  const isWanted = (ids: readonly number[]) => part === undefined || ids.includes(part.delivery);
  const requests = (await requestsOfItems(query, items, part === undefined ? MOST_TIMELINES : MOST_SEARCHED))
    .map((row) => ({ row, ids: JSON.parse(row.deliveries) as number[] }))
    .filter(({ row, ids }) => isWanted(ids) || (part?.answer !== undefined && row.answer === part.answer))
    .slice(0, MOST_TIMELINES);
  const entities = (await entitiesOf(query, items)).slice(0, MOST_SEARCHED);
  const owners = new Map(entities.map((row) => [row.entity, row]));
  const changes = (await findChanges(query, [...owners.keys()]))
    .map((row) => ({ row, ids: readWaiting(row).map(({ id }) => id) }))
    .filter(({ ids }) => isWanted(ids))
    .slice(0, MOST_TIMELINES);
  const names = await nameEntities(query, [...entities, ...requests.map(({ row }) => row)]);
  const shown = [...changes, ...requests].flatMap(({ ids }) => ids.slice(0, MOST_SHOWN));
  const deliveries = new Map((await deliveriesByIds(query, [...new Set(shown)])).map((each) => [each.id, each]));
  const deliveriesOf = (ids: readonly number[]) => ids.slice(0, MOST_SHOWN).flatMap((id) => deliveries.get(id) ?? []);
  const about = (entity: string) => names.get(entity) as NamedEntity;
  return [
    ...changes.map(({ row, ids }) =>
      timelineOfChange(row, about(row.entity), deliveriesOf(ids), { served: ids.length, now }),
    ),
    ...requests.map(({ row, ids }) =>
      timelineOfRequest(row, about(row.entity), deliveriesOf(ids), { served: ids.length, now }),
    ),
  ];
}

function timelineOfRequest(
  row: RequestRow,
  about: NamedEntity,
  deliveries: readonly ListedDelivery[],
  { served, now }: { readonly served: number; readonly now: number },
): Timeline {
  const { id, action, lane, outcome, status, error, attempt } = row;
  const { due, asked_at: asked, slot_at: slot, sent_at: sent, completed_at: answered } = row;
  const times = { ...arrival(deliveries, row.since), due, asked, slot, sent, answered };
  const phases = phasesOf(times, now);
  return {
    about,
    request: id,
    action,
    lane,
    state: outcome,
    status,
    error,
    attempt,
    times,
    phases,
    deliveries,
    served,
  };
}

function timelineOfChange(
  row: OutboxRow,
  about: NamedEntity,
  deliveries: readonly ListedDelivery[],
  { served, now }: { readonly served: number; readonly now: number },
): Timeline {
  const { lane, state, error, attempts, since, sent_at: sent } = row;
  const due = sent === null ? Math.max(row.due, row.not_before) : row.due;
  const times = { ...arrival(deliveries, since), due, asked: null, slot: null, sent, answered: null };
  const none = { request: null, action: null, status: null };
  const phases = phasesOf(times, now);
  return { ...none, about, lane, state, error, attempt: attempts + 1, times, phases, deliveries, served };
}

/** Only the first due change requests a slot, so the others wait for a slot from their due time on. */
function phasesOf({ received, decided, due, asked, slot, sent, answered }: TimelineTimes, now: number): Phase[] {
  const phases: Phase[] = [];
  const start = decided ?? received;
  const got = slot ?? sent;
  if (received !== null && decided !== null) phases.push({ name: 'decision', from: received, to: decided });
  if (start !== null && due !== null) {
    const ready = Math.max(start, Math.min(due, asked ?? due, got ?? due));
    const isReady = got !== null || ready <= now;
    phases.push({ name: 'due', from: start, to: isReady ? ready : null });
    if (isReady) phases.push({ name: 'slot', from: ready, to: got });
  }
  if (sent !== null) phases.push({ name: 'request', from: sent, to: answered });
  return phases;
}

function arrival([first]: readonly ListedDelivery[], since: number | null) {
  return { received: first?.receivedAt ?? since, decided: first?.settledAt ?? null };
}

/** The steps of one delivery: received, verified, read, decided, sent, answered. Plain JSON; times are epoch milliseconds. */
export type DeliveryTimeline = Awaited<ReturnType<typeof showDelivery>>;

export type DeliveryContent =
  | {
      readonly outcome: 'items';
      /** The first hundred of the items in it and the items that it makes worksync fetch. */
      readonly items: readonly DecidedItem[];
      readonly count: number;
      /** The items as they were read, as JSON, cut. */
      readonly decoded: CutText;
    }
  | { readonly outcome: 'answer'; readonly action: string; readonly entity: string; readonly sentAt: number }
  | Extract<ReadDelivery, { readonly outcome: 'ignored' | 'failed' }>;

export interface DecidedItem extends NamedItem {
  /**
   * changed    it changed the stored item.
   * unchanged  it contained nothing new.
   * forgotten  too many deliveries followed for worksync to know.
   * pending    it is not processed yet.
   * unknown    worksync has no such item.
   */
  readonly decision: 'changed' | 'unchanged' | 'forgotten' | 'pending' | 'unknown';
  /** The delivery names the item without its content, so worksync fetched it from the vendor. */
  readonly isFetched: boolean;
}

interface CutText {
  readonly text: string;
  readonly isCut: boolean;
}

/** The received bytes, with the secrets of this process replaced. */
interface ShownBody extends CutText {
  readonly encoding: 'utf8' | 'base64';
}

/** Bytes of the largest body that is unpacked for people: the largest that a vendor sends. */
const LARGEST = 32 * 1024 * 1024;
/** Characters of a body, and number of items, that people see. */
const SHOWN = 64 * 1024;
const SHOWN_ITEMS = 100;
/** Longer than any secret: a secret across the cut is replaced first. */
const OVERLAP = 8 * 1024;

/** @param delivery our number, or the vendor's id. Throws `not_found`. */
async function showDelivery(partition: OpenWorkspace, { delivery: name }: { readonly delivery: string }, clock: Clock) {
  const { store, sources } = partition;
  const { query } = store;
  const [delivery] = (await deliveriesCalled(partition, name)) ?? [];
  if (!delivery) throw await noSuchDelivery(partition, name);
  const [row] = await storedBodies(query, [delivery.id], LARGEST);
  const stored = row?.body ? { body: row.body, unpacked_length: row.unpacked_length } : undefined;
  const read = stored && (await readDelivery(sources, delivery, stored));
  const keys = read ? keysIn(read).slice(0, SHOWN_ITEMS) : [];
  const about = [...keys, ...(await answeredItem(query, read))];
  const rows = await findItems(query, keys);
  return {
    delivery: {
      ...delivery,
      /** The name of the vendor's connector; null for deliveries of the workspace, and for a connection that no longer exists. */
      connector: sources.get(delivery.connection)?.connector.id ?? null,
      /** The length of the unpacked body; null if it was purged. */
      bytes: stored ? (stored.unpacked_length ?? stored.body.length) : null,
    },
    verified: VERIFIED[delivery.source],
    /** Its content, read again from its body with the present connectors and options; null if the body was purged. */
    read: read ? await describeContent(query, { delivery, read, rows }) : null,
    /** The changes that wait because of it, and the requests that were sent. */
    courses: await timelinesOf(query, about, clock.now(), partOf(delivery)),
    body: stored ? bodyOf(stored) : null,
  };
}

const VERIFIED: Readonly<Record<DeliveryOrigin, string>> = {
  webhook: 'its signature or token, with the webhook secret of the connection, before it was stored',
  poll: 'worksync asked for it, with the credential of the connection',
  backfill: 'worksync asked for it, with the credential of the connection',
  fetch: 'worksync asked for it, with the credential of the connection',
  answer: 'it is the answer to a request to the workspace',
  workspace: "its shared key or signature, with the values of the workspace's webhook, before it was stored",
};

/** Selects the requests that were sent for the delivery; for an answer, the request that it answers. */
function partOf({ id, key, source }: ListedDelivery): { readonly delivery: number; readonly answer?: string } {
  const [, answer] = source === 'answer' ? (/^answer:(.*)$/.exec(key) ?? []) : [];
  return answer === undefined ? { delivery: id } : { delivery: id, answer };
}

async function answeredItem(query: Scope, read: ReadDelivery | undefined): Promise<ItemKey[]> {
  if (read?.outcome !== 'answer') return [];
  const key = (await findEntity(query, read.answer.entity))?.item_key;
  return key ? [key] : [];
}

interface ReadFacts {
  readonly delivery: ListedDelivery;
  readonly read: ReadDelivery;
  /** The rows of the shown items. */
  readonly rows: readonly ItemRow[];
}

async function describeContent(query: Scope, { delivery, read, rows }: ReadFacts): Promise<DeliveryContent> {
  if (read.outcome === 'answer') {
    const { action, entity, sentAt } = read.answer;
    return { outcome: 'answer', action, entity, sentAt };
  }
  if (read.outcome !== 'items') return read;
  const keys = keysIn(read);
  const shown = keys.slice(0, SHOWN_ITEMS);
  const known = await nameItems(query, shown);
  const named = new Map(read.items.map((item) => [item.key, nameOfItem(item)]));
  const stored = new Map(rows.map((row) => [row.key, row]));
  const items = shown.map((key) => ({
    ...(known.get(key) ?? named.get(key) ?? unnamed(key)),
    decision: decisionOn(delivery, stored.get(key)),
    isFetched: read.references.includes(key),
  }));
  return { outcome: 'items', items, count: keys.length, decoded: decodedOf(read.items) };
}

function unnamed(key: ItemKey): NamedItem {
  return {
    key,
    kind: key.includes(':pull:') ? 'pull_request' : 'work_item',
    name: key,
    title: null,
    url: null,
    label: key,
  };
}

function decisionOn({ id, state }: ListedDelivery, row: ItemRow | undefined): DecidedItem['decision'] {
  if (state === 'pending') return 'pending';
  if (!row) return 'unknown';
  const changes = readDeliveries(row);
  if (changes.includes(id)) return 'changed';
  const [oldest] = changes;
  return oldest === undefined || (changes.length === MOST_DELIVERIES && oldest > id) ? 'forgotten' : 'unchanged';
}

function decodedOf(items: readonly unknown[]): CutText {
  const parts: string[] = [];
  let length = 0;
  for (const item of items) {
    if (length > SHOWN) return { text: cleanStart(parts.join('\n'), true), isCut: true };
    const part = JSON.stringify(item, null, 2);
    parts.push(part);
    length += part.length;
  }
  const text = parts.join('\n');
  return { text: cleanStart(text, text.length > SHOWN), isCut: text.length > SHOWN };
}

function bodyOf(stored: StoredBody): ShownBody | null {
  try {
    const bytes = unpackBody(stored);
    const isCut = bytes.length > SHOWN;
    const start = bytes.subarray(0, SHOWN + OVERLAP);
    const text = textOf(start);
    if (text !== undefined) return { encoding: 'utf8', text: cleanStart(text, isCut), isCut };
    // A body that is not text is shown as base64, unless it contains a secret.
    const letters = start.toString('latin1');
    const isClean = withoutSecrets(letters) === letters;
    return { encoding: 'base64', text: isClean ? start.subarray(0, SHOWN).toString('base64') : '', isCut };
  } catch {
    // The body is damaged; the field `read` contains the reason.
    return null;
  }
}

/** Returns undefined if the bytes are not UTF-8. Leaves out a character that the cut halves. */
function textOf(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return undefined;
  }
}

function cleanStart(text: string, isCut: boolean): string {
  const clean = withoutSecrets(text.slice(0, SHOWN + OVERLAP));
  // A secret across the cut is not recognized, because its end may be missing, so the text ends well before the cut.
  return isCut ? beginningOf(clean, Math.max(0, Math.min(SHOWN, clean.length - OVERLAP))) : clean;
}

export const timelineOperations = {
  delivery: operation({ body: z.strictObject({ delivery: textSchema }), run: showDelivery }),
};
