import { z } from 'zod';
import type { Item } from '../model/item.ts';
import { cut } from '../model/text-limits.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { ListedDelivery } from '../store/deliveries/find-deliveries.ts';
import { findItem, readEvaluatedTasks, readFields } from '../store/items/items.ts';
import { tasksByIds } from '../store/tasks/cached-tasks.ts';
import { type ExplainedItem, explainItem } from '../sync/reconcile/explain.ts';
import type { ExplainedTask } from '../sync/reconcile/workflow/explain-task.ts';
import { deliveriesThatChanged } from './deliveries.ts';
import { type FoundTask, findItems, findTask, foundTask, itemsAbout, noSuchItem } from './find-named.ts';
import { type NamedItem, nameOfItem } from './human-names.ts';
import { explainStatuses, tasksOf } from './links.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import { operation, textSchema } from './operation.ts';
import { type Timeline, timelinesOf } from './timelines.ts';

/** One item with everything that is known of it: plain JSON, times are epoch milliseconds. */
export interface ShownItem extends NamedItem {
  readonly connection: string;
  readonly gone: boolean;
  readonly finished: boolean;
  /** The provider's time of this state, and when worksync stored it. */
  readonly providerTime: number;
  readonly seenAt: number;
  /** As it is held; long texts are cut. */
  readonly fields: Item;
  /** The tasks that it is linked to, and of a work item those that it became. */
  readonly tasks: readonly FoundTask[];
  /** Links with reasons, what is named and not linked and why, triage, write-back. */
  readonly explained: ExplainedItem;
  /** The last deliveries that changed it, the newest first. */
  readonly deliveries: readonly ListedDelivery[];
  /** The waterfall: what waits to be sent, then what was sent, the newest first. */
  readonly courses: readonly Timeline[];
}

export interface ShownItems {
  readonly task: FoundTask | null;
  /** As in `explainLinks`. */
  readonly statuses: readonly ExplainedTask[];
  readonly items: readonly ShownItem[];
  readonly count: number;
}

/** Items of one answer. */
const MOST = 5;
/** Characters shown of one text. */
const MAX_LENGTH = 4_000;

/** The items of that name; of a task, those that are linked to it or name it. Throws `not_found`. */
async function showItems(
  workspace: OpenWorkspace,
  { name }: { readonly name: string },
  clock: Clock,
): Promise<ShownItems> {
  const {
    store: { query },
    sources,
    rules,
  } = workspace;
  const task = (await findTask(query, name)) ?? null;
  const keys = task ? await itemsAbout(query, task) : await findItems(query, name, rules);
  if (keys.length === 0 && !task) throw await noSuchItem(query, name);
  const items: ShownItem[] = [];
  for (const key of keys.slice(0, MOST)) {
    const row = await findItem(query, key);
    const explained = await explainItem(query, key, { sources, rules, now: clock.now() });
    if (!row || !explained) continue;
    const { item } = readFields(row);
    const linked = explained.links.filter(({ state }) => state === 'linked' || state === 'manual');
    const standing = await tasksByIds(query, await readEvaluatedTasks(query, key));
    const tasks = new Map<string, FoundTask>([
      ...standing.map((each) => [each.taskId, foundTask(each)] as const),
      ...linked.map(({ taskId, task: own, name: shown }) => [taskId, { taskId, key: own, name: shown }] as const),
    ]);
    items.push({
      ...nameOfItem(item),
      connection: row.connection,
      gone: row.gone === 1,
      finished: row.finished === 1,
      providerTime: row.provider_time,
      seenAt: row.seen_at,
      fields: shortened(item),
      tasks: [...tasks.values()],
      explained,
      deliveries: await deliveriesThatChanged(query, [key]),
      courses: await timelinesOf(query, [key], clock.now()),
    });
  }
  const taskIds = task ? [task.taskId] : tasksOf(items.map(({ explained }) => explained));
  return { task, statuses: await explainStatuses(workspace, taskIds, clock), items, count: keys.length };
}

function shortened(item: Item): Item {
  const short = (value: unknown) => (typeof value === 'string' ? cut(value, MAX_LENGTH) : value);
  const fields = Object.entries(item).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.map(short) : short(value),
  ]);
  return Object.fromEntries(fields) as Item;
}

export const itemOperations = { items: operation({ body: z.strictObject({ name: textSchema }), run: showItems }) };
