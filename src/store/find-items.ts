import type { ItemKey } from '../model/item.ts';
import type { Query } from './database.ts';

/** For people, who seldom ask: reads through all items. Newest first. */
async function itemsWhere(query: Query, ...texts: readonly string[]): Promise<ItemKey[]> {
  let found = query.selectFrom('items').select('key');
  for (const text of texts) found = found.where('fields', 'like', `%${text.replace(/[\\%_]/g, '_')}%`);
  const rows = await found.orderBy('seen_at', 'desc').limit(5).execute();
  return rows.map(({ key }) => key);
}

/** Items by their address, as their provider spells it. */
export function itemsAtUrl(query: Query, url: string): Promise<ItemKey[]> {
  return itemsWhere(query, `"url":${JSON.stringify(url)}`);
}

/** Pull requests and issues by `group/project#12`, or by what people call them. */
export async function itemsCalled(query: Query, text: string): Promise<ItemKey[]> {
  const [, project, number] = /^(.+)[#!](\d+)$/.exec(text) ?? [];
  if (project === undefined || number === undefined) return itemsWhere(query, `"identifier":${JSON.stringify(text)}`);
  const pulls = await itemsWhere(query, `"repoName":${JSON.stringify(project)}`, `"identifier":"${number}"`);
  const issues = await itemsWhere(query, `"containerName":${JSON.stringify(project)}`, `"identifier":"#${number}"`);
  return [...pulls, ...issues];
}
