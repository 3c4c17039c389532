import { entity } from '../../model/change.ts';
import type { ItemKey, WorkItem } from '../../model/item.ts';
import { formatStatus, statusOf } from '../../model/notice.ts';
import type { Task } from '../../model/task.ts';
import { itemLine } from '../../model/task.ts';
import { isFinalStatus, namedStatus } from '../../model/task-status.ts';
import { chunksOf } from '../../platform/lib/concurrency.ts';
import {
  allLinksOfItem,
  blankEntity,
  type EntityRow,
  entitiesOf,
  findEntity,
  forgetEntity,
  linksOfItem,
  saveEntity,
} from '../../store/changes/entities.ts';
import { areUnderWay, dropDifference, findChange, removeChange } from '../../store/changes/outbox-rows.ts';
import type { Webhook } from '../../store/deliveries/inbox.ts';
import { assignPlace, itemsNaming, passItemNames, saveItemNames } from '../../store/items/item-names.ts';
import {
  findItems,
  type ItemRow,
  readEvaluatedTasks,
  readFields,
  saveEvaluatedTasks,
} from '../../store/items/items.ts';
import { deferNotice, forgetNotice, requestNotice } from '../../store/items/notices.ts';
import { triageSince } from '../../store/meta.ts';
import { taskOfSource, tasksByIds } from '../../store/tasks/stored-tasks.ts';
import { runSequentially } from '../../store/unit-of-work/unit-of-work.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { EvaluatedItem, Evaluation, EvaluationContext, KeyHorizon } from './context.ts';
import { evaluateDocuments } from './document-attachments.ts';
import { type EvaluationCauses, enqueueChange, webhooksOfItems } from './enqueue.ts';
import { evaluateLinks, keepLinksOfLostNames, tasksOfItem } from './evaluate-links.ts';
import { evaluateRecord } from './evaluate-record.ts';
import { formerNamesOf, placedNamesOf, placeNameOf } from './link-rules/lookup-names.ts';
import { PLAIN_GRAMMAR } from './link-rules/scan.ts';
import { desiredLinks, type Resolved, resolve } from './resolve.ts';
import type { TriageDecision } from './triage.ts';
import { type CountedDecision, evaluateTaskUpdate } from './workflow/evaluate-task.ts';
import { linksOfReverted, savePhase } from './workflow/linked-items.ts';

export type EvaluationResult = Awaited<ReturnType<typeof evaluate>>;

/**
 * Computes the desired state of the workspace for one item, compares it with the known state, and enqueues the
 * differences. The result depends only on the present states, not on the deliveries that caused the evaluation or on
 * their number.
 *
 * Must have no effect besides rows and its result: a prefetch runs it once more before, discards both, and ignores its
 * errors (`runSequentially`).
 *
 * Returns the task keys and ids that the item names and that are not cached, the items to evaluate again because they name this
 * one and its tasks or names have changed, and the tasks whose status depends on this item.
 */
export async function evaluate(evaluation: Evaluation) {
  const { item, query } = evaluation;
  // With tombstones: a list of links may have shown that a link is gone.
  const before = movesTasks(evaluation) ? await allLinksOfItem(query, item.key) : [];
  if (item.gone) {
    await withdrawChanges(query, item.key);
    return { ...NO_NAMES, dependents: [], tasks: await tasksToEvaluate(evaluation, before) };
  }
  const record = item.kind === 'pull_request' ? await evaluateRecord(evaluation, item) : undefined;
  const resolution = await resolve(evaluation);
  const links = desiredLinks(resolution.resolved);
  await keepLinksOfLostNames(evaluation, links, resolution.resolved);
  const created = item.kind === 'work_item' ? await adoptTask(evaluation, item) : undefined;
  if (created !== undefined && !links.has(created))
    links.set(created, { rule: 'triage', place: 'source', text: item.key, intent: 'mentions' });
  await evaluateLinks(evaluation, links, record);
  await evaluateDocuments(evaluation, resolution.resolved);
  const ofLostNames = await itemsOfLostNames(evaluation);
  const ofWorkItem = item.kind === 'work_item' ? await evaluateWorkItem(evaluation, item) : [];
  await evaluateNotices(evaluation);
  const tasks = await tasksToEvaluate(evaluation, before);
  return { ...unknownNamesIn(resolution), dependents: [...ofLostNames, ...ofWorkItem], tasks };
}

/** Whether rules may update tasks because of the item. */
function movesTasks({ item, rules: { workflow, triage } }: Evaluation): boolean {
  return workflow.isOn || (triage.syncs && item.kind === 'work_item');
}

/** Stores the phase of the item. Returns the tasks that it is or was linked to, and those of the work that it reverts. */
async function tasksToEvaluate(evaluation: Evaluation, before: readonly EntityRow[]): Promise<readonly string[]> {
  if (!movesTasks(evaluation)) return [];
  const { query, item, rules } = evaluation;
  if (rules.workflow.isOn) await savePhase(query, rules.workflow, item.key, evaluation.now);
  const ofReverted = rules.workflow.isOn ? await linksOfReverted(query, item) : [];
  const links = [...before, ...(await linksOfItem(query, item.key)), ...ofReverted];
  return [...new Set(links.flatMap(({ task_id }) => task_id ?? []))];
}

/**
 * Removes the waiting changes of an item that is gone, or whose connection is not configured. Its records, links and tasks in the
 * workspace stay. Returns its tasks.
 */
async function withdrawChanges(query: Scope, itemKey: ItemKey): Promise<readonly string[]> {
  const rows = await entitiesOf(query, [itemKey]);
  for (const { entity } of rows) await dropDifference(query, entity);
  return rows.flatMap(({ kind, task_id }) => (kind === 'link' ? (task_id ?? []) : []));
}

/**
 * Stores that the item's repository or project has its present name. Returns the items that use a name whose meaning
 * this changes, because another repository or project had it before.
 */
async function itemsOfLostNames({ query, item }: Evaluation): Promise<readonly ItemKey[]> {
  const [container, name] =
    item.kind === 'pull_request' ? [item.repoId, item.repoName] : [item.containerId, item.containerName];
  if (name === undefined) return [];
  const lost = await assignPlace(query, placeNameOf(item, name), { container, at: item.updatedAt });
  return lost.length === 0 ? [] : itemsNaming(query, lost);
}

interface UnknownNames {
  readonly unknownKeys: readonly string[];
  readonly unknownIds: readonly string[];
}

const NO_NAMES: UnknownNames = { unknownKeys: [], unknownIds: [] };

/** Returns all unknown keys, but only those unknown ids that the text did not contain before. */
function unknownNamesIn({ resolved, added }: Awaited<ReturnType<typeof resolve>>): UnknownNames {
  const unknown = resolved.filter(({ outcome, rule }) => outcome === 'unknown' && !rule.startsWith('item-'));
  const isKey = ({ name }: Resolved) => !name.includes(':');
  const ids = unknown.filter((each) => !isKey(each) && added.has(each.name) && !isIdentifierOfCode(each));
  return {
    unknownKeys: unknown.filter(isKey).map(({ name }) => name),
    unknownIds: ids.map(({ name }) => name),
  };
}

/**
 * Recognizes words such as `task_name`: they are in code more often than they are ids, so they are not worth a request.
 */
function isIdentifierOfCode({ name, rule }: Resolved): boolean {
  return rule === 'task-id' && !/[A-Z0-9]/.test(name.slice(name.indexOf('_')));
}

/** Items that are evaluated together. */
const ITEMS_AT_ONCE = 500;

/**
 * The evaluations of a batch, in this order: changed items, items of answers, items of a sweep, and the dependents of
 * all these.
 */
export class EvaluationQueue implements EvaluationCauses {
  /** How many evaluations were made. */
  evaluated = 0;
  /** The evaluated work items: they may become tasks. */
  readonly workItems: ItemKey[] = [];
  /** The decisions about the statuses of tasks. */
  readonly decisions: CountedDecision[] = [];
  readonly #query: Scope;
  readonly #context: EvaluationContext;
  readonly webhooks = new Map<ItemKey, Webhook>();
  readonly webhooksOfTasks = new Map<string, Webhook>();
  readonly answeredTasks = new Map<string, number>();
  readonly #unknownNames = new Map<ItemKey, UnknownNames>();
  /** Items, and when the answer was wanted that caused their evaluation; undefined if no answer did. */
  readonly #ofAnswers = new Map<ItemKey, number | undefined>();
  readonly #ofSweep = new Set<ItemKey>();
  /** Dependents, and the webhook that caused the evaluation of the item that they depend on. */
  readonly #dependents = new Map<ItemKey, Webhook | undefined>();
  readonly #tasks = new Set<string>();

  constructor(query: Scope, context: EvaluationContext) {
    this.#query = query;
    this.#context = context;
  }

  /**
   * @param isSweep a round of the workspace sweep found the item: its changes go behind all others
   * @param wantedAt when the answer was wanted that caused the evaluation, epoch milliseconds
   */
  add(
    key: ItemKey,
    { isSweep = false, wantedAt }: { readonly isSweep?: boolean; readonly wantedAt?: number } = {},
  ): void {
    if (isSweep) this.#ofSweep.add(key);
    else this.#ofAnswers.set(key, earlierOf(this.#ofAnswers.get(key), wantedAt));
  }

  addTask(taskId: string, wantedAt?: number): void {
    this.#tasks.add(taskId);
    const earliest = earlierOf(this.answeredTasks.get(taskId), wantedAt);
    if (earliest !== undefined) this.answeredTasks.set(taskId, earliest);
  }

  /** @param changed the items that the deliveries of the batch changed */
  async evaluate(changed: ReadonlyMap<ItemKey, EvaluatedItem>): Promise<void> {
    await this.#evaluateItems([...changed.values()]);
    const ofAnswers = [...this.#ofAnswers.keys()].filter((key) => !changed.has(key));
    await this.#evaluateStored(ofAnswers, (rows) => webhooksOfItems(this.#query, rows, this.#ofAnswers));
    const isEvaluated = (key: ItemKey) => changed.has(key) || this.#ofAnswers.has(key);
    const swept = [...this.#ofSweep].filter((key) => !isEvaluated(key));
    await this.#evaluateStored(swept, () => new Map(), true);
    // The evaluation of dependents may find further dependents.
    for (let done = 0; done < this.#dependents.size; ) {
      const dependents = [...this.#dependents.keys()].slice(done);
      done = this.#dependents.size;
      await this.#evaluateStored(dependents, () => this.#dependents);
    }
    await this.#evaluateTasks();
  }

  /**
   * Returns the evaluated items that name possible new tasks: a key above the horizon, or an id that the text contains
   * newly.
   */
  itemsNamingNewTasks(horizon: KeyHorizon): readonly ItemKey[] {
    const mayBeNew = ({ unknownKeys, unknownIds }: UnknownNames) =>
      unknownIds.length > 0 || unknownKeys.some((key) => horizon.mayBeNew(key));
    return [...this.#unknownNames].filter(([, names]) => mayBeNew(names)).map(([key]) => key);
  }

  /** @param webhooksOf returns the live webhooks that caused the evaluation of these items */
  async #evaluateStored(
    keys: readonly ItemKey[],
    webhooksOf: (rows: readonly ItemRow[]) => WebhooksOfItems | Promise<WebhooksOfItems>,
    isSweep = false,
  ): Promise<void> {
    const { now, sources } = this.#context;
    for (const chunk of chunksOf(keys, ITEMS_AT_ONCE)) {
      const rows = await findItems(this.#query, chunk);
      for (const row of rows.filter(({ connection }) => !sources.has(connection)))
        for (const task of await withdrawChanges(this.#query, row.key)) this.#tasks.add(task);
      const webhooks = await webhooksOf(rows);
      await this.#evaluateItems(
        rows.flatMap((row) => {
          const connection = sources.get(row.connection);
          const cause = { since: now, waiting: [], isSweep, webhook: webhooks.get(row.key) };
          return connection && row.unverified === 0 ? [{ item: readFields(row).item, connection, cause }] : [];
        }),
      );
    }
  }

  async #evaluateItems(items: readonly EvaluatedItem[]): Promise<void> {
    this.evaluated += items.length;
    for (const { item } of items) if (item.kind === 'work_item') this.workItems.push(item.key);
    const evaluations = items.map((item) => (query: Scope) => evaluate({ ...this.#context, ...item, query }));
    const results = await runSequentially(this.#query, evaluations);
    for (const [index, result] of results.entries()) this.#addResult(items[index] as EvaluatedItem, result);
  }

  async #evaluateTasks(): Promise<void> {
    for (const chunk of chunksOf([...this.#tasks], ITEMS_AT_ONCE)) {
      const evaluations = chunk.map((id) => (query: Scope) => evaluateTaskUpdate(this.#context, query, id));
      const decisions = await runSequentially(this.#query, evaluations);
      this.decisions.push(...decisions.filter((decision) => decision !== undefined));
    }
  }

  #addResult({ item: { key }, cause: { webhook } }: EvaluatedItem, result: EvaluationResult): void {
    const { unknownKeys, unknownIds, dependents, tasks } = result;
    for (const task of tasks) this.#tasks.add(task);
    if (unknownKeys.length + unknownIds.length > 0) this.#unknownNames.set(key, { unknownKeys, unknownIds });
    for (const dependent of dependents) this.#dependents.set(dependent, this.#dependents.get(dependent) ?? webhook);
    if (webhook === undefined) return;
    this.webhooks.set(key, webhook);
    for (const task of tasks) this.webhooksOfTasks.set(task, webhook);
  }
}

type WebhooksOfItems = ReadonlyMap<ItemKey, Webhook | undefined>;

function earlierOf(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}

/**
 * The delay of a commit status, milliseconds. A text may name a task whose read is in flight: the status would fail
 * meanwhile.
 */
const STATUS_DELAY_MS = 3_000;

/**
 * Stores the notices that worksync writes to the vendor: a comment and a commit status with the linked tasks, and the
 * closing of an item with finished tasks. Only existing links count, so that no comment names a link that was never
 * made.
 */
async function evaluateNotices({ query, item, connection, rules, now }: Evaluation): Promise<void> {
  const { comment = false, close = false, status = false } = connection.writeBack ?? {};
  if (!comment && !close && !status) return;
  const all = await linksOfItem(query, item.key);
  const links = all.filter(({ known, hand }) => known !== null && hand !== 'removed');
  const taskIds = links.map(({ task_id }) => task_id as string);
  const tasks = await tasksByIds(query, taskIds);
  const notice = { itemKey: item.key, connection: connection.name, now };
  // Each notice costs its readers a mail and the vendor two requests, so it waits until all links are made.
  const isIncomplete = await areUnderWay(query, [entity.task(item.key), ...all.map((link) => link.entity)]);
  const keys = publicNames(tasks);
  if (comment && isIncomplete) await deferNotice(query, item.key, 'comment');
  else if (comment) await requestNotice(query, { ...notice, kind: 'comment', wanted: commentText(keys) });
  if (status && item.kind === 'pull_request') {
    const desired = item.state === 'open' ? statusOf(item.headSha, keys, status === 'require') : undefined;
    const notBefore = now + STATUS_DELAY_MS;
    if (!desired) await forgetNotice(query, item.key, 'status');
    else if (isIncomplete) await deferNotice(query, item.key, 'status');
    else await requestNotice(query, { ...notice, kind: 'status', wanted: formatStatus(desired), notBefore });
  }
  if (!close || item.kind !== 'work_item') return;
  const statuses = tasks.map((task) => namedStatus(rules.statuses, task.status));
  const isFinished =
    statuses.every((each) => isFinalStatus(rules.statuses, each)) && statuses.some((each) => each !== 'cancelled');
  // An item that a person reopened stays open: closing is wanted once for each time that the tasks become finished.
  if (isFinished)
    await requestNotice(query, { ...notice, kind: 'close', wanted: 'closed', isDone: item.state === 'done' });
  else await forgetNotice(query, item.key, 'close');
}

/**
 * Returns the keys of tasks, or the ids of tasks without a key. Never titles: outsiders may have written them, and the
 * notice would show them to readers at the vendor.
 */
function publicNames(tasks: readonly Pick<Task, 'taskId' | 'key'>[]): readonly string[] {
  return tasks
    .map(({ taskId, key }) => (key === taskId || KEY.test(key) ? key : ''))
    .filter((key) => KEY.test(key) || ID.test(key))
    .sort();
}

const KEY = /^[A-Za-z0-9-]{1,40}$/;
const ID = /^[A-Za-z0-9_-]{1,64}$/;

function commentText(keys: readonly string[]): string | null {
  return keys.length === 0 ? null : `Linked to ${new Intl.ListFormat('en').format(keys)}.`;
}

/**
 * Evaluates whether a work item becomes a task, and stores its names. Returns the items that name this one if its tasks
 * or its names have changed.
 */
async function evaluateWorkItem(evaluation: Evaluation, item: WorkItem): Promise<readonly ItemKey[]> {
  const { query, now, connection } = evaluation;
  const taskIds = await tasksOfItem(query, item.key);
  await evaluateTask(evaluation, item, taskIds);
  const grammar = connection.grammar ?? PLAIN_GRAMMAR;
  const names = { names: placedNamesOf(item, grammar), former: formerNamesOf(item, grammar), now };
  const { movedTo } = item;
  if (movedTo !== undefined) await passTask(evaluation, item, movedTo);
  const { all, isRenamed, isTaken } =
    movedTo === undefined
      ? await saveItemNames(query, item.key, names)
      : await passItemNames(query, item.key, { to: movedTo, ...names });
  const before = await readEvaluatedTasks(query, item.key);
  const haveTasksChanged = before.join() !== taskIds.join();
  if (haveTasksChanged) await saveEvaluatedTasks(query, item.key, taskIds);
  return haveTasksChanged || isTaken || (isRenamed && taskIds.length > 0) ? itemsNaming(query, all) : [];
}

/**
 * Returns the id of the task that was created for an item, by worksync or by another client that set its source. A task
 * that only the last line of its description identifies is stored, so that no second task is created.
 */
async function adoptTask({ query, now }: Evaluation, item: WorkItem): Promise<string | undefined> {
  const name = entity.task(item.key);
  const row = await findEntity(query, name);
  if (row?.remote_id) return row.remote_id;
  const task = await taskOfSource(query, item.key, itemLine(item));
  if (!task || task.source === item.key) return task?.taskId;
  const change = await findChange(query, name);
  // A request in flight is settled by its own answer.
  if (change?.state === 'sending') return undefined;
  if (change) await removeChange(query, name);
  const known = { known: row?.desired ?? '{}', known_at: now, remote_id: task.taskId };
  await saveEntity(query, { ...(row ?? blankEntity(name, 'task', { item_key: item.key })), ...known });
  return task.taskId;
}

/** The task that was created for an issue belongs to the issue as which it goes on, so that no second task is created. */
async function passTask({ query, now }: Evaluation, { key }: WorkItem, to: ItemKey): Promise<void> {
  const row = await findEntity(query, entity.task(key));
  const name = entity.task(to);
  const existing = await findEntity(query, name);
  if (!row?.remote_id || existing?.remote_id) return;
  const change = await findChange(query, name);
  // A request in flight is settled by its own answer.
  if (change?.state === 'sending') return;
  if (change) await removeChange(query, name);
  const known = { desired: row.desired, known: row.known ?? '{}', known_at: now, remote_id: row.remote_id };
  await saveEntity(query, { ...(existing ?? blankEntity(name, 'task', { item_key: to })), ...known });
}

/**
 * Enqueues the creation of a task if the triage rules want one. Each item becomes at most one task: later changes of
 * the item or of the task create no other.
 */
async function evaluateTask(evaluation: Evaluation, item: WorkItem, taskIds: readonly string[]): Promise<void> {
  const { query, rules } = evaluation;
  const name = entity.task(item.key);
  const existing = await findEntity(query, name);
  if (existing?.known != null) return;
  if (!rules.triage.isOn && existing === undefined) return;
  // A stored request is in flight or has an unknown outcome: its answer, or a list, decides.
  const change = existing && (await findChange(query, name));
  const isUnsettled = change?.sent != null && change.state !== 'held';
  const row = existing ?? blankEntity(name, 'task', { item_key: item.key });
  const decision = await decideTriage(evaluation, item);
  const isDesired = decision.outcome === 'create' && taskIds.length === 0;
  if (!isDesired && !isUnsettled) {
    if (change?.state === 'held') await removeChange(query, name);
    else await dropDifference(query, name);
    return forgetEntity(query, name);
  }
  const desired = isDesired ? JSON.stringify(decision.task) : null;
  await saveEntity(query, { ...row, desired });
  if (!isDesired) return;
  await enqueueChange(evaluation, 'task', name, { renewed: row.desired !== desired, effect: 'creation' });
}

/** Returns the decision of the triage rules, whether or not it was carried out. */
export async function decideTriage(
  { query, connection, rules, now }: Evaluation,
  item: WorkItem,
): Promise<TriageDecision> {
  const since = await triageSince(query, connection.name);
  return rules.triage.decide(item, connection.name, since ?? now);
}
