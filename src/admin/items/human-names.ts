import { type EntityKind, entityLabel, taskOfLinkRead } from '../../model/change.ts';
import { displayNameOf, type Item, type ItemKey } from '../../model/item.ts';
import { findEntities } from '../../store/changes/entities.ts';
import { itemLabels } from '../../store/items/items.ts';
import { tasksByIds } from '../../store/tasks/stored-tasks.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import { type FoundTask, foundTask } from './find-named.ts';

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
