import { type EntityKind, entityLabel, taskOfLinkRead } from '../../model/change.ts';
import { SyncError } from '../../model/errors.ts';
import { displayNameOf, type Item, type ItemKey } from '../../model/item.ts';
import { type Task, taskName } from '../../model/task.ts';
import { didYouMean } from '../../platform/lib/text.ts';
import { findEntities } from '../../store/changes/entities.ts';
import { itemsNamed } from '../../store/items/item-names.ts';
import {
  existingItems,
  itemLabels,
  itemsAtUrl,
  itemsByDisplayName,
  itemsNamingFirst,
  itemsOfTask,
  namesWithPrefix,
} from '../../store/items/items.ts';
import { tasksByIds, tasksByKeys } from '../../store/tasks/stored-tasks.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { Rules } from '../../sync/reconcile/context.ts';
import { nameOf } from '../../sync/reconcile/link-rules/lookup-names.ts';
import type { OpenWorkspace } from '../open-workspace.ts';

export interface FoundTask {
  readonly taskId: string;
  /** The id where tasks have no keys. */
  readonly key: string;
  readonly name: string;
}

/** By its key or its id. */
export async function findTask(query: Scope, target: string): Promise<FoundTask | undefined> {
  const key = target.toUpperCase();
  const byKey = (await tasksByKeys(query, [key])).get(key);
  const [task = byKey] = await tasksByIds(query, [target]);
  return task && foundTask(task);
}

export async function cachedTasks(query: Scope, of: readonly Pick<Task, 'taskId'>[]) {
  const ids = of.map(({ taskId }) => taskId);
  return new Map((await tasksByIds(query, ids)).map((task) => [task.taskId, task]));
}

/** Returns the task with this key or id. Throws `not_found` if there is none. */
export async function requireTask(query: Scope, target: string): Promise<FoundTask> {
  const task = await findTask(query, target);
  if (task) return task;
  throw new SyncError('not_found', `worksync knows no task ${target}`, {
    hint: 'Give its key, such as BUG-12, or its id. "worksync tasks list" lists the tasks of the workspace.',
  });
}

export function foundTask(task: Task): FoundTask {
  return { taskId: task.taskId, key: task.key, name: taskName(task) };
}

/** Items by key, address in any spelling, or what people call them. */
export async function findItems(query: Scope, target: string, { links }: Pick<Rules, 'links'>): Promise<ItemKey[]> {
  const exact = await existingItems(query, [target]);
  if (exact.length > 0) return exact;
  const addresses = links.namesOfAddress(target);
  const isAddress = addresses.length > 0;
  const named = await itemsNamed(query, isAddress ? addresses : [target.toUpperCase()]);
  if (named.length > 0) return [...new Set(named.map(({ itemKey }) => itemKey))];
  return isAddress ? itemsAtUrl(query, target) : itemsByDisplayName(query, target);
}

/** The largest number of items in an answer about one task, because a template may name a task in every item. */
export const MOST_ABOUT = 200;

/** The items that name more than worksync reads; the first `MOST_ABOUT` of them. */
export async function itemsWithLongLists(query: Scope): Promise<ItemKey[]> {
  return itemsNamingFirst(query, [nameOf.leftOut], MOST_ABOUT);
}

/** The items that a task is linked to, or that name it; the first `MOST_ABOUT` of them. */
export async function itemsAbout(query: Scope, { taskId, key }: Pick<FoundTask, 'taskId' | 'key'>): Promise<ItemKey[]> {
  return itemsOfTask(query, { taskId, names: [key, nameOf.taskId(taskId)], most: MOST_ABOUT });
}

/** The largest number of names that are searched for a similar one. */
const MOST_SEARCHED = 200;

/** Uses no regular expression, because one would retry at each digit of a run. */
function withoutNumber(name: string): string {
  let end = name.length;
  while (end > 0 && '0123456789'.includes(name[end - 1] as string)) end--;
  return name.slice(0, end);
}

/** Returns the error for an unknown name, with the nearest one as a suggestion. */
export async function noSuchItem(query: Scope, target: string): Promise<SyncError> {
  // `acme/app#99` → `acme/app#`: what people mistype most is the number, and one index range has the others.
  const start = withoutNumber(target);
  const names = await namesWithPrefix(query, start === '' ? target : start, MOST_SEARCHED);
  const others = names.length > 0 ? names : await namesWithPrefix(query, target.slice(0, 3), MOST_SEARCHED);
  return new SyncError('not_found', `worksync knows no item and no task ${target}${didYouMean(target, others)}`, {
    hint: 'Give its address, its key, or what people call it, such as acme/app#7 or ENG-12.',
  });
}

/** An item with its name for people. */
export interface NamedItem {
  readonly key: ItemKey;
  readonly kind: Item['kind'];
  /** `acme/api#12`, `ENG-123`; else its key. */
  readonly name: string;
  readonly title: string | null;
  readonly url: string | null;
  /** Name and title: `acme/api#12 Pay by card`. */
  readonly label: string;
}

/** Returns these items by their keys, as far as worksync has them. */
export async function nameItems(query: Scope, keys: readonly ItemKey[]): Promise<ReadonlyMap<ItemKey, NamedItem>> {
  const rows = await itemLabels(query, keys);
  return new Map(rows.map((row) => [row.key, namedItem({ ...row, name: row.name ?? row.key })]));
}

function namedItem(item: Omit<NamedItem, 'label'>): NamedItem {
  const { name, title } = item;
  return { ...item, label: title === null ? name : `${name} ${title}` };
}

/** Names an item as a delivery contains it. */
export function nameOfItem(item: Item): NamedItem {
  const { key, kind, title = null, url = null } = item;
  return namedItem({ key, kind, title, url, name: displayNameOf(item) ?? key });
}

/** The subject of a change or a request. */
export interface NamedEntity {
  readonly entity: string;
  readonly kind: EntityKind;
  readonly item: NamedItem | null;
  readonly task: FoundTask | null;
  /** `link of acme/app#1 to BUG-12` */
  readonly label: string;
}

/** A row of entities, changes or requests. */
interface EntityIds {
  readonly entity: string;
  readonly kind: EntityKind;
  readonly item_key: string | null;
  readonly task_id: string | null;
}

export async function nameEntities(
  query: Scope,
  rows: readonly EntityIds[],
): Promise<ReadonlyMap<string, NamedEntity>> {
  const items = await nameItems(
    query,
    rows.flatMap(({ item_key }) => item_key ?? []),
  );
  const tasks = await tasksByIds(
    query,
    rows.flatMap(({ task_id }) => task_id ?? []),
  );
  const cached = new Map(tasks.map((task) => [task.taskId, foundTask(task)]));
  return new Map(
    rows.map(({ entity, kind, item_key, task_id }) => {
      const item = (item_key !== null && items.get(item_key)) || null;
      const task = task_id === null ? null : (cached.get(task_id) ?? { taskId: task_id, key: task_id, name: task_id });
      const label = entityLabel({ entity, kind, item: item?.name ?? item_key, task: task?.name ?? null });
      return [entity, { entity, kind, item, task, label }];
    }),
  );
}

export type EntityNames = Readonly<Record<string, NamedEntity>>;

/** Returns the subjects of changes. Reads have no row: their names contain the subject. */
export async function entityNamesOf(
  { store: { query } }: { readonly store: Pick<OpenWorkspace['store'], 'query'> },
  changes: readonly { readonly entity: string }[],
): Promise<EntityNames> {
  const wanted = [...new Set(changes.map(({ entity }) => entity))];
  const rows = await findEntities(query, wanted);
  const found = new Set(rows.map(({ entity }) => entity));
  const reads = wanted.filter((entity) => !found.has(entity)).map(asRead);
  return Object.fromEntries(await nameEntities(query, [...rows, ...reads]));
}

function asRead(entity: string): EntityIds {
  return { entity, kind: 'read', item_key: null, task_id: taskOfLinkRead(entity) ?? null };
}
