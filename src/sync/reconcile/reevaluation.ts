import { USUAL_ID_PREFIXES } from '../../model/task.ts';
import { openItemsAfter } from '../../store/items.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { Rules } from './item-rules.ts';

/** Names of facts: the rules by which all open items were evaluated, and how far the evaluation by newer rules is. */
const LOOKED_BY = 'rules.looked_by';
const LOOKING = 'rules.looking';

/**
 * Identifies the rules that items are evaluated by: those of the configuration, and the ids that they recognise. The
 * usual ids do not count, so that the first list of tasks causes no evaluation in most workspaces.
 */
export function digestOf({ digest }: Pick<Rules, 'digest'>, idPrefixes: readonly string[]): string | undefined {
  const unusual = idPrefixes.filter((prefix) => !USUAL_ID_PREFIXES.includes(prefix));
  return digest === undefined || unusual.length === 0 ? digest : `${digest} ${unusual.join(' ')}`;
}

/**
 * The open items that were not looked at yet by these rules, at most `most` at a time; undefined when all were. What is finished
 * is left as it is until it changes.
 */
export async function nextToReevaluate(
  query: Scope,
  rules: string,
  most: number,
): Promise<readonly string[] | undefined> {
  if ((await rulesEvaluatedBy(query)) === rules) return undefined;
  const [by, after = ''] = ((await readMeta(query, LOOKING)) ?? '').split('\n');
  const keys = await openItemsAfter(query, by === rules ? after : '', most);
  if (keys.length > 0) return keys;
  await writeMeta(query, LOOKED_BY, rules);
  return undefined;
}

/** The digest of the rules that all open items were looked at by; undefined before that was ever done. */
export function rulesEvaluatedBy(query: Scope): Promise<string | undefined> {
  return readMeta(query, LOOKED_BY);
}

/** In the transaction that looked at them. */
export async function noteReevaluated(query: Scope, rules: string, keys: readonly string[]): Promise<void> {
  await writeMeta(query, LOOKING, `${rules}\n${keys.at(-1)}`);
}
