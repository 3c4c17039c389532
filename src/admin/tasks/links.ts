import { z } from 'zod';
import { entity, type Written } from '../../model/change.ts';
import { SyncError } from '../../model/errors.ts';
import { type ItemKey, isAutomatic } from '../../model/item.ts';
import { namedStatus, serverStatus } from '../../model/task-status.ts';
import { SYNC_FIELD_NAMES, type WrittenStatus } from '../../model/written-task.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { yieldForRequests } from '../../platform/lib/concurrency.ts';
import { blankEntity, type EntityRow, findEntity, linksOfTask, saveEntity } from '../../store/changes/entities.ts';
import { dropDifference, findChange } from '../../store/changes/outbox-rows.ts';
import { findItem, readFields } from '../../store/items/items.ts';
import { currentRevision } from '../../store/meta.ts';
import { listUnfinishedTasks, readTaskUpdateFacts } from '../../store/tasks/stored-tasks.ts';
import { isOff } from '../../store/workspace/server-facts.ts';
import { appendAnswer } from '../../store/workspace/workspace-reads.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import { formsOf, strongTag, type TaskFields, updateBody, updateFormOf } from '../../sync/outbox/task-update-body.ts';
import type { Rules } from '../../sync/reconcile/context.ts';
import { type KnownLink, urlOfLink } from '../../sync/reconcile/evaluate-links.ts';
import { type ExplainedItem, explainItem } from '../../sync/reconcile/explain.ts';
import { releaseTaskField, releaseTaskStatus } from '../../sync/reconcile/workflow/evaluate-task.ts';
import { type ExplainedTask, explainTask } from '../../sync/reconcile/workflow/explain-task.ts';
import { listChanges } from '../changes/waiting-changes.ts';
import {
  cachedTasks,
  findItems,
  findTask,
  foundTask,
  itemsAbout,
  itemsWithLongLists,
  MOST_ABOUT,
  requireTask,
} from '../items/human-names.ts';
import { type OpenWorkspace, operation, textSchema } from '../open-workspace.ts';

/** A thing that people name by its address, its key, or its usual name. */
const targetSchema = z.strictObject({ target: textSchema });
const taskSchema = z.strictObject({ task: textSchema });
const fieldSchema = taskSchema.extend({ field: z.enum(SYNC_FIELD_NAMES) });
const addedSchema = z.strictObject({
  taskId: textSchema,
  workItem: z.looseObject({ workItemId: textSchema, url: z.string() }),
  item: textSchema.nullable(),
});
/** `link`: its id, or its address. */
const removalSchema = z.strictObject({ taskId: textSchema, link: textSchema });

type Named = z.infer<typeof targetSchema>;
type AddedLink = z.infer<typeof addedSchema>;
type Removal = z.infer<typeof removalSchema>;

export type LinkTarget = Awaited<ReturnType<typeof linkTarget>>;

/** Returns the items of that name, or the task. */
async function linkTarget({ store: { query }, rules }: OpenWorkspace, { target }: Named) {
  const task = (await findTask(query, target)) ?? null;
  const items = [];
  for (const key of task ? [] : await findItems(query, target, rules)) {
    const row = await findItem(query, key);
    if (!row) continue;
    const { url = null, title = null, connector } = readFields(row).item;
    items.push({ key, url, title, connector });
  }
  return { task, items };
}

/**
 * Explains why links of an item, or of a task, exist or do not; and the status of the task, or of the tasks that the item is linked to, if
 * rules update tasks. `isCut`: there may be more items of the task than these.
 */
export async function explainLinks(workspace: OpenWorkspace, { target }: Named, clock: Clock) {
  const { store, sources, rules } = workspace;
  const { query } = store;
  const task = await findTask(query, target);
  const keys = task ? await itemsAbout(query, task) : await findItems(query, target, rules);
  const items: ExplainedItem[] = [];
  const others = task ? (await itemsWithLongLists(query)).filter((key) => !keys.includes(key)) : [];
  for (const key of [...keys, ...others]) {
    const explained = await explainItem(query, key, { sources, rules, now: clock.now(), task });
    const isAbout = keys.includes(key) || (explained?.others.length ?? 0) > 0;
    if (explained && isAbout) items.push(explained);
    await yieldForRequests();
  }
  const statuses = await explainStatuses(workspace, task ? [task.taskId] : tasksOf(items), clock);
  return { task: task ?? null, statuses, items, isCut: task !== undefined && keys.length === MOST_ABOUT };
}

export function tasksOf(items: readonly ExplainedItem[]): readonly string[] {
  return [...new Set(items.flatMap(({ links }) => links.map(({ taskId }) => taskId)))];
}

const MOST_STATUSES = 10;
const MOST_CHANGES = 500;

/** Returns why these tasks have their statuses, of the first `MOST_STATUSES` of them. */
export async function explainStatuses(
  workspace: OpenWorkspace,
  taskIds: readonly string[],
  clock: Clock,
): Promise<readonly ExplainedTask[]> {
  const { rules } = workspace;
  const statuses: ExplainedTask[] = [];
  for (const taskId of taskIds.slice(0, MOST_STATUSES)) {
    const explained = await explainTask(workspace.store.query, taskId, rules, clock.now());
    if (explained) statuses.push(explained);
    await yieldForRequests();
  }
  if (!statuses.some(({ change }) => change?.state === 'pending')) return statuses;
  const waiting = await listChanges(workspace, { states: ['pending'], limit: MOST_CHANGES });
  const expected = new Map(waiting.map(({ entity: name, expectedAt }) => [name, expectedAt]));
  return statuses.map((status) => {
    const { change, taskId } = status;
    const expectedAt = expected.get(entity.taskUpdate(taskId));
    if (change?.state !== 'pending' || expectedAt === undefined) return status;
    return { ...status, change: { ...change, expectedAt: expectedAt && Math.max(expectedAt, change.notBefore) } };
  });
}

/** Returns the first unfinished tasks whose work was merged, with the reason. */
async function unfinishedTasks({ store: { query }, rules }: OpenWorkspace, { limit }: { readonly limit: number }) {
  const found = rules.workflow.isOn ? await listUnfinishedTasks(query, limit) : [];
  const cached = await cachedTasks(query, found);
  const tasks = found.flatMap(({ taskId, reason }) => {
    const task = cached.get(taskId);
    return task ? [{ ...foundTask(task), status: namedStatus(rules.statuses, task.status), reason }] : [];
  });
  return { tasks };
}

/** Lets the rules decide about the status of a task again, for a person. */
async function releaseStatus(workspace: OpenWorkspace, { task }: z.infer<typeof taskSchema>, clock: Clock) {
  const { workflow } = workspace.rules;
  if (!workflow.isOn) throw new SyncError('usage', 'no rules for the statuses of tasks are configured', HINT_OF_RULES);
  return releaseTask(workspace, task, clock, (query, taskId, now) => releaseTaskStatus(query, workflow, taskId, now));
}

/** Lets a field of a task follow its work item again, for a person. */
async function releaseField(workspace: OpenWorkspace, { task, field }: z.infer<typeof fieldSchema>, clock: Clock) {
  const hint = { hint: 'Set rules.triage[].sync in the file of the workspace.' };
  if (!workspace.rules.triage.syncs) throw new SyncError('usage', 'no fields of tasks follow their items', hint);
  return releaseTask(workspace, task, clock, (query, taskId) => releaseTaskField(query, taskId, field));
}

/** Commits the release of a task; the next evaluation acts on it. `released`: a value set by a person was released. */
async function releaseTask(
  { store, wakeReconcile, random }: OpenWorkspace,
  name: string,
  clock: Clock,
  release: (query: Scope, taskId: string, now: number) => Promise<boolean>,
) {
  const task = await requireTask(store.query, name);
  const now = clock.now();
  const released = await store.commit(async (query) => {
    const isReleased = await release(query, task.taskId, now);
    await requestEvaluation(query, entity.taskUpdate(task.taskId), random, now);
    return isReleased;
  });
  wakeReconcile();
  return { task, released };
}

/** Lets reconcile evaluate an item or a task again. */
function requestEvaluation(query: Scope, name: string, random: OpenWorkspace['random'], now: number) {
  return appendAnswer(query, { action: 'look-again', entity: name, sentAt: now, body: null }, random.uuid(), now);
}

const HINT_OF_RULES = { hint: 'Set rules.workflow in the file of the workspace.' };

/**
 * Stores a link that a person added. It belongs to the person, even if it replaces one of ours or a removed one. The workspace's
 * answer goes through the inbox like any other, but does not name the item.
 */
async function linkAdded({ store, wakeReconcile, random }: OpenWorkspace, added: AddedLink, clock: Clock) {
  const { item } = added;
  if (item === null) return { done: true };
  const now = clock.now();
  await store.commit(async (query) => {
    await keepManual(query, { ...added, item }, now);
    await requestEvaluation(query, item, random, now);
  });
  wakeReconcile();
  return { done: true };
}

async function keepManual(query: Scope, { taskId, workItem, item }: AddedLink & { item: ItemKey }, now: number) {
  const name = entity.link(item, taskId);
  const externalId = typeof workItem['externalId'] === 'string' ? workItem['externalId'] : null;
  const row = await findEntity(query, name);
  if (isAutomatic(externalId) || (row && row.hand !== 'gone')) return;
  const known = JSON.stringify({ url: workItem.url, externalId } satisfies KnownLink);
  const revision = await currentRevision(query);
  const ids = { item_key: item, task_id: taskId, known, known_at: now, remote_id: workItem.workItemId, revision };
  await saveEntity(query, { ...blankEntity(name, 'link', ids), hand: 'manual' });
}

async function linkToRemove({ store: { query }, rules }: OpenWorkspace, { taskId, link }: Removal) {
  const row = await findLink(query, { taskId, link }, rules);
  const known = json<KnownLink>(row?.known ?? null);
  const wanted = json<KnownLink>(row?.desired ?? null);
  return {
    workItemId: row?.remote_id ?? null,
    url: known?.url ?? wanted?.url ?? null,
    /** Whether it is desired, but not in the workspace yet. */
    isOnlyWanted: row !== undefined && row.known === null,
  };
}

async function findLink(query: Scope, { taskId, link }: Removal, rules: Rules): Promise<EntityRow | undefined> {
  const rows = await linksOfTask(query, taskId);
  const byId = rows.find((row) => row.remote_id === link);
  if (byId) return byId;
  const items = new Set(await findItems(query, link, rules));
  return rows.find((row) => items.has(row.item_key ?? '') || urlOfLink(row) === link);
}

/** Stores that a person removed a link, or does not want it. It is not added again while the text still names the task. */
async function linkRemoved(
  { store, wakeReconcile, random, rules }: OpenWorkspace,
  { taskId, link }: Removal,
  clock: Clock,
) {
  const now = clock.now();
  const marked = await store.commit(async (query) => {
    const row = await findLink(query, { taskId, link }, rules);
    if (!row) return false;
    const change = await findChange(query, row.entity);
    if (change?.state === 'sending') return false;
    const hand = row.desired === null ? 'gone' : 'removed';
    await saveEntity(query, { ...row, known: null, known_at: now, hand, revision: await currentRevision(query) });
    await dropDifference(query, row.entity);
    // The task by itself too, because an item that is unverified since a restore is not evaluated.
    for (const name of [row.item_key, entity.taskUpdate(taskId)])
      if (name) await requestEvaluation(query, name, random, now);
    return row.desired !== null;
  });
  wakeReconcile();
  return { marked };
}

/** How long an undoing waits for a slot of the quota, milliseconds. */
const PATIENCE = 10_000;

/**
 * Restores the status that a task had before worksync changed it last, if nobody has changed it since. It counts as a
 * status set by a person, so the rules leave it until the work enters a newer phase. Returns the names of both statuses.
 */
async function undoStatus(
  { store, client, config, random, wakeReconcile }: OpenWorkspace,
  { task: target }: z.infer<typeof taskSchema>,
  clock: Clock,
) {
  const { taskId, name } = await requireTask(store.query, target);
  const row = await findEntity(store.query, entity.taskUpdate(taskId));
  const { status } = json<WrittenStatus>(row?.known ?? null) ?? {};
  const { from: previous } = json<Written>(row?.written ?? null) ?? {};
  if (status === undefined || previous === undefined)
    throw new SyncError('conflict', `the status of ${name} is none that worksync has set`, {
      hint: `"worksync links explain ${name}" says what set it.`,
    });
  const { statuses } = config.workspace;
  const context = { lane: 'interactive', patience: PATIENCE } as const;
  const sentAt = clock.now();
  const read = await client.getTask({ taskId }, context);
  if (read.body.status !== serverStatus(statuses, status)) {
    const present = namedStatus(statuses, read.body.status);
    throw new SyncError('conflict', `worksync set ${name} to ${status}, and somebody has set it to ${present} since`);
  }
  const facts = await readTaskUpdateFacts(store.query);
  const [form] = formsOf(updateFormOf(config), facts);
  const body = updateBody(form, (read.raw ?? read.body) as TaskFields, { status: serverStatus(statuses, previous) });
  const ifMatch = isOff(facts.ifMatch, sentAt) ? undefined : strongTag(read.headers['etag']);
  const answer = await client.updateTask({ taskId, body: body as never, ifMatch }, context);
  const seen = { action: 'saw-task', entity: taskId, sentAt, body: answer.body } as const;
  await store.commit((transaction) => appendAnswer(transaction, seen, random.uuid(), clock.now()));
  wakeReconcile();
  return { task: name, from: status, to: previous };
}

export const linkOperations = {
  explain: operation({ body: targetSchema, run: explainLinks }),
  'link-target': operation({ body: targetSchema, run: linkTarget }),
  'link-added': operation({
    body: addedSchema,
    run: linkAdded,
    audit: { subject: ({ taskId }) => taskId, count: () => 1 },
  }),
  'link-to-remove': operation({ body: removalSchema, run: linkToRemove }),
  'link-removed': operation({
    body: removalSchema,
    run: linkRemoved,
    audit: { subject: ({ taskId, link }) => `${taskId} ${link}`, count: () => 1 },
  }),
  'release-status': operation({
    body: taskSchema,
    run: releaseStatus,
    audit: { subject: ({ task }) => task, count: ({ released }) => Number(released) },
  }),
  'release-field': operation({
    body: fieldSchema,
    run: releaseField,
    audit: { subject: ({ task, field }) => `${task} ${field}`, count: ({ released }) => Number(released) },
  }),
  unfinished: operation({ body: z.strictObject({ limit: z.int().min(1).max(200) }), run: unfinishedTasks }),
  'status-undo': operation({
    body: taskSchema,
    run: undoStatus,
    audit: { subject: ({ task }) => task, count: () => 1 },
  }),
};
