import type { ItemKey } from '../model/item.ts';
import type { Scope } from './workspace-scope.ts';

/** Nobody reads a longer list. */
const MOST = 5;

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
