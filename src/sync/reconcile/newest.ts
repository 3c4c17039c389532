// Design: src/decisions/items.md

import { isDeepStrictEqual } from 'node:util';
import type { DeliverySource } from '../../model/delivery.ts';
import { type Item, isFinished } from '../../model/item.ts';

/**
 * Newest wins, field by field.
 *
 * A delivery carries some fields of an item at one time of the provider's clock. Each stored field has the time it is from, so
 * that an older delivery may still fill a field that newer ones do not carry, and never more than that. Two contents of one time
 * cannot be ordered: the object is fetched, and what was fetched wins its tie. Until then the stored content stays, because an
 * old event may be delivered again. What follows a creation, or finishes an item, is later for certain.
 *
 * Whether the thing exists goes by no time, since removing and restoring need not move any: a fetch is the authority. What else
 * says that it is gone is a guess, unless it is older than the stored state; a report that a gone thing exists is only a reason
 * to fetch it.
 */
export interface Held {
  readonly item: Item;
  /** Times of those fields that are older than the item's, because newer deliveries did not carry them. */
  readonly older: Readonly<Record<string, Stamp>>;
}

/** What orders two states of an item. Where one of them has no version, their times alone decide. */
type Stamp = Pick<Item, 'updatedAt' | 'version'>;

/** `doubtful`: only the object itself can tell, so it is to be fetched; the stored state until then is a guess. */
export type Judgement =
  /** No stored field changes. */
  | { readonly outcome: 'unchanged'; readonly doubtful: boolean }
  | { readonly outcome: 'superseded'; readonly doubtful: boolean }
  /** `held` is the new state. */
  | { readonly outcome: 'applied'; readonly held: Held; readonly doubtful: boolean };

/** A provider's clock may run ahead of ours by this much before we stop believing it. */
const BELIEVED_AHEAD = 5 * 60_000;

/** Fields that name the item, order its states, or go by no time: not content. */
const NOT_CONTENT: ReadonlySet<string> = new Set([
  ...['key', 'kind', 'connector', 'host'],
  ...['updatedAt', 'toldAt', 'version', 'isCreation', 'gone'],
]);

const NEVER: Stamp = { updatedAt: Number.NEGATIVE_INFINITY };

type Fields = Readonly<Record<string, unknown>>;

/**
 * A time from the future would block all later states until then: it is read as the time of receipt. Our own clock may have been
 * set back: so what the provider dates behind the stored state never becomes older than that. It ties with it, and is fetched.
 *
 * While our clock is behind, receipts say nothing of the order, and what was stored by then is dated by them: what the provider
 * does not date behind the stored state ties with it too, also once our clock is right again.
 *
 * @param held the stored state
 */
export function clampTime<Any extends Item>(
  item: Any,
  receivedAt: number,
  held: Pick<Item, 'updatedAt' | 'toldAt'> = { updatedAt: receivedAt },
): Any {
  const toldAt = item.updatedAt;
  if (held.toldAt !== undefined && toldAt <= held.toldAt) return { ...item, updatedAt: held.updatedAt, toldAt };
  if (toldAt <= receivedAt + BELIEVED_AHEAD) return item;
  return { ...item, updatedAt: Math.max(receivedAt, Math.min(held.updatedAt, toldAt)), toldAt };
}

export function judge(held: Held | undefined, incoming: Item, source: DeliverySource): Judgement {
  const said = sayingOf(incoming);
  if (held === undefined) return { outcome: 'applied', held: { item: said, older: {} }, doubtful: false };
  if (said.gone) return judgeGone(held, said, source);
  const judgement = judgeContent(held, said, source);
  if (!held.item.gone) return judgement;
  if (source !== 'fetch') return { ...judgement, doubtful: true };
  const { item, older } = judgement.outcome === 'applied' ? judgement.held : held;
  return { outcome: 'applied', held: { item: { ...item, gone: false }, older }, doubtful: false };
}

/** worksync takes nothing else from it: its time is that of the removal, or of our read. */
function judgeGone(held: Held, said: Item, source: DeliverySource): Judgement {
  if (held.item.gone) return { outcome: 'unchanged', doubtful: false };
  const doubtful = source !== 'fetch';
  if (doubtful && compare(said, held.item) < 0) return { outcome: 'superseded', doubtful };
  return { outcome: 'applied', held: { ...held, item: { ...held.item, gone: true } }, doubtful };
}

function judgeContent(held: Held, said: Item, source: DeliverySource): Judgement {
  const order = compare(said, held.item);
  const fields = contentFields(said);
  const newer = fields.filter((field) => compare(said, timeOf(held, field)) > 0);
  const contested = fields.filter(
    (field) => compare(said, timeOf(held, field)) === 0 && !same(fieldOf(said, field), fieldOf(held.item, field)),
  );
  if (order <= 0 && newer.length + contested.length === 0)
    return { outcome: order < 0 ? 'superseded' : 'unchanged', doubtful: false };
  const doubtful = contested.length > 0 && source !== 'fetch';
  const taken = doubtful && !isLater(held.item, said, contested) ? newer : [...newer, ...contested];
  if (order <= 0 && taken.length === 0) return { outcome: 'unchanged', doubtful };
  return { outcome: 'applied', held: merge(held, said, taken), doubtful };
}

/**
 * Whether what is said of a time is later than what is stored of that time: as the provider's own times tell, where ours took
 * their place, else as the order of events tells.
 */
function isLater(held: Item, said: Item, contested: readonly string[]): boolean {
  const isClamped = said.toldAt !== undefined || held.toldAt !== undefined;
  const [saidAt, heldAt] = [said.toldAt ?? said.updatedAt, held.toldAt ?? held.updatedAt];
  if (isClamped && saidAt !== heldAt) return saidAt > heldAt;
  if (contested.includes('state')) {
    if (said.state === 'merged') return true;
    if (isFinished(said) !== isFinished(held)) return isFinished(said);
  }
  return held.isCreation === true && said.isCreation !== true;
}

function compare(left: Stamp, right: Stamp): number {
  if (left.updatedAt !== right.updatedAt) return left.updatedAt - right.updatedAt;
  if (left.version === undefined || right.version === undefined) return 0;
  return left.version - right.version;
}

/** Takes these fields over, each with its time; the item's time is the newest of all. */
function merge(held: Held, said: Item, fields: readonly string[]): Held {
  const order = compare(said, held.item);
  const newest = order > 0 ? said : held.item;
  const { version: _, toldAt: __, isCreation: ___, ...content } = held.item;
  const toldAt = said.toldAt ?? newest.toldAt;
  const isCreation = newest.isCreation === true && (order !== 0 || said.isCreation === true);
  const item: Record<string, unknown> = {
    ...{ ...content, ...stampOf(newest) },
    ...(toldAt !== undefined && { toldAt }),
    ...(isCreation && { isCreation }),
  };
  for (const field of fields) item[field] = fieldOf(said, field);
  const older: Record<string, Stamp> = {};
  for (const field of contentFields(item as unknown as Item)) {
    const time = fields.includes(field) ? said : timeOf(held, field);
    if (compare(time, newest) < 0) older[field] = stampOf(time);
  }
  return { item: item as unknown as Item, older };
}

function stampOf({ updatedAt, version }: Stamp): Stamp {
  return version === undefined ? { updatedAt } : { updatedAt, version };
}

/** Provider time of the stored value; before all times where none is. */
function timeOf(held: Held, field: string): Stamp {
  return carries(held.item, field) ? (held.older[field] ?? held.item) : NEVER;
}

function contentFields(item: Item): string[] {
  return Object.keys(item).filter((field) => !NOT_CONTENT.has(field) && carries(item, field));
}

function carries(item: Item, field: string): boolean {
  return fieldOf(item, field) !== undefined;
}

function fieldOf(item: Item, field: string): unknown {
  return (item as unknown as Fields)[field];
}

/** Fields are strings, booleans, null, lists of strings, or texts by name. */
export function same(left: unknown, right: unknown): boolean {
  return left === right || (typeof left === 'object' && isDeepStrictEqual(left, right));
}

/** Without absent fields, as it is stored. That a thing exists is said by every delivery that does not call it gone. */
function sayingOf(item: Item): Item {
  const present = Object.entries(item).filter(([, value]) => value !== undefined);
  return { ...(Object.fromEntries(present) as unknown as Item), gone: item.gone ?? false };
}
