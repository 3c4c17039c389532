import type { ItemKey } from '../model/item.ts';
import type { LinkReason } from '../model/link.ts';
import type { Query } from './database.ts';

/** Replaces what an item's text names. */
export async function saveMentions(
  query: Query,
  itemKey: ItemKey,
  mentions: readonly { taskKey: string; reason: LinkReason }[],
): Promise<void> {
  await query.deleteFrom('mentions').where('item_key', '=', itemKey).execute();
  if (mentions.length === 0) return;
  const rows = mentions.map(({ taskKey, reason }) => ({
    item_key: itemKey,
    task_key: taskKey,
    reason: JSON.stringify(reason),
  }));
  await query.insertInto('mentions').values(rows).execute();
}

/** The items that name one of these task keys. */
export async function itemsNaming(query: Query, taskKeys: readonly string[]): Promise<ItemKey[]> {
  const keys = new Set<ItemKey>();
  for (let at = 0; at < taskKeys.length; at += 500) {
    const rows = await query
      .selectFrom('mentions')
      .select('item_key')
      .distinct()
      .where('task_key', 'in', taskKeys.slice(at, at + 500))
      .execute();
    for (const row of rows) keys.add(row.item_key);
  }
  return [...keys];
}
