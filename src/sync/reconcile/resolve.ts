import type { Intent, LinkReason } from '../../model/link.ts';
import { existingTasks, tasksByKeys } from '../../store/cached-tasks.ts';
import { itemsNamed, type NamedItem, readMentions, saveMentions } from '../../store/item-names.ts';
import type { Work } from './changes.ts';
import { standingTasks } from './evaluate-links.ts';
import { intentOf, PLAIN } from './link-rules/intent.ts';
import { nameOf } from './link-rules/item-names-of.ts';
import type { Mention } from './link-rules/link-rules.ts';
import { readingsOf } from './link-rules/scan.ts';

/** The result for one thing that an item's text names. */
export interface Resolved extends Mention {
  /** The delivery that brought the mention. */
  readonly delivery?: number;
  /**
   * linked    it is a task, or an item with tasks: `tasks`.
   * unknown   there is no such task, item or document.
   * taskless  it is an item without a task.
   * unworded  it is an item, but without the keyword that its tracker needs, or after a negation.
   * document  it is an address of a document.
   */
  readonly outcome: 'linked' | 'unknown' | 'taskless' | 'unworded' | 'document';
  readonly intent: Intent;
  /** The item that is named. */
  readonly via?: string;
  /** By a former name of that item. */
  readonly isFormerName?: true;
  readonly tasks: readonly string[];
}

export interface Resolution {
  readonly resolved: readonly Resolved[];
  /** Names that the item's text did not hold before. */
  readonly added: ReadonlySet<string>;
}

/** Reads an item's texts, keeps what they name, and looks up what there is of it. */
export async function resolve(work: Work): Promise<Resolution> {
  const { query, item, cause } = work;
  const mentions = mentionsIn(work);
  const stored = mentions.map(({ name, ...reason }) => ({ name, reason }));
  const { reasons, added } = await saveMentions(query, item.key, stored, cause.delivery);
  return { resolved: await resolveAll(work, mentions, reasons), added };
}

/** As `resolve`, for looking only: nothing is written. */
export async function lookUp(work: Work): Promise<readonly Resolved[]> {
  const mentions = mentionsIn(work);
  return resolveAll(work, mentions, await readMentions(work.query, work.item.key));
}

/** All that the texts of the item name. */
export function mentionsIn({ item, source, rules, moment }: Work): readonly Mention[] {
  return rules.links.mentionsOf(item, source, moment.idPrefixes);
}

async function resolveAll(
  work: Work,
  mentions: readonly Mention[],
  reasons: ReadonlyMap<string, { readonly delivery?: number }>,
): Promise<Resolved[]> {
  const { source } = work;
  const tasks = await tasksNamed(work, mentions);
  const items = await itemsByName(work, mentions);
  const resolved: Resolved[] = [];
  for (const mention of mentions) {
    const delivery = reasons.get(mention.name)?.delivery;
    const about = { ...mention, ...(delivery === undefined ? {} : { delivery }) };
    const intent = intentOf(source.grammar ?? PLAIN, mention.words) ?? 'mentions';
    const taskId = tasks.get(mention.name);
    if (mention.rule === 'document-url') resolved.push({ ...about, outcome: 'document', intent, tasks: [] });
    else if (taskId !== undefined) resolved.push({ ...about, outcome: 'linked', intent, tasks: [taskId] });
    else resolved.push(...(await throughItems(work, { ...about, intent }, items.get(mention.name) ?? [])));
  }
  return withoutShorterIds(withoutMisreadings(resolved));
}

/** Of several readings of one place, the one that exists counts. */
function withoutMisreadings(resolved: readonly Resolved[]): Resolved[] {
  const isRead = new Set(resolved.filter(({ outcome }) => outcome !== 'unknown').map(({ name }) => shortest(name)));
  return resolved.filter(({ name, outcome }) => outcome !== 'unknown' || !isRead.has(shortest(name)));
}

function shortest(name: string): string {
  return readingsOf(name).at(-1) as string;
}

/**
 * A text such as `tsk_a1-fix-door` is read as several ids, see `idsIn`. Keeps the longest one that is a task, or the
 * longest one where none is.
 */
function withoutShorterIds(resolved: readonly Resolved[]): Resolved[] {
  const ids = resolved.filter(({ name }) => name.startsWith(nameOf.taskId('')));
  const isDropped = (one: Resolved) =>
    ids.some((other) => {
      if (other.name === one.name) return false;
      if (isReadingOf(one.name, other.name))
        return other.outcome === 'linked' ? isSamePlace(one, other) : isUnknown(one);
      return isReadingOf(other.name, one.name) && isUnknown(one) && other.outcome === 'linked';
    });
  return resolved.filter((each) => !ids.includes(each) || !isDropped(each));
}

function isReadingOf(shorter: string, longer: string): boolean {
  return longer.startsWith(shorter) && /[-_]/.test(longer.charAt(shorter.length));
}

function isUnknown({ outcome }: Resolved): boolean {
  return outcome === 'unknown';
}

function isSamePlace(one: Resolved, other: Resolved): boolean {
  return one.place === other.place && one.text === other.text;
}

/** Tasks by the names that mention them. */
async function tasksNamed({ query }: Work, mentions: readonly Mention[]): Promise<Map<string, string>> {
  const names = mentions.map(({ name }) => name);
  const found = new Map<string, string>();
  for (const [key, { taskId }] of await tasksByKeys(query, names)) found.set(key, taskId);
  const prefix = nameOf.taskId('');
  const ids = names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  for (const taskId of await existingTasks(query, ids)) found.set(nameOf.taskId(taskId), taskId);
  return found;
}

/** Only pull requests are linked by way of an item: items that name each other are related, and not the same work. */
async function itemsByName({ query, item }: Work, mentions: readonly Mention[]): Promise<Map<string, NamedItem[]>> {
  if (item.kind !== 'pull_request') return new Map();
  const names = mentions.map(({ name }) => name);
  return Map.groupBy(await itemsNamed(query, names), ({ name }) => name);
}

async function throughItems(
  { query, sources }: Work,
  about: Omit<Resolved, 'outcome' | 'tasks'>,
  items: readonly NamedItem[],
): Promise<Resolved[]> {
  if (items.length === 0) return [{ ...about, outcome: 'unknown', tasks: [] }];
  const resolved: Resolved[] = [];
  for (const { itemKey, connection, isFormer } of items) {
    const rule = about.rule === 'task-key' ? 'item-key' : about.rule;
    const grammar = sources.get(connection)?.grammar ?? PLAIN;
    // An address means nothing else, whatever stands before it.
    const intent = intentOf(rule === 'item-url' ? { ...grammar, needsWord: false } : grammar, about.words);
    const tasks = intent === undefined ? [] : await standingTasks(query, itemKey);
    const outcome = intent === undefined ? 'unworded' : tasks.length === 0 ? 'taskless' : 'linked';
    const through = { via: itemKey, ...(isFormer && { isFormerName: true as const }) };
    resolved.push({ ...about, rule, intent: intent ?? about.intent, ...through, outcome, tasks });
  }
  return resolved;
}

/** The links that these mentions ask for, each with the first reason; a task named itself comes before one by way of an item. */
export function wantedLinks(resolved: readonly Resolved[]): Map<string, LinkReason> {
  const wanted = new Map<string, LinkReason>();
  const direct = resolved.filter(({ via }) => via === undefined);
  const byWay = resolved.filter(({ via }) => via !== undefined);
  for (const { rule, place, text, intent, via, isFormerName, delivery, tasks } of [...direct, ...byWay]) {
    const ways = {
      ...(via === undefined ? {} : { via }),
      ...(isFormerName && { isFormerName }),
      ...(delivery === undefined ? {} : { delivery }),
    };
    for (const taskId of tasks) {
      if (!wanted.has(taskId)) wanted.set(taskId, { rule, place, text, intent, ...ways });
    }
  }
  return wanted;
}
