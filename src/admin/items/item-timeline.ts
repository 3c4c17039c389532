import { z } from 'zod';
import type { Item, ItemKey } from '../../model/item.ts';
import { cut } from '../../model/text-limits.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { findItem, readEvaluatedTasks, readFields } from '../../store/items/items.ts';
import { tasksByIds } from '../../store/tasks/stored-tasks.ts';
import { explainItem } from '../../sync/reconcile/explain.ts';
import { deliveriesThatChanged } from '../deliveries/deliveries.ts';
import { timelinesOf } from '../deliveries/timelines.ts';
import { type OpenWorkspace, operation, textSchema } from '../open-workspace.ts';
import { explainStatuses, tasksOf } from '../tasks/links.ts';
import { type FoundTask, findItems, findTask, foundTask, itemsAbout, nameOfItem, noSuchItem } from './human-names.ts';

export type ShownItems = Awaited<ReturnType<typeof showItems>>;
export type ShownItem = NonNullable<Awaited<ReturnType<typeof showItem>>>;

const MOST = 5;
const MAX_LENGTH = 4_000;

/** Returns the items of that name; of a task, those that are linked to it or name it. Throws `not_found`. */
async function showItems(workspace: OpenWorkspace, { name }: { readonly name: string }, clock: Clock) {
  const { rules, store } = workspace;
  const { query } = store;
  const task = (await findTask(query, name)) ?? null;
  const keys = task ? await itemsAbout(query, task) : await findItems(query, name, rules);
  if (keys.length === 0 && !task) throw await noSuchItem(query, name);
  const items: ShownItem[] = [];
  for (const key of keys.slice(0, MOST)) {
    const shown = await showItem(workspace, key, clock.now());
    if (shown) items.push(shown);
  }
  const taskIds = task ? [task.taskId] : tasksOf(items.map(({ explained }) => explained));
  // The statuses are as in `explainLinks`.
  return { task, statuses: await explainStatuses(workspace, taskIds, clock), items, count: keys.length };
}

/** Returns one item with everything that is known of it: plain JSON, times are epoch milliseconds. */
async function showItem({ store: { query }, sources, rules }: OpenWorkspace, key: ItemKey, now: number) {
  const row = await findItem(query, key);
  const explained = await explainItem(query, key, { sources, rules, now });
  if (!row || !explained) return undefined;
  const { item } = readFields(row);
  const linked = explained.links.filter(({ state }) => state === 'linked' || state === 'manual');
  const created = await tasksByIds(query, await readEvaluatedTasks(query, key));
  const tasks = new Map<string, FoundTask>([
    ...created.map((each) => [each.taskId, foundTask(each)] as const),
    ...linked.map(({ taskId, task: own, name: shown }) => [taskId, { taskId, key: own, name: shown }] as const),
  ]);
  return {
    ...nameOfItem(item),
    connection: row.connection,
    gone: row.gone === 1,
    finished: row.finished === 1,
    /** The provider's time of this state, and when worksync stored it. */
    providerTime: row.provider_time,
    seenAt: row.seen_at,
    /** Long texts are cut. */
    fields: shortened(item),
    /** The tasks that it is linked to, and of a work item those that it became. */
    tasks: [...tasks.values()],
    /** Links with reasons, what is named and not linked and why, triage, write-back. */
    explained,
    /** The last deliveries that changed it, the newest first. */
    deliveries: await deliveriesThatChanged(query, [key]),
    /** The waiting changes, then the sent requests, the newest first. */
    courses: await timelinesOf(query, [key], now),
  };
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
