import { entity } from '../../model/change.ts';
import type { WorkItem } from '../../model/item.ts';
import { linksOfItem } from '../../store/entities.ts';
import { assignPlace, itemsNaming, saveItemNames } from '../../store/item-names.ts';
import { readEvaluatedTasks, saveEvaluatedTasks } from '../../store/items.ts';
import { dropDifference } from '../../store/outbox-rows.ts';
import type { Work } from './changes.ts';
import { evaluateDocuments } from './evaluate-documents.ts';
import { evaluateLinks, keepLinksOfLostNames, standingTasks } from './evaluate-links.ts';
import { evaluateNotices } from './evaluate-notices.ts';
import { evaluateRecord, recordEntity } from './evaluate-record.ts';
import { adoptTask, evaluateTask } from './evaluate-task.ts';
import { PLAIN } from './link-rules/intent.ts';
import { formerNamesOf, placedNamesOf, placeNameOf } from './link-rules/item-names-of.ts';
import { type Resolution, type Resolved, resolve, wantedLinks } from './resolve.ts';

export interface Evaluated {
  /** Task keys and ids that the item names and that are no cached task. */
  readonly unknownKeys: readonly string[];
  readonly unknownIds: readonly string[];
  /** Items to look at again: they name this one, and what stands for it has changed. */
  readonly again: readonly string[];
}

/**
 * Works out what the workspace should hold for one item, compares it with what it is known to hold, and writes the
 * difference to the outbox. Level-triggered: it does not matter which delivery asked, or how often.
 */
export async function evaluate(work: Work): Promise<Evaluated> {
  const { query, item } = work;
  if (item.gone) {
    await letGo(work);
    return { unknownKeys: [], unknownIds: [], again: [] };
  }
  const record = item.kind === 'pull_request' ? await evaluateRecord(work, item) : undefined;
  const resolution = await resolve(work);
  const wanted = wantedLinks(resolution.resolved);
  await keepLinksOfLostNames(work, wanted, resolution.resolved);
  const made = item.kind === 'work_item' ? await adoptTask(query, item, work.moment.now) : undefined;
  if (made !== undefined && !wanted.has(made)) {
    wanted.set(made, { rule: 'triage', place: 'source', text: item.key, intent: 'mentions' });
  }
  await evaluateLinks(work, wanted, record);
  await evaluateDocuments(work, resolution.resolved);
  const lost = await itemsOfLostNames(work);
  const again = item.kind === 'work_item' ? await evaluateWorkItem(work, item) : [];
  await evaluateNotices(work);
  return { ...unknownOf(resolution), again: [...lost, ...again] };
}

/** @returns the items that use a name which leads elsewhere, now that the item's repository or project has it */
async function itemsOfLostNames({ query, item }: Work): Promise<readonly string[]> {
  const [container, name] =
    item.kind === 'pull_request' ? [item.repoId, item.repoName] : [item.containerId, item.containerName];
  if (name === undefined) return [];
  const lost = await assignPlace(query, placeNameOf(item, name), { container, at: item.updatedAt });
  return lost.length === 0 ? [] : itemsNaming(query, lost);
}

/** A gone item writes nothing more; its records, links and tasks in the workspace stay. */
async function letGo({ query, item, source }: Work): Promise<void> {
  if (item.kind === 'pull_request') await dropDifference(query, recordEntity(item, source));
  else await dropDifference(query, entity.task(item.key));
  for (const link of await linksOfItem(query, item.key)) await dropDifference(query, link.entity);
}

/** @returns the items that name this one, where the tasks that stand for it, or its names, have changed */
async function evaluateWorkItem(work: Work, item: WorkItem): Promise<readonly string[]> {
  const { query } = work;
  const standing = await standingTasks(query, item.key);
  await evaluateTask(work, item, standing);
  const grammar = work.source.grammar ?? PLAIN;
  const { all, isRenamed, isTaken } = await saveItemNames(query, item.key, {
    names: placedNamesOf(item, grammar),
    former: formerNamesOf(item, grammar),
    now: work.moment.now,
  });
  const told = await readEvaluatedTasks(query, item.key);
  const hasChanged = told.join() !== standing.join();
  if (hasChanged) await saveEvaluatedTasks(query, item.key, standing);
  return hasChanged || isTaken || (isRenamed && standing.length > 0) ? itemsNaming(query, all) : [];
}

function unknownOf({ resolved, added }: Resolution): Pick<Evaluated, 'unknownKeys' | 'unknownIds'> {
  const unknown = resolved.filter(({ outcome, rule }) => outcome === 'unknown' && !rule.startsWith('item-'));
  const isKey = ({ name }: Resolved) => !name.includes(':');
  const ids = unknown.filter((each) => !isKey(each) && added.has(each.name) && !isCode(each));
  return {
    unknownKeys: unknown.filter(isKey).map(({ name }) => name),
    unknownIds: ids.map(({ name }) => name),
  };
}

/** A word such as `task_name` stands in code more often than it is an id: looking for it is not worth a request. */
function isCode({ name, rule }: Resolved): boolean {
  return rule === 'task-id' && !/[A-Z0-9]/.test(name.slice(name.indexOf('_')));
}
