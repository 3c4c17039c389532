import type { Intent, LinkReason } from '../../model/item.ts';
import { itemsNamed, type NamedItem, readMentions, saveMentions } from '../../store/items/item-names.ts';
import { existingTasks, tasksByKeys } from '../../store/tasks/stored-tasks.ts';
import type { Evaluation } from './context.ts';
import { tasksOfItem } from './evaluate-links.ts';
import type { Mention } from './link-rules/link-rules.ts';
import { nameOf } from './link-rules/lookup-names.ts';
import { intentOf, PLAIN_GRAMMAR, readingsOf } from './link-rules/scan.ts';

/** A mention in an item's text, and what it means. */
export interface Resolved extends Mention {
  /** The delivery that contained the mention first. */
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
  /** The mention uses a former name of that item. */
  readonly isFormerName?: true;
  readonly tasks: readonly string[];
}

/**
 * Stores the mentions of an item's texts and resolves them to tasks, items and documents. Returns also the names that the
 * texts did not contain before.
 */
export async function resolve(evaluation: Evaluation) {
  const { query, item, cause } = evaluation;
  const { reasons, added } = await saveMentions(query, item.key, mentionsToStore(evaluation), cause.delivery);
  return { resolved: await resolveAll(evaluation, mentionsIn(evaluation), reasons), added };
}

/** Returns the mentions of an item as they are stored, and an entry if it names more than worksync reads. */
export function mentionsToStore(evaluation: Evaluation) {
  const { item, connection, rules, idPrefixes } = evaluation;
  const stored = mentionsIn(evaluation).map(({ name, ...reason }) => ({ name, reason: reason as object }));
  const leftOut = rules.links.leftOutOf(item, connection, idPrefixes);
  if (leftOut === undefined) return stored;
  const { rule, place, text } = leftOut;
  return [...stored, { name: nameOf.leftOut, reason: { rule, place, text } }];
}

/** Resolves the mentions of an item's texts without storing them. */
export async function resolveReadOnly(evaluation: Evaluation): Promise<readonly Resolved[]> {
  const mentions = mentionsIn(evaluation);
  return resolveAll(evaluation, mentions, await readMentions(evaluation.query, evaluation.item.key));
}

function mentionsIn({ item, connection, rules, idPrefixes }: Evaluation): readonly Mention[] {
  return rules.links.mentionsOf(item, connection, idPrefixes);
}

async function resolveAll(
  evaluation: Evaluation,
  mentions: readonly Mention[],
  reasons: ReadonlyMap<string, { readonly delivery?: number }>,
): Promise<Resolved[]> {
  const { connection } = evaluation;
  const tasks = await tasksByName(evaluation, mentions);
  const items = await itemsByName(evaluation, mentions);
  const resolved: Resolved[] = [];
  for (const mention of mentions) {
    const delivery = reasons.get(mention.name)?.delivery;
    const base = { ...mention, ...(delivery === undefined ? {} : { delivery }) };
    const intent = intentOf(connection.grammar ?? PLAIN_GRAMMAR, mention.words) ?? 'mentions';
    const taskId = tasks.get(mention.name);
    if (mention.rule === 'document-url') resolved.push({ ...base, outcome: 'document', intent, tasks: [] });
    else if (taskId !== undefined) resolved.push({ ...base, outcome: 'linked', intent, tasks: [taskId] });
    else resolved.push(...(await resolveThroughItems(evaluation, { ...base, intent }, items.get(mention.name) ?? [])));
  }
  return withoutShorterIds(withoutMisreadings(resolved));
}

/** Removes unknown names of a text if another name of it exists, and further names that miss the same thing. */
function withoutMisreadings(resolved: readonly Resolved[]): Resolved[] {
  const existing = resolved.filter(({ outcome }) => outcome !== 'unknown');
  const existingNames = new Set(existing.map(({ name }) => shortestReading(name)));
  const texts = new Set(existing.map(placeOf));
  const missed = new Set<string>();
  return resolved.filter((each) => {
    if (each.outcome === 'linked') return true;
    if (isUnknown(each) && (existingNames.has(shortestReading(each.name)) || texts.has(placeOf(each)))) return false;
    const miss = `${placeOf(each)} ${each.via ?? ''}`;
    return !missed.has(miss) && missed.add(miss);
  });
}

function placeOf({ place, text }: Pick<Resolved, 'place' | 'text'>): string {
  return `${place} ${text}`;
}

function shortestReading(name: string): string {
  return readingsOf(name).at(-1) as string;
}

/**
 * Keeps one of the ids that a text such as `tsk_a1-fix-door` may mean (see `idsIn`): the longest one that is a task,
 * else the longest one.
 */
function withoutShorterIds(resolved: readonly Resolved[]): Resolved[] {
  const ids = resolved.filter(({ name }) => name.startsWith(nameOf.taskId('')));
  const isDropped = (one: Resolved) =>
    ids.some((other) => {
      if (other.name === one.name) return false;
      if (isShorterReading(one.name, other.name))
        return other.outcome === 'linked' ? placeOf(one) === placeOf(other) : isUnknown(one);
      return isShorterReading(other.name, one.name) && isUnknown(one) && other.outcome === 'linked';
    });
  return resolved.filter((each) => !ids.includes(each) || !isDropped(each));
}

function isShorterReading(shorter: string, longer: string): boolean {
  return longer.startsWith(shorter) && /[-_]/.test(longer.charAt(shorter.length));
}

function isUnknown({ outcome }: Resolved): boolean {
  return outcome === 'unknown';
}

/** Returns the ids of existing tasks by the names that mention them. */
async function tasksByName({ query }: Evaluation, mentions: readonly Mention[]): Promise<Map<string, string>> {
  const names = mentions.map(({ name }) => name);
  const found = new Map<string, string>();
  for (const [key, { taskId }] of await tasksByKeys(query, names)) found.set(key, taskId);
  const prefix = nameOf.taskId('');
  const ids = names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  for (const taskId of await existingTasks(query, ids)) found.set(nameOf.taskId(taskId), taskId);
  return found;
}

/**
 * Returns the named items of a pull request. Work items that name each other are related, but not the same work: they
 * share no task.
 */
async function itemsByName(
  { query, item }: Evaluation,
  mentions: readonly Mention[],
): Promise<Map<string, NamedItem[]>> {
  if (item.kind !== 'pull_request') return new Map();
  const names = mentions.map(({ name }) => name);
  return Map.groupBy(await itemsNamed(query, names), ({ name }) => name);
}

/** Resolves a mention of items to the tasks of those items. */
async function resolveThroughItems(
  { query, sources }: Evaluation,
  mention: Omit<Resolved, 'outcome' | 'tasks'>,
  items: readonly NamedItem[],
): Promise<Resolved[]> {
  if (items.length === 0) return [{ ...mention, outcome: 'unknown', tasks: [] }];
  const resolved: Resolved[] = [];
  for (const { itemKey, connection, isFormer } of items) {
    const rule = mention.rule === 'task-key' ? 'item-key' : mention.rule;
    const grammar = sources.get(connection)?.grammar ?? PLAIN_GRAMMAR;
    // An address needs no keyword, because it has no other meaning.
    const intent = intentOf(rule === 'item-url' ? { ...grammar, needsWord: false } : grammar, mention.words);
    const tasks = intent === undefined ? [] : await tasksOfItem(query, itemKey);
    const outcome = intent === undefined ? 'unworded' : tasks.length === 0 ? 'taskless' : 'linked';
    const through = { via: itemKey, ...(isFormer && { isFormerName: true as const }) };
    resolved.push({ ...mention, rule, intent: intent ?? mention.intent, ...through, outcome, tasks });
  }
  return resolved;
}

/**
 * Returns the desired links by task, each with its first reason. Mentions of a task come before mentions of its item.
 */
export function desiredLinks(resolved: readonly Resolved[]): Map<string, LinkReason> {
  const links = new Map<string, LinkReason>();
  const strengths = strengthsOf(resolved);
  const strengthAt = (taskId: string, shown: string): Pick<LinkReason, 'strength' | 'carriedBy'> => {
    const { strength, place = shown } = strengths.get(taskId) ?? {};
    return { ...(strength && { strength }), ...(strength === 'carrying' && place !== shown && { carriedBy: place }) };
  };
  const direct = resolved.filter(({ via }) => via === undefined);
  const throughItems = resolved.filter(({ via }) => via !== undefined);
  for (const { rule, place, text, intent, via, isFormerName, delivery, tasks } of [...direct, ...throughItems]) {
    const optional = {
      ...(via === undefined ? {} : { via }),
      ...(isFormerName && { isFormerName }),
      ...(delivery === undefined ? {} : { delivery }),
    };
    for (const taskId of tasks) {
      if (!links.has(taskId))
        links.set(taskId, { rule, place, text, intent, ...optional, ...strengthAt(taskId, place) });
    }
  }
  return links;
}

/** Places that name the work itself. A description only tells about it. */
const CARRYING: ReadonlySet<string> = new Set(['branch', 'title', 'trailer']);

/** Returns the strongest mention of each task, and its place. A task that is only mentioned is left out. */
function strengthsOf(resolved: readonly Resolved[]) {
  const strengths = new Map<string, { readonly strength: 'closing' | 'carrying'; readonly place: string }>();
  for (const { tasks, intent, place, rule } of resolved) {
    const isCarrying = CARRYING.has(place) || rule.startsWith('pattern');
    for (const taskId of tasks) {
      if (intent === 'closes') strengths.set(taskId, { strength: 'closing', place });
      else if (isCarrying && !strengths.has(taskId)) strengths.set(taskId, { strength: 'carrying', place });
    }
  }
  return strengths;
}
