import type { DeliveryOrigin } from '../model/delivery.ts';
import { withoutSecrets } from '../model/errors/sync-error.ts';
import type { ItemKey } from '../model/item.ts';
import { beginningOf } from '../model/text-limits.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { type StoredBody, unpackBody } from '../store/bodies.ts';
import { findEntity } from '../store/entities.ts';
import { type ListedDelivery, storedBodies } from '../store/find-deliveries.ts';
import { findItems, type ItemRow, MOST_DELIVERIES, readDeliveries } from '../store/items.ts';
import type { Scope } from '../store/workspace-scope.ts';
import { deliveriesCalled, noSuchDelivery } from './deliveries.ts';
import { type NamedItem, nameItems, nameOfItem } from './human-names.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import { keysIn, type ReadDelivery, readDelivery } from './read-delivery.ts';
import { type Timeline, timelinesOf } from './timelines.ts';

/** What happened to one delivery: received, verified, read, decided, sent, answered. Plain JSON; times are epoch milliseconds. */
export interface DeliveryTimeline {
  readonly delivery: ListedDelivery & {
    /** The vendor, as its connector is called; null for what the workspace said, and for a connection that is gone. */
    readonly connector: string | null;
    /** Of the body, unpacked; null where it was purged. */
    readonly bytes: number | null;
  };
  /** What proved that it is genuine. */
  readonly verified: string;
  /** What it says, read again from its body by the connectors and options of now; null where the body was purged. */
  readonly read: Told | null;
  /** What waits because of it, and what was sent. */
  readonly courses: readonly Timeline[];
  readonly body: ToldBody | null;
}

export type Told =
  | {
      readonly outcome: 'items';
      /** The first hundred of those that it tells of, or that it makes worksync fetch. */
      readonly items: readonly DecidedItem[];
      readonly count: number;
      /** The items as they were read, as JSON, cut. */
      readonly decoded: CutText;
    }
  | { readonly outcome: 'answer'; readonly action: string; readonly entity: string; readonly sentAt: number }
  | Extract<ReadDelivery, { readonly outcome: 'ignored' | 'failed' }>;

export interface DecidedItem extends NamedItem {
  /**
   * changed    it changed what worksync holds of the item.
   * unchanged  it said nothing that was new.
   * forgotten  so many came after it that nobody knows.
   * pending    it was not judged yet.
   * unknown    worksync holds no such item.
   */
  readonly decision: 'changed' | 'unchanged' | 'forgotten' | 'pending' | 'unknown';
  /** The delivery names it without saying enough: worksync asked its vendor for it. */
  readonly isFetched: boolean;
}

interface CutText {
  readonly text: string;
  readonly isCut: boolean;
}

/** The bytes as received, with secrets of this process replaced. */
interface ToldBody extends CutText {
  readonly encoding: 'utf8' | 'base64';
}

/** Bodies above this are not unpacked for people, bytes: the largest that a vendor sends. */
const LARGEST = 32 * 1024 * 1024;
/** Characters that people see of a body, and items. */
const SHOWN = 64 * 1024;
const SHOWN_ITEMS = 100;
/** Longer than any secret: a secret that the cut would halve is replaced before. */
const OVERLAP = 8 * 1024;

/** @param delivery our number, or the vendor's id. Throws `not_found`. */
export async function showDelivery(
  partition: OpenWorkspace,
  { delivery: name }: { readonly delivery: string },
  clock: Clock,
): Promise<DeliveryTimeline> {
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
      connector: sources.get(delivery.connection)?.connector.id ?? null,
      bytes: stored ? (stored.unpacked_length ?? stored.body.length) : null,
    },
    verified: VERIFIED[delivery.source],
    read: read ? await tell(query, { delivery, read, rows }) : null,
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

/** What was sent for it; of an answer, the request that it answers. */
function partOf({ id, key, source }: ListedDelivery): { readonly delivery: number; readonly answer?: string } {
  const [, answer] = source === 'answer' ? (/^answer:(.*)$/.exec(key) ?? []) : [];
  return answer === undefined ? { delivery: id } : { delivery: id, answer };
}

async function answeredItem(query: Scope, read: ReadDelivery | undefined): Promise<ItemKey[]> {
  if (read?.outcome !== 'answer') return [];
  const key = (await findEntity(query, read.answer.entity))?.item_key;
  return key ? [key] : [];
}

interface Telling {
  readonly delivery: ListedDelivery;
  readonly read: ReadDelivery;
  /** Of the items that are shown. */
  readonly rows: readonly ItemRow[];
}

async function tell(query: Scope, { delivery, read, rows }: Telling): Promise<Told> {
  if (read.outcome === 'answer') {
    const { action, entity, sentAt } = read.answer;
    return { outcome: 'answer', action, entity, sentAt };
  }
  if (read.outcome !== 'items') return read;
  const keys = keysIn(read);
  const shown = keys.slice(0, SHOWN_ITEMS);
  const known = await nameItems(query, shown);
  const said = new Map(read.items.map((item) => [item.key, nameOfItem(item)]));
  const held = new Map(rows.map((row) => [row.key, row]));
  const items = shown.map((key) => ({
    ...(known.get(key) ?? said.get(key) ?? unnamed(key)),
    decision: decisionOn(delivery, held.get(key)),
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

function bodyOf(stored: StoredBody): ToldBody | null {
  try {
    const bytes = unpackBody(stored);
    const isCut = bytes.length > SHOWN;
    const start = bytes.subarray(0, SHOWN + OVERLAP);
    const text = textOf(start);
    if (text !== undefined) return { encoding: 'utf8', text: cleanStart(text, isCut), isCut };
    // What is no text is shown as it is, unless a secret stands in it.
    const letters = start.toString('latin1');
    const isClean = withoutSecrets(letters) === letters;
    return { encoding: 'base64', text: isClean ? start.subarray(0, SHOWN).toString('base64') : '', isCut };
  } catch {
    // A damaged body: why it could not be read stands where it was read.
    return null;
  }
}

/** Undefined where it is no UTF-8. A character that the cut halves is left out. */
function textOf(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return undefined;
  }
}

function cleanStart(text: string, isCut: boolean): string {
  const clean = withoutSecrets(text.slice(0, SHOWN + OVERLAP));
  // Of what is behind the cut, the end of a secret may be missing: its beginning is not shown either.
  return isCut ? beginningOf(clean, Math.max(0, Math.min(SHOWN, clean.length - OVERLAP))) : clean;
}
