import type { Item, ItemKey } from '../model/item.ts';
import { dialectOf, textIn } from '../platform/database/dialect.ts';
import { piecesOf } from '../platform/lib/pieces.ts';
import type { Scope } from './workspace-scope.ts';

/** Nobody reads a longer list. */
const MOST = 5;
const KEYS_AT_ONCE = 500;

/** Items by their address, as their provider spells it. Newest first. */
export function itemsAtUrl(query: Scope, url: string): Promise<ItemKey[]> {
  return itemsWith(query, 'url', url);
}

/** Items by what people call them: `group/project#12`, or `!12` for a merge request, or `ENG-123`. Newest first. */
export function itemsCalled(query: Scope, text: string): Promise<ItemKey[]> {
  return itemsWith(query, 'called', text.replace(/!(?=\d+$)/, '#'));
}

async function itemsWith(query: Scope, column: 'url' | 'called', text: string): Promise<ItemKey[]> {
  const rows = await query
    .selectFrom('items')
    .select('key')
    .where(column, '=', text)
    .orderBy('seen_at', 'desc')
    .limit(MOST)
    .execute();
  return rows.map(({ key }) => key);
}

/** The items that a task is linked to, then those with one of these names in their texts: at most `most`, whichever come first. */
export async function itemsOfTask(
  query: Scope,
  { taskId, names, most }: { readonly taskId: string; readonly names: readonly string[]; readonly most: number },
): Promise<ItemKey[]> {
  const linked = await query
    .selectFrom('entities')
    .select('item_key')
    .where('task_id', '=', taskId)
    .where('kind', '=', 'link')
    .limit(most)
    .execute();
  const naming = await query.selectFrom('mentions').select('item_key').where('name', 'in', names).limit(most).execute();
  return [...new Set([...linked, ...naming].flatMap(({ item_key }) => item_key ?? []))].slice(0, most);
}

/** An item as people know it. */
export interface CalledItem {
  readonly key: ItemKey;
  readonly kind: Item['kind'];
  /** `acme/api#12`, `ENG-123`; null where nothing but its key is known. */
  readonly called: string | null;
  readonly title: string | null;
  readonly url: string | null;
}

/** What people call these items. */
export async function calledItems(query: Scope, keys: readonly ItemKey[]): Promise<CalledItem[]> {
  const items: CalledItem[] = [];
  for (const some of piecesOf([...new Set(keys)], KEYS_AT_ONCE)) {
    const rows = await query
      .selectFrom('items')
      .select(['key', 'kind', 'called', 'url'])
      .select(textIn(dialectOf(query.whole), 'fields', ['item', 'title']).as('title'))
      .where('key', 'in', some)
      .execute();
    items.push(...rows);
  }
  return items;
}

/** Names of items that begin so, at most `most`. */
export async function namesBeginning(query: Scope, start: string, most: number): Promise<string[]> {
  const rows = await query
    .selectFrom('items')
    .select('called')
    .where('called', '>=', start)
    .where('called', '<', `${start}\uffff`)
    .orderBy('called')
    .limit(most)
    .execute();
  return rows.flatMap(({ called }) => called ?? []);
}
