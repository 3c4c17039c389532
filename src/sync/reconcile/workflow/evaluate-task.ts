// Design: src/decisions/workflow.md

import { entity } from '../../../model/change.ts';
import { movedToOf } from '../../../model/item.ts';
import { FINAL_DELAY, type Task, type TaskUpdate } from '../../../model/task.ts';
import { isFinalStatus, namedStatus, ranksLower } from '../../../model/task-status.ts';
import { type NoMove, PREVIOUS } from '../../../model/workflow.ts';
import {
  afterFieldRelease,
  afterObservation,
  afterRelease,
  afterUpdate,
  type FieldWish,
  fieldsOfPeople,
  fieldsToWrite,
  isContested,
  type SyncField,
  type WrittenStatus,
} from '../../../model/written-task.ts';
import {
  blankEntity,
  type EntityRow,
  findEntities,
  findEntity,
  linkedItems,
  saveEntity,
} from '../../../store/changes/entities.ts';
import { dropDifference, findChange, type OutboxRow } from '../../../store/changes/outbox-rows.ts';
import { findItems, newestProviderTime, readFields } from '../../../store/items/items.ts';
import { forgetMeta, readMeta, writeMeta } from '../../../store/meta.ts';
import { noteContest, tasksByIds } from '../../../store/tasks/stored-tasks.ts';
import { json, type Scope } from '../../../store/workspace-scope.ts';
import type { EvaluationContext } from '../context.ts';
import { enqueueChange } from '../enqueue.ts';
import { linkedItemsOf } from './linked-items.ts';
import {
  isMerged,
  type JudgedItem,
  olderText,
  type Target,
  type TaskState,
  transitionTo,
  type Wanted,
  wantedStatus,
} from './target.ts';
import type { NotCounted, Workflow } from './workflow-rules.ts';

/** The decision about a task, with the facts that led to it. */
export type TaskEvaluation = NonNullable<Awaited<ReturnType<typeof decideTask>>>;

/** A decision that counts in the metrics: a new change by a rule, or why the status stays. */
export type CountedDecision = { readonly rule: string } | { readonly stays: NoMove };

/**
 * Evaluates the rules for the status of a task and the fields that follow its work item, and enqueues the change that they
 * want. Returns undefined if the rules for the status want nothing, or the same as before.
 */
export async function evaluateTaskUpdate(
  context: EvaluationContext,
  query: Scope,
  taskId: string,
): Promise<CountedDecision | undefined> {
  const name = entity.taskUpdate(taskId);
  // The answer of a request in flight causes another evaluation.
  if ((await findChange(query, name))?.state === 'sending') return undefined;
  const facts = await loadTask(query, context.rules.workflow, taskId, context.now);
  if (facts === undefined) {
    await dropDifference(query, name);
    return undefined;
  }
  const { row } = facts;
  const wanted = await wantedUpdate(context, query, facts);
  if (wanted === undefined) return undefined;
  const { known, update, evaluation, contestedAt } = wanted;
  if (contestedAt !== undefined) await noteContest(query, contestedAt, context.now);
  if (update === undefined) {
    await dropDifference(query, name);
    const isNew = row.known === null && known === '{}';
    const desired = confirmationOf(facts);
    if (!isNew && (row.known !== known || row.desired !== desired)) await saveEntity(query, { ...row, known, desired });
    return reasonToStay(evaluation);
  }
  const decider = evaluation?.target?.decider ?? evaluation?.items[0]?.linked;
  const desired = JSON.stringify(update);
  await saveEntity(query, { ...row, known, desired, item_key: decider?.item.key ?? null });
  const cause = { since: context.now, waiting: [] };
  await enqueueChange({ ...context, query, cause, item: decider?.item }, 'task_update', name, {
    renewed: row.desired !== desired,
    effect: 'status',
  });
  return update.rule !== undefined && row.desired !== desired ? { rule: update.rule } : undefined;
}

/**
 * Returns an update that changes nothing if an attempt of unknown outcome may have moved the task: the read before the update shows
 * the outcome. Otherwise null.
 */
function confirmationOf({ change, task: { status } }: TaskFacts): string | null {
  const mayHaveMoved = attemptsOf(change).some((update) => update.status !== undefined && update.status !== status);
  return mayHaveMoved ? JSON.stringify({ from: status } satisfies TaskUpdate) : null;
}

function reasonToStay(evaluation: TaskEvaluation | undefined): CountedDecision | undefined {
  const transition = evaluation?.transition;
  return transition?.outcome === 'none' && transition.why !== 'same' ? { stays: transition.why } : undefined;
}

/** Returns the update of a task that its rules want. Undefined while an item is unverified after a restore. */
async function wantedUpdate(context: EvaluationContext, query: Scope, facts: TaskFacts) {
  const { workflow, triage } = context.rules;
  const { row, change, task, now } = facts;
  const stored = json<WrittenStatus>(row.known) ?? {};
  const written = workflow.isOn ? facts.written : stored;
  const evaluation = workflow.isOn ? await decideTask(query, workflow, facts) : undefined;
  if (workflow.isOn && evaluation === undefined) return undefined;
  const before = json<TaskUpdate>(row.desired);
  const ofRules = evaluation && updateOf(workflow, evaluation, now, before);
  const hasFields = triage.syncs && !areFieldsPostponed(change, before, ofRules);
  const wish = hasFields ? await wantedFields(query, context, task.taskId, written) : undefined;
  /** The facts that worksync remembers from now on. */
  const known = JSON.stringify(evaluation ? rememberedOf(workflow, written, evaluation) : written);
  const update = mergedUpdate(task, written, ofRules, wish);
  // When others reverted the status that worksync had just written. Undefined unless this evaluation is the first to see it.
  const lastContest = written.contested?.at(-1);
  const contestedAt = lastContest === stored.contested?.at(-1) ? undefined : lastContest;
  return { known, update, evaluation, contestedAt };
}

/**
 * Whether the fields wait because the same status failed without them. With the fields it would be another update, which would be
 * sent and refused again without end.
 */
function areFieldsPostponed(
  change: OutboxRow | undefined,
  before: TaskUpdate | undefined,
  ofRules: TaskUpdate | undefined,
): boolean {
  const hasFailed = change !== undefined && change.error !== null && change.guard !== 'held';
  const isAlone = before?.status !== undefined && before.fields === undefined && before.itemLabels === undefined;
  return hasFailed && isAlone && before.status === ofRules?.status;
}

/** Returns the update that a decision leads to; undefined if the task stays as it is. */
function updateOf(
  { statuses }: Workflow,
  { transition, target, state, addLabels, removeLabels }: TaskEvaluation,
  now: number,
  before: TaskUpdate | undefined,
): TaskUpdate | undefined {
  const status = transition?.outcome === 'move' ? transition.status : undefined;
  if (status === undefined && addLabels.length + removeLabels.length === 0) return undefined;
  const isFinal = status !== undefined && isFinalStatus(statuses, status);
  return {
    ...(status !== undefined && { status }),
    ...(addLabels.length > 0 && { addLabels }),
    ...(removeLabels.length > 0 && { removeLabels }),
    from: state.status,
    ...(status !== undefined && target && { rule: target.contribution.rule }),
    ...(isFinal &&
      target && { notBefore: earliestOf(target.at, now, before?.status === status ? before.notBefore : undefined) }),
  };
}

/**
 * Returns the earliest time of a final status. A cause in the future comes from a clock that is ahead of ours: then the time does not
 * move with each evaluation.
 */
function earliestOf(cause: number, now: number, before: number | undefined): number {
  if (cause <= now) return cause + FINAL_DELAY;
  return before !== undefined && before <= now + FINAL_DELAY ? before : now + FINAL_DELAY;
}

/** Returns one update for the status and the fields. A label that the rules for the status set is theirs. */
function mergedUpdate(
  { status: from }: Task,
  { labels = [] }: WrittenStatus,
  update: TaskUpdate | undefined,
  wish: FieldWish | undefined,
): TaskUpdate | undefined {
  const { itemLabels, ...fields } = wish ?? {};
  const { addLabels = [], removeLabels = [] } = update ?? {};
  const ofRules = new Set([...labels.map((label) => label.slice(1)), ...addLabels, ...removeLabels]);
  const isFree = (label: string) => !ofRules.has(label);
  const [add, remove] = [itemLabels?.add.filter(isFree) ?? [], itemLabels?.remove.filter(isFree) ?? []];
  const free = itemLabels && add.length + remove.length > 0 ? { itemLabels: { ...itemLabels, add, remove } } : {};
  if (fields.fields === undefined && free.itemLabels === undefined) return update;
  return { ...(update ?? { from }), ...fields, ...free };
}

/** Returns the fields to write because of the work item for which a task was created. Undefined if there are none. */
async function wantedFields(
  query: Scope,
  { rules: { triage }, sources }: EvaluationContext,
  taskId: string,
  written: WrittenStatus,
): Promise<FieldWish | undefined> {
  const keys = await linkedItems(query, [taskId]);
  const creations = await findEntities(query, keys.map(entity.task));
  const created = creations.filter(({ remote_id, known }) => remote_id === taskId && known !== null);
  const createdFor = created.flatMap(({ item_key }) => item_key ?? []);
  for (const row of await findItems(query, createdFor)) {
    const { item } = readFields(row);
    if (row.gone === 1 || row.unverified === 1 || !sources.has(row.connection)) continue;
    if (item.kind !== 'work_item' || movedToOf(item) !== undefined) continue;
    const creation = created.find(({ item_key }) => item_key === row.key);
    const fields = triage.fieldsOf(item, row.connection);
    const [sent, shown] = [json(creation?.desired ?? null) ?? {}, json(creation?.known ?? null) ?? {}];
    return fields && fieldsToWrite(fields, written, { sent, shown });
  }
  return undefined;
}

/** Lets a field of a task follow its work item again. Returns whether a person had edited it. */
export async function releaseTaskField(query: Scope, taskId: string, field: SyncField): Promise<boolean> {
  const row = await updateRow(query, taskId);
  const written = json<WrittenStatus>(row.known) ?? {};
  await saveEntity(query, { ...row, known: JSON.stringify(afterFieldRelease(written, field)) });
  return fieldsOfPeople(written).includes(field);
}

/**
 * Lets the rules decide about a status that a person set. The next evaluation of the task takes it into account. Returns
 * whether a person set it, or another automation moves the task too.
 */
export async function releaseTaskStatus(
  query: Scope,
  workflow: Workflow,
  taskId: string,
  now: number,
): Promise<boolean> {
  const facts = await loadTask(query, workflow, taskId, now);
  if (facts === undefined) return false;
  const { row, task, written } = facts;
  await saveEntity(query, { ...row, known: JSON.stringify(afterRelease(written, task.status)) });
  const isOfPerson = written.status !== task.status && (task.statusBefore ?? 0) > 0;
  return isOfPerson || isContested(written, now);
}

async function updateRow(query: Scope, taskId: string): Promise<EntityRow> {
  const name = entity.taskUpdate(taskId);
  return (await findEntity(query, name)) ?? blankEntity(name, 'task_update', { task_id: taskId });
}

/** The stored facts about a task and its updates. */
export type TaskFacts = NonNullable<Awaited<ReturnType<typeof loadTask>>>;

/** Loads the facts by which the rules decide about a task. Undefined if the task is not cached. */
export async function loadTask(query: Scope, workflow: Workflow, taskId: string, now: number) {
  const change = await findChange(query, entity.taskUpdate(taskId));
  const row = await updateRow(query, taskId);
  const [cached] = await tasksByIds(query, [taskId]);
  if (cached === undefined) return undefined;
  const task = withNamedStatus(cached, workflow);
  return { task, row, change, written: writtenStatus(row, task, change, workflow, now), now };
}

/** Returns a cached task with the names of its statuses. */
function withNamedStatus(task: Task, { statuses }: Workflow): Task {
  const { status, formerStatus } = task;
  return {
    ...task,
    status: namedStatus(statuses, status),
    ...(formerStatus !== undefined && { formerStatus: namedStatus(statuses, formerStatus) }),
  };
}

/** Returns the sent updates of a task whose outcome is unknown, the oldest first. */
function attemptsOf(change: OutboxRow | undefined): readonly TaskUpdate[] {
  // A part of `PreparedRequest`.
  const last = json<{ readonly body: TaskUpdate; readonly attempted?: readonly TaskUpdate[] }>(change?.sent ?? null);
  return last === undefined ? [] : [...(last.attempted ?? []), last.body];
}

/**
 * Returns the facts about the status that worksync wrote, compared with the present status. If an attempt of unknown outcome
 * wanted the present status, that attempt has set it.
 */
function writtenStatus(
  { known }: EntityRow,
  task: Task,
  change: OutboxRow | undefined,
  { statuses }: Workflow,
  now: number,
): WrittenStatus {
  const { status, formerStatus = '', statusBefore: setBefore = 0 } = task;
  const isReopened = isFinalStatus(statuses, formerStatus) && !isFinalStatus(statuses, status);
  const stored = json<WrittenStatus>(known) ?? {};
  const arrived = attemptsOf(change).findLast((update) => update.status === status);
  const written = arrived ? afterUpdate(stored, arrived, now) : stored;
  const isLower = ranksLower(statuses, status, written.status ?? status);
  return afterObservation(written, { status, setBefore, isReopened, isLower }, now);
}

/** Decides what the rules want for a task. Returns undefined while an item is unverified after a restore. */
export async function decideTask(query: Scope, workflow: Workflow, facts: TaskFacts) {
  const { task, written, row, change, now } = facts;
  const linked = await linkedItemsOf(query, workflow, task.taskId);
  if (linked.isUnverified) return undefined;
  const { since } = workflow;
  const { changedAt, switchedOnAt } =
    since === undefined ? await rulesInForceSince(query, workflow, now) : { changedAt: since, switchedOnAt: since };
  const items = linked.items.map((each): JudgedItem => {
    const judgement = workflow.judge(each, task.kind);
    // Work from before the rules neither counts nor delays.
    if (!judgement.counts || each.phase.at >= switchedOnAt) return { linked: each, judgement };
    const { isTrusted } = judgement;
    const detail = olderText(each.phase.at, switchedOnAt);
    return { linked: each, judgement: { counts: false, isTrusted, why: 'older-than-rule', detail } };
  });
  const state = stateOf(facts);
  const wanted = wantedStatus(items, written.epoch ?? 0);
  const target = hasWorkElsewhere(items) ? targetOfTheRest(wanted) : targetOf(wanted, state, workflow, now);
  const counted = items.filter(({ judgement }) => judgement.counts);
  const phases = counted.map((each) => each.linked.phase);
  const waiting = change && json<TaskUpdate>(row.desired)?.status;
  const transition =
    target && transitionTo(target, state, { phases, waiting, inForceSince: changedAt, statuses: workflow.statuses });
  return { task, items, wanted, target, state, transition, ...labelsOf(items, written, changedAt) };
}

export function stateOf({ task: { status, statusBefore = 0 }, written, now }: TaskFacts): TaskState {
  return {
    status,
    isOurs: written.status === status,
    setBefore: statusBefore,
    previous: written.previous,
    isContested: isContested(written, now),
  };
}

/** Whether the work of an item goes on where worksync does not follow it: its connection is not configured any more, or it was moved. */
function hasWorkElsewhere(items: readonly JudgedItem[]): boolean {
  return items.some(({ judgement }) => !judgement.counts && ['no-connection', 'moved'].includes(judgement.why));
}

/** Returns the target of the other items. The status that work elsewhere led to stays. */
function targetOfTheRest(wanted: Wanted): Target | undefined {
  return wanted.outcome === 'target' ? { ...wanted.target, mayLeaveEnd: false } : undefined;
}

function targetOf(wanted: Wanted, state: TaskState, workflow: Workflow, now: number): Target | undefined {
  return wanted.outcome === 'target' ? wanted.target : abandonedTarget(wanted, state, workflow, now);
}

/** Stands for a rule if the work that moved a task no longer names it. */
const UNLINKED = 'unlinked work';

/** Returns the target of a task that worksync moved and whose work is no longer linked to it. */
function abandonedTarget(
  { outcome }: Wanted,
  { isOurs, previous }: TaskState,
  { onAbandoned }: Workflow,
  now: number,
): Target | undefined {
  if (outcome !== 'nothing' || !isOurs || previous === undefined || onAbandoned === undefined) return undefined;
  return { status: PREVIOUS, contribution: { ...onAbandoned, rule: UNLINKED }, decider: undefined, at: now };
}

/** Name of the stored fact: the id of the rules, when they were changed last, and when they were switched on. */
const IN_FORCE = 'workflow.in_force';

/**
 * Returns when the rules were changed last and switched on, if `since` is not configured; epoch milliseconds. Work from before
 * `changedAt` starts no move, work from before `switchedOnAt` does not count. New rules are stored with the present time, changed ones with that of the newest known state: what happened since then, as while the process was replaced by one of
 * another version, was never evaluated by the former rules.
 */
export async function rulesInForceSince(query: Scope, { id }: Workflow, now: number) {
  const [storedId, changedAt, switchedOnAt = changedAt] = ((await readMeta(query, IN_FORCE)) ?? '').split(' ');
  const stored = storedId === id ? { changedAt: Number(changedAt), switchedOnAt: Number(switchedOnAt) } : undefined;
  // Providers date work to the second.
  const start = Math.floor(now / 1_000) * 1_000;
  const present = stored ?? (await startOf(query, start, switchedOnAt));
  if (stored === undefined) await writeMeta(query, IN_FORCE, `${id} ${present.changedAt} ${present.switchedOnAt}`);
  return present;
}

/** @param switchedOnAt absent: the rules are new */
async function startOf(query: Scope, start: number, switchedOnAt: string | undefined) {
  if (switchedOnAt === undefined) return { changedAt: start, switchedOnAt: start };
  const newest = await newestProviderTime(query);
  return { changedAt: newest === undefined ? start : Math.min(start, newest + 1), switchedOnAt: Number(switchedOnAt) };
}

/** Forgets since when rules are in force, because there are none: rules that are switched on again move nothing old. */
export async function forgetRulesInForce(query: Scope): Promise<void> {
  await forgetMeta(query, IN_FORCE);
}

/** Labels that a rule wants and that worksync has not set yet. A label that a person took away is not set again. */
function labelsOf(items: readonly JudgedItem[], { labels = [] }: WrittenStatus, inForceSince: number) {
  const applied = new Set(labels);
  const wanted = wantedLabels(items, inForceSince);
  return {
    addLabels: wanted.add.filter((label) => !applied.has(`+${label}`)),
    removeLabels: wanted.remove.filter((label) => !applied.has(`-${label}`)),
  };
}

function wantedLabels(items: readonly JudgedItem[], inForceSince: number) {
  const contributions = items.flatMap(({ linked, judgement }) =>
    judgement.counts && linked.phase.at >= inForceSince ? [judgement.contribution] : [],
  );
  const add = [...new Set(contributions.flatMap(({ addLabels }) => addLabels))];
  const remove = [...new Set(contributions.flatMap(({ removeLabels }) => removeLabels))];
  return { add, remove: remove.filter((label) => !add.includes(label)) };
}

/**
 * Returns what worksync remembers after an evaluation. A status that people set as the rules want it counts as ours. A
 * label whose condition is no longer true is set again when it becomes true.
 */
function rememberedOf(workflow: Workflow, before: WrittenStatus, evaluation: TaskEvaluation): WrittenStatus {
  const { task, items, transition } = evaluation;
  const { unfinished: _, ...written } = before;
  const isAdopted = transition?.outcome === 'none' && transition.why === 'same';
  const { add, remove } = wantedLabels(items, 0);
  const wanted = new Set([...add.map((label) => `+${label}`), ...remove.map((label) => `-${label}`)]);
  const labels = written.labels?.filter((label) => wanted.has(label));
  const unfinished = unfinishedReason(workflow, evaluation);
  return {
    ...written,
    ...(isAdopted && { status: task.status }),
    ...(labels && { labels }),
    ...(unfinished && { unfinished }),
  };
}

/**
 * Returns why the merged work of a task has not finished it. Undefined if it is finished, if nothing is merged, or if
 * open work is still linked to it.
 */
function unfinishedReason(
  { statuses }: Workflow,
  { task, items, wanted, target, transition }: TaskEvaluation,
): NoMove | NotCounted | 'older-than-epoch' | undefined {
  if (isFinalStatus(statuses, task.status)) return undefined;
  if (wanted.outcome === 'older-than-epoch') return isMerged(wanted.item.phase) ? wanted.outcome : undefined;
  if (wanted.outcome === 'done-not-finished') {
    const isWork = ({ linked }: JudgedItem) => isMerged(linked.phase) && linked.strength !== 'mentioning';
    const judgement = items.find((item) => isWork(item) && !item.judgement.counts)?.judgement;
    return judgement?.counts === false ? judgement.why : undefined;
  }
  const isEnd = target?.contribution.isFinal === true && target.decider !== undefined && isMerged(target.decider.phase);
  return isEnd && transition?.outcome === 'none' ? transition.why : undefined;
}
