import type { ItemKey } from '../../model/item.ts';
import { writeMeta } from '../meta.ts';
import type { CachedRow } from '../unit-of-work/cached-tables.ts';
import { removeRows, rowsWhere, saveRows } from '../unit-of-work/unit-of-work.ts';
import type { Scope } from '../workspace-scope.ts';
import { findItems } from './items.ts';

type NameRow = CachedRow<'item_names'>;

/** A name of an item, and the place whose name is a part of it, if there is one: `acme/api` in `acme/api#12`. */
export type PlacedName = Pick<NameRow, 'name' | 'place' | 'container'>;

/** Former names that are stored for one item. The oldest ones are deleted first. */
const MAX_FORMER_NAMES = 16;

/** The names of an item after it was saved. */
export interface SavedNames {
  /** Current and former names. */
  readonly all: readonly string[];
  /** Whether any name has changed. */
  readonly isRenamed: boolean;
  /** Whether a name was taken from another item. */
  readonly isTaken: boolean;
}

interface NamesToSave {
  readonly names: readonly PlacedName[];
  /** Former names that the vendor reports. */
  readonly former: readonly string[];
  readonly now: number;
}

/**
 * Saves the names of an item. Lost names stay as former names until another item takes them, because vendors redirect them
 * and old texts still contain them.
 */
export async function saveItemNames(
  query: Scope,
  itemKey: ItemKey,
  { names, former, now }: NamesToSave,
): Promise<SavedNames> {
  const stored = new Map((await rowsWhere(query, 'item_names', 'item_key', [itemKey])).map((row) => [row.name, row]));
  const current = new Map(names.map((each) => [each.name, { item_key: itemKey, ...each, former_at: null }]));
  const added = [...current.keys()].filter((name) => stored.get(name)?.former_at !== null);
  const reported = former.filter((name) => !current.has(name) && !stored.has(name));
  const others = (await rowsWhere(query, 'item_names', 'name', [...added, ...reported])).filter(
    (row) => row.item_key !== itemKey,
  );
  const taken = others.filter((row) => current.has(row.name) && isTakenFrom(row, current.get(row.name) as NameRow));
  const free = reported.filter((name) => !others.some((row) => row.name === name && row.former_at === null));
  const lost = [...stored.values()].filter(({ name, former_at }) => former_at === null && !current.has(name));
  const formers = [
    ...[...stored.values()].filter(({ name, former_at }) => former_at !== null && !current.has(name)),
    ...free.map((name) => ({ item_key: itemKey, name, place: null, container: null, former_at: now })),
    ...lost.map((row) => ({ ...row, former_at: now })),
  ].toSorted(newestFirst);
  const kept = formers.slice(0, MAX_FORMER_NAMES);
  const dropped = formers.slice(MAX_FORMER_NAMES).filter(({ name }) => stored.has(name));
  const changed = [...current.values(), ...kept].filter((row) => differs(row, stored.get(row.name)));
  if (dropped.length + taken.length > 0) await removeRows(query, 'item_names', [...dropped, ...taken]);
  if (changed.length > 0) await saveRows(query, 'item_names', changed);
  return {
    all: [...current.keys(), ...kept.map(({ name }) => name)],
    isRenamed: added.length + lost.length + free.length > 0,
    isTaken: taken.length > 0,
  };
}

/** Makes the names of an item, and its former names, former names of the item to which it was moved. */
export async function passItemNames(
  query: Scope,
  from: ItemKey,
  { to, names, former, now }: NamesToSave & { readonly to: ItemKey },
): Promise<SavedNames> {
  const rows = await rowsWhere(query, 'item_names', 'item_key', [from, to]);
  const own = rows.filter(({ item_key }) => item_key === from);
  await removeRows(query, 'item_names', own);
  const passed = new Set([...own, ...names].map(({ name }) => name));
  const current = rows.filter(({ item_key, former_at }) => item_key === to && former_at === null);
  return saveItemNames(query, to, {
    names: current.map(({ name, place, container }) => ({ name, place, container })),
    former: [...passed, ...former],
    now,
  });
}

function newestFirst(left: NameRow, right: NameRow): number {
  return (right.former_at as number) - (left.former_at as number);
}

/** Returns whether another item loses this name: a former name, or a name in a place that another container has taken. */
function isTakenFrom(other: NameRow, own: NameRow): boolean {
  const isOfOldPlace = other.place !== null && other.place === own.place && other.container !== own.container;
  return other.former_at !== null || isOfOldPlace;
}

function differs(row: NameRow, stored: NameRow | undefined): boolean {
  if (stored === undefined) return true;
  return row.place !== stored.place || row.container !== stored.container || row.former_at !== stored.former_at;
}

/** The container that has the name of a place, and the time at which the provider reported it, by the provider's clock. */
interface PlaceOwner {
  readonly container: string;
  readonly at: number;
}

/** A stored name, older than the term owner. */
const OWNER_PREFIX = 'holder:';

async function placeOwners(query: Scope, places: readonly string[]): Promise<Map<string, PlaceOwner>> {
  const names = [...new Set(places)].map((place) => OWNER_PREFIX + place);
  const rows = await rowsWhere(query, 'meta', 'name', names);
  return new Map(rows.map(({ name, value }) => [name.slice(OWNER_PREFIX.length), JSON.parse(value) as PlaceOwner]));
}

/**
 * Stores that a container has the name of this place. If another container had it, the items of that container lose their names
 * in this place: after a repository was renamed, another one may have been created under its old name.
 *
 * @returns the names that belong to other items now
 */
export async function assignPlace(query: Scope, place: string, next: PlaceOwner): Promise<readonly string[]> {
  const { container, at } = next;
  const owner = (await placeOwners(query, [place])).get(place);
  if (owner?.container === container || (owner && owner.at >= at)) return [];
  await writeMeta(query, OWNER_PREFIX + place, JSON.stringify({ container, at }));
  if (!owner) return [];
  const rows = (await rowsWhere(query, 'item_names', 'place', [place])).filter((row) => row.container !== container);
  const former = rows.filter(({ former_at }) => former_at !== null);
  await removeRows(query, 'item_names', former);
  return [...new Set(rows.map(({ name }) => name))];
}

export type NamedItem = Awaited<ReturnType<typeof itemsNamed>>[number];

/**
 * Returns the items with one of these names, each with the connection that reported it last. If no item has a name now, returns the
 * last one that had it.
 */
export async function itemsNamed(query: Scope, names: readonly string[]) {
  const rows = await rowsWhere(query, 'item_names', 'name', names);
  const places = rows.flatMap(({ place }) => place ?? []);
  const owners = await placeOwners(query, places);
  const valid = rows.filter(({ place, container }) => {
    const owner = owners.get(place ?? '');
    return owner === undefined || owner.container === container;
  });
  const keys = valid.map((row) => row.item_key);
  const connections = new Map((await findItems(query, keys)).map(({ key, connection }) => [key, connection]));
  const known = valid.filter((row) => connections.has(row.item_key));
  const found = [...Map.groupBy(known, ({ name }) => name).values()].flatMap(currentOrLast).map((row) => ({
    name: row.name,
    itemKey: row.item_key,
    isFormer: row.former_at !== null,
    connection: connections.get(row.item_key) as string,
  }));
  return found.sort((left, right) => (left.itemKey < right.itemKey ? -1 : Number(left.itemKey > right.itemKey)));
}

function currentOrLast(rows: readonly NameRow[]): readonly NameRow[] {
  const current = rows.filter(({ former_at }) => former_at === null);
  return current.length > 0 ? current : rows.toSorted(newestFirst).slice(0, 1);
}

/** A name in the text of an item, and the reason why it counts. The caller defines the reason, without the delivery. */
export interface StoredMention<Reason extends object> {
  readonly name: string;
  readonly reason: Reason;
}

/** A reason, and the id of the delivery that brought the mention, if it is known. */
type ReasonWithDelivery<Reason> = Reason & { readonly delivery?: number };

/**
 * Replaces the mentions of an item; unchanged ones are not written. A mention keeps the delivery that brought it until its reason
 * changes.
 *
 * @returns the reasons by name, and the names that the text of the item did not contain before
 */
export async function saveMentions<Reason extends object>(
  query: Scope,
  itemKey: ItemKey,
  mentions: readonly StoredMention<Reason>[],
  delivery: number | undefined,
) {
  const rows = await rowsWhere(query, 'mentions', 'item_key', [itemKey]);
  const before = new Map(rows.map(({ name, reason }) => [name, reason]));
  const reasons = new Map(
    mentions.map(({ name, reason }) => [name, keepDelivery(reason, before.get(name), delivery)] as const),
  );
  const after = new Map([...reasons].map(([name, reason]) => [name, JSON.stringify(reason)]));
  const stale = rows.filter(({ name }) => !after.has(name));
  const fresh = [...after].filter(([name, reason]) => before.get(name) !== reason);
  if (stale.length > 0) await removeRows(query, 'mentions', stale);
  const added = fresh.map(([name, reason]) => ({ item_key: itemKey, name, reason }));
  if (added.length > 0) await saveRows(query, 'mentions', added);
  return { reasons, added: new Set([...after.keys()].filter((name) => !before.has(name))) };
}

/** Returns the items whose stored mentions differ from these. */
export async function itemsMentioningOther<Reason extends object>(
  query: Scope,
  mentions: ReadonlyMap<ItemKey, readonly StoredMention<Reason>[]>,
): Promise<ItemKey[]> {
  const all = await rowsWhere(query, 'mentions', 'item_key', [...mentions.keys()]);
  const stored = Map.groupBy(all, (row) => row.item_key);
  return [...mentions].flatMap(([key, wanted]) => {
    const rows = new Map((stored.get(key) ?? []).map(({ name, reason }) => [name, reason.replace(DELIVERY, '}')]));
    const isSame =
      rows.size === wanted.length && wanted.every(({ name, reason }) => rows.get(name) === JSON.stringify(reason));
    return isSame ? [] : [key];
  });
}

/** The delivery, which is always the last part of a stored reason. */
const DELIVERY = /,"delivery":\d+\}$/;

/** Returns the reasons of the stored mentions of an item, by name. */
export async function readMentions(query: Scope, itemKey: ItemKey): Promise<Map<string, ReasonWithDelivery<object>>> {
  const rows = await rowsWhere(query, 'mentions', 'item_key', [itemKey]);
  return new Map(rows.map(({ name, reason }) => [name, JSON.parse(reason) as ReasonWithDelivery<object>]));
}

function keepDelivery<Reason extends object>(
  reason: Reason,
  before: string | undefined,
  delivery: number | undefined,
): ReasonWithDelivery<Reason> {
  const known = before === undefined ? undefined : (JSON.parse(before) as ReasonWithDelivery<Reason>);
  const isKept = known !== undefined && JSON.stringify({ ...known, delivery: undefined }) === JSON.stringify(reason);
  if (isKept) return known;
  return delivery === undefined ? reason : { ...reason, delivery };
}

/** Returns the items whose texts contain one of these names. */
export async function itemsNaming(query: Scope, names: readonly string[]): Promise<ItemKey[]> {
  const rows = await rowsWhere(query, 'mentions', 'name', names);
  return [...new Set(rows.map((row) => row.item_key))];
}
