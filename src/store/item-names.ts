import type { ItemKey } from '../model/item.ts';
import { findItems } from './items.ts';
import type { CachedRow } from './unit-of-work/cached-tables.ts';
import { removeRows, rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

type NameRow = CachedRow<'item_names'>;

/** A name of an item, with the place whose name is a part of it, where there is one. */
export type PlacedName = Pick<NameRow, 'name' | 'place' | 'container'>;

/** Former names of one item; the oldest go. */
const MOST_FORMER = 16;

/** What has become of the names of an item. */
export interface SavedNames {
  /** Its names, and its former ones. */
  readonly all: readonly string[];
  /** Whether they are others than before. */
  readonly isRenamed: boolean;
  /** Whether a name was a former one of another item, which has lost it. */
  readonly isTaken: boolean;
}

interface ToSave {
  readonly names: readonly PlacedName[];
  /** Former names that the vendor tells. */
  readonly former: readonly string[];
  readonly now: number;
}

/**
 * Saves the names of a work item. Those that it has lost stay as former names until another item takes them, because vendors
 * redirect them and old texts go on using them.
 */
export async function saveItemNames(
  query: Scope,
  itemKey: ItemKey,
  { names, former, now }: ToSave,
): Promise<SavedNames> {
  const before = new Map((await rowsWhere(query, 'item_names', 'item_key', [itemKey])).map((row) => [row.name, row]));
  const current = new Map(names.map((each) => [each.name, { item_key: itemKey, ...each, former_at: null }]));
  const fresh = [...current.keys()].filter((name) => before.get(name)?.former_at !== null);
  const told = former.filter((name) => !current.has(name) && !before.has(name));
  const others = (await rowsWhere(query, 'item_names', 'name', [...fresh, ...told])).filter(
    (row) => row.item_key !== itemKey,
  );
  const taken = others.filter((row) => current.has(row.name) && isLost(row, current.get(row.name) as NameRow));
  const free = told.filter((name) => !others.some((row) => row.name === name && row.former_at === null));
  const lost = [...before.values()].filter(({ name, former_at }) => former_at === null && !current.has(name));
  const formers = [
    ...[...before.values()].filter(({ name, former_at }) => former_at !== null && !current.has(name)),
    ...free.map((name) => ({ item_key: itemKey, name, place: null, container: null, former_at: now })),
    ...lost.map((row) => ({ ...row, former_at: now })),
  ].toSorted((left, right) => (right.former_at as number) - (left.former_at as number));
  const kept = formers.slice(0, MOST_FORMER);
  const rows = [...current.values(), ...kept].filter((row) => isOther(row, before.get(row.name)));
  const dropped = formers.slice(MOST_FORMER).filter(({ name }) => before.has(name));
  if (dropped.length + taken.length > 0) await removeRows(query, 'item_names', [...dropped, ...taken]);
  if (rows.length > 0) await saveRows(query, 'item_names', rows);
  return {
    all: [...current.keys(), ...kept.map(({ name }) => name)],
    isRenamed: fresh.length + lost.length + free.length > 0,
    isTaken: taken.length > 0,
  };
}

/** Whether a name of another item is this one's now: a former name, or one in a place that another container has taken. */
function isLost(other: NameRow, own: NameRow): boolean {
  const isOfOldPlace = other.place !== null && other.place === own.place && other.container !== own.container;
  return other.former_at !== null || isOfOldPlace;
}

function isOther(row: NameRow, before: NameRow | undefined): boolean {
  if (before === undefined) return true;
  return row.place !== before.place || row.container !== before.container || row.former_at !== before.former_at;
}

/** Which container has the name of a place, and since when it is known to, by the provider's clock. */
interface Holder {
  readonly container: string;
  readonly at: number;
}

const HOLDER = 'holder:';

async function holdersOf(query: Scope, places: readonly string[]): Promise<Map<string, Holder>> {
  const names = [...new Set(places)].map((place) => HOLDER + place);
  const rows = await rowsWhere(query, 'meta', 'name', names);
  return new Map(rows.map(({ name, value }) => [name.slice(HOLDER.length), JSON.parse(value) as Holder]));
}

/**
 * Remembers that a container has this name. Where another one had it before, that one's items lose the names that the place is
 * a part of: somebody else may have made a repository under the old name of a renamed one.
 *
 * @param at when the provider said so, by its clock
 * @returns the names that lead elsewhere now
 */
export async function assignPlace(query: Scope, place: string, { container, at }: Holder): Promise<readonly string[]> {
  const holder = (await holdersOf(query, [place])).get(place);
  if (holder?.container === container || (holder && holder.at >= at)) return [];
  await saveRows(query, 'meta', [{ name: HOLDER + place, value: JSON.stringify({ container, at } satisfies Holder) }]);
  if (!holder) return [];
  const rows = (await rowsWhere(query, 'item_names', 'place', [place])).filter((row) => row.container !== container);
  await removeRows(
    query,
    'item_names',
    rows.filter(({ former_at }) => former_at !== null),
  );
  return [...new Set(rows.map(({ name }) => name))];
}

export interface NamedItem {
  readonly name: string;
  readonly itemKey: ItemKey;
  /** The connection that it last came through. */
  readonly connection: string;
  /** The item is called otherwise now. */
  readonly isFormer: boolean;
}

/** The work items that go by one of these names; of a former name the last that had it, where none has it now. */
export async function itemsNamed(query: Scope, names: readonly string[]): Promise<NamedItem[]> {
  const rows = await rowsWhere(query, 'item_names', 'name', names);
  const holders = await holdersOf(
    query,
    rows.flatMap(({ place }) => place ?? []),
  );
  const valid = rows.filter(({ place, container }) => {
    const holder = place === null ? undefined : holders.get(place);
    return holder === undefined || holder.container === container;
  });
  const keys = valid.map((row) => row.item_key);
  const connections = new Map((await findItems(query, keys)).map(({ key, connection }) => [key, connection]));
  const known = valid.filter((row) => connections.has(row.item_key));
  const found = [...Map.groupBy(known, ({ name }) => name).values()].flatMap(bearers).map((row) => ({
    ...{ name: row.name, itemKey: row.item_key, isFormer: row.former_at !== null },
    connection: connections.get(row.item_key) as string,
  }));
  return found.sort((left, right) => (left.itemKey < right.itemKey ? -1 : Number(left.itemKey > right.itemKey)));
}

function bearers(rows: readonly NameRow[]): readonly NameRow[] {
  const present = rows.filter(({ former_at }) => former_at === null);
  if (present.length > 0) return present;
  return rows.toSorted((left, right) => (right.former_at as number) - (left.former_at as number)).slice(0, 1);
}

/** What a text names, and why; `reason` is the caller's own, without the delivery. */
export interface StoredMention<Reason extends object> {
  readonly name: string;
  readonly reason: Reason;
}

/** With the delivery that brought it, where that is known. */
type Brought<Reason> = Reason & { readonly delivery?: number };

export interface SavedMentions<Reason extends object> {
  /** By name. */
  readonly reasons: ReadonlyMap<string, Brought<Reason>>;
  /** Names that the item's text did not hold before. */
  readonly added: ReadonlySet<string>;
}

/**
 * Replaces what an item's text names; unchanged means no write. A mention keeps the delivery that brought it for as
 * long as it stays as it is.
 */
export async function saveMentions<Reason extends object>(
  query: Scope,
  itemKey: ItemKey,
  mentions: readonly StoredMention<Reason>[],
  delivery: number | undefined,
): Promise<SavedMentions<Reason>> {
  const rows = await rowsWhere(query, 'mentions', 'item_key', [itemKey]);
  const before = new Map(rows.map(({ name, reason }) => [name, reason]));
  const reasons = new Map<string, Brought<Reason>>();
  for (const { name, reason } of mentions) reasons.set(name, keepDelivery(reason, before.get(name), delivery));
  const after = new Map([...reasons].map(([name, reason]) => [name, JSON.stringify(reason)]));
  const stale = rows.filter(({ name }) => !after.has(name));
  const fresh = [...after].filter(([name, reason]) => before.get(name) !== reason);
  if (stale.length > 0) await removeRows(query, 'mentions', stale);
  const added = fresh.map(([name, reason]) => ({ item_key: itemKey, name, reason }));
  if (added.length > 0) await saveRows(query, 'mentions', added);
  return { reasons, added: new Set([...after.keys()].filter((name) => !before.has(name))) };
}

/** The items whose stored mentions are not these. */
export async function itemsMentioningOther<Reason extends object>(
  query: Scope,
  mentions: ReadonlyMap<ItemKey, readonly StoredMention<Reason>[]>,
): Promise<ItemKey[]> {
  const stored = Map.groupBy(
    await rowsWhere(query, 'mentions', 'item_key', [...mentions.keys()]),
    (row) => row.item_key,
  );
  return [...mentions].flatMap(([key, wanted]) => {
    const rows = new Map((stored.get(key) ?? []).map(({ name, reason }) => [name, reason.replace(DELIVERY, '}')]));
    const isSame =
      rows.size === wanted.length && wanted.every(({ name, reason }) => rows.get(name) === JSON.stringify(reason));
    return isSame ? [] : [key];
  });
}

/** Always the last part of a stored reason. */
const DELIVERY = /,"delivery":\d+\}$/;

/** What was kept of an item's mentions, by name. */
export async function readMentions(query: Scope, itemKey: ItemKey): Promise<Map<string, Brought<object>>> {
  const rows = await rowsWhere(query, 'mentions', 'item_key', [itemKey]);
  return new Map(rows.map(({ name, reason }) => [name, JSON.parse(reason) as Brought<object>]));
}

function keepDelivery<Reason extends object>(
  reason: Reason,
  before: string | undefined,
  delivery: number | undefined,
): Brought<Reason> {
  const known = before === undefined ? undefined : (JSON.parse(before) as Brought<Reason>);
  const isKept = known !== undefined && JSON.stringify({ ...known, delivery: undefined }) === JSON.stringify(reason);
  if (isKept) return known;
  return delivery === undefined ? reason : { ...reason, delivery };
}

/** The items that name one of these. */
export async function itemsNaming(query: Scope, names: readonly string[]): Promise<ItemKey[]> {
  const rows = await rowsWhere(query, 'mentions', 'name', names);
  return [...new Set(rows.map((row) => row.item_key))];
}
