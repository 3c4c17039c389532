// Design: src/decisions/workflow.md

import { entity } from '../../../model/change.ts';
import type { ItemKey } from '../../../model/item.ts';
import { fieldsOfPeople, type SyncField } from '../../../model/synced-fields.ts';
import { type Task, type TaskUpdate, taskName } from '../../../model/task.ts';
import { type NoMove, PREVIOUS } from '../../../model/workflow.ts';
import type { WrittenStatus } from '../../../model/written-status.ts';
import { tasksByIds } from '../../../store/cached-tasks.ts';
import { blankEntity, type EntityRow, findEntity, json } from '../../../store/entities.ts';
import { findChange, type OutboxRow } from '../../../store/outbox-rows.ts';
import { taskUpdatesOffUntil } from '../../../store/server-capabilities.ts';
import { beginDryRun } from '../../../store/unit-of-work/unit-of-work.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { Triage } from '../triage.ts';
import { decideTask, stateOf, type TaskEvaluation, withNamedStatus, writtenStatus } from './evaluate-task.ts';
import { type JudgedItem, surveyOf } from './target.ts';
import type { TaskState } from './transition.ts';
import type { NotCounted, Workflow } from './workflow-rules.ts';

/** Why the rules change nothing, or which part an item has in that. */
export type ReasonCode =
  | NoMove
  | NotCounted
  | 'nothing-linked'
  | 'older-than-epoch'
  | 'unverified'
  | 'guard'
  | 'no-task-route'
  | 'refused'
  | 'finishes'
  | 'waits-for'
  | 'delays'
  | 'follow-up'
  | 'reversal'
  | 'progress'
  | 'given-up'
  | 'labels';

/** The texts of the codes. `config/workflow.md` explains all codes. */
export const TEXTS: Readonly<Record<ReasonCode, string>> = {
  same: 'the task has this status',
  'older-than-rule': 'the work changed before the rules were in force; "since" reaches back',
  breaker: 'the task was moved too often today, by another automation or by worksync, so worksync leaves it for a day',
  'unknown-status': 'the rules do not know the present status, and "from" does not name it',
  'held-by-person': 'a person set the present status, and no linked item has changed its state since',
  from: 'the rule does not leave the present status',
  backwards: 'a person set the present status, and it ranks higher',
  'no-previous': 'worksync did not set the present status, so it restores no earlier one',
  'mention-only': 'the text only mentions the task',
  'not-closing': 'no closing word names the task, or it is not the only task of the item',
  base: 'merged into another branch',
  moved: 'the work goes on in another project',
  untrusted: 'by a stranger',
  'bot-text': 'by a bot, whose texts do not count',
  'too-many-tasks': 'the item names too many tasks',
  'late-name': 'a stranger may have named the task only after the merge',
  'no-connection': 'its connection is not configured',
  'no-rule': 'no rule fits',
  'nothing-linked': 'no linked item asks for a status',
  'older-than-epoch': 'it was finished before the task was reopened, or before its work was reverted',
  unverified: 'a linked item is not confirmed since a restore',
  guard: 'the change is held: it needs approval',
  'no-task-route': 'the workspace accepts no updates of tasks',
  refused: 'the workspace refused the change',
  finishes: 'finishes the task',
  'waits-for': 'finishes the task, but other open work delays the end',
  delays: 'delays the end of the task',
  'follow-up': 'does not count beside finished work',
  reversal: 'reopens the task',
  progress: 'asks for a status',
  'given-up': 'returns the task to its earlier status, if nothing else counts',
  labels: 'asks for labels only',
};

export interface Reason {
  readonly code: ReasonCode;
  readonly text: string;
  /** The missing condition, or the names of items. */
  readonly detail: string | null;
}

/** One linked item, and its part in the status of the task. Times are epoch milliseconds. */
export interface ExplainedPart {
  readonly key: ItemKey;
  /** `acme/app#347` */
  readonly name: string;
  readonly connection: string;
  readonly phase: string;
  readonly since: number;
  readonly strength: string;
  readonly place: string;
  readonly counts: boolean;
  /** The rule that fits, and its status; null if there is none. */
  readonly rule: string | null;
  readonly status: string | null;
  readonly reason: Reason;
}

/** The status of a task as the rules see it. Plain JSON; times are epoch milliseconds. */
export interface ExplainedTask {
  readonly taskId: string;
  /** See `taskName`. */
  readonly name: string;
  readonly status: string;
  /**
   * The author of the status: worksync by a rule, a person, or the creator of the task. `since`: the latest time at which the
   * status can have been set; null for the creator.
   */
  readonly setBy: {
    readonly who: 'worksync' | 'person' | 'creation';
    readonly rule: string | null;
    readonly since: number | null;
  };
  /** The status before the first move by worksync. */
  readonly previous: string | null;
  readonly wanted: { readonly status: string; readonly rule: string; readonly item: string | null } | null;
  /** Why the status stays; null if it is about to change. */
  readonly reason: Reason | null;
  /** Labels that the rules add to the task and remove from it. */
  readonly labels: { readonly add: readonly string[]; readonly remove: readonly string[] };
  /** The change that waits in the outbox; `notBefore`: its earliest time, epoch milliseconds. */
  readonly change: {
    readonly state: OutboxRow['state'];
    readonly error: string | null;
    readonly notBefore: number;
  } | null;
  /** Whether `links release-status` lets the rules decide again. */
  readonly isHeld: boolean;
  /** Synced fields that a person has edited, until `links release-field`. */
  readonly fieldsOfPeople: readonly SyncField[];
  readonly items: readonly ExplainedPart[];
  /** Linked items that are left out. */
  readonly more: number;
}

export interface ExplainTaskContext {
  readonly workflow: Workflow;
  readonly triage: Triage;
  /** Wall clock, epoch milliseconds. */
  readonly now: number;
}

/**
 * Returns why a task has its status, and its fields that people own. Undefined if no rules update tasks, or the task is not
 * cached. Writes nothing.
 */
export async function explainTask(
  query: Scope,
  taskId: string,
  { workflow, triage, now }: ExplainTaskContext,
): Promise<ExplainedTask | undefined> {
  const { scope } = beginDryRun(query);
  const [cached] = workflow.isOn || triage.syncs ? await tasksByIds(scope, [taskId]) : [];
  if (cached === undefined) return undefined;
  const name = entity.taskUpdate(taskId);
  const row = (await findEntity(scope, name)) ?? blankEntity(name, 'task_update', { task_id: taskId });
  const task = withNamedStatus(cached, workflow);
  const change = await findChange(scope, name);
  const written = writtenStatus(row, task, { workflow, change, now });
  const evaluation = workflow.isOn ? await decideTask(scope, workflow, { task, written, row, change, now }) : undefined;
  return describeTask(task, written, {
    state: stateOf(task, written, now),
    evaluation,
    isOn: workflow.isOn,
    change,
    row,
    isOff: (await taskUpdatesOffUntil(scope, now)) !== undefined,
  });
}

interface Decision {
  readonly state: TaskState;
  /** Undefined while an item is unverified. */
  readonly evaluation: TaskEvaluation | undefined;
  /** Rules for statuses are configured. */
  readonly isOn: boolean;
  readonly change: OutboxRow | undefined;
  readonly row: EntityRow;
  /** The workspace takes no updates of tasks. */
  readonly isOff: boolean;
}

/** Items of one answer. */
const MOST_ITEMS = 50;

function describeTask(task: Task, written: WrittenStatus, decision: Decision): ExplainedTask {
  const { state, evaluation, change } = decision;
  const isByRule = state.isOurs && written.rule !== undefined;
  const reason = decision.isOn ? reasonOf(decision) : null;
  const items = evaluation ? evaluation.items.map((item) => describeItem(item, evaluation, written)) : [];
  const target = evaluation?.target;
  return {
    taskId: task.taskId,
    name: taskName(task),
    status: task.status,
    setBy: {
      who: isByRule ? 'worksync' : task.statusBefore ? 'person' : 'creation',
      rule: isByRule ? (written.rule ?? null) : null,
      since: (isByRule ? written.moves?.at(-1) : task.statusBefore) || null,
    },
    previous: written.previous ?? null,
    wanted: target
      ? {
          status: target.status === PREVIOUS ? (written.previous ?? PREVIOUS) : target.status,
          rule: target.contribution.rule,
          item: target.decider?.name ?? null,
        }
      : null,
    reason,
    labels: { add: evaluation?.addLabels ?? [], remove: evaluation?.removeLabels ?? [] },
    change: change ? { state: change.state, error: change.error, notBefore: earliestOf(change, decision.row) } : null,
    isHeld: reason?.code === 'held-by-person' || reason?.code === 'breaker' || reason?.code === 'backwards',
    fieldsOfPeople: fieldsOfPeople(written),
    items: items.slice(0, MOST_ITEMS),
    more: Math.max(0, items.length - MOST_ITEMS),
  };
}

function earliestOf({ due, not_before }: OutboxRow, { desired }: EntityRow): number {
  return Math.max(due, not_before, json<TaskUpdate>(desired)?.notBefore ?? 0);
}

function reasonFor(code: ReasonCode, detail?: string): Reason {
  return { code, text: TEXTS[code], detail: detail ?? null };
}

/** Returns why the status stays. */
function reasonOf({ evaluation, change, isOff }: Decision): Reason | null {
  if (evaluation === undefined) return reasonFor('unverified');
  const { wanted, target, transition } = evaluation;
  if (transition?.outcome === 'none') return reasonFor(transition.why, transition.detail);
  if (target === undefined) return reasonWithoutTarget(wanted);
  if (change?.state === 'held') return reasonFor(isRefused(change) ? 'refused' : 'guard', change.error ?? undefined);
  if (isOff) return reasonFor('no-task-route');
  return change?.error ? reasonFor('refused', change.error) : null;
}

/** Whether a held change was refused by the workspace. The guard, and others who change statuses back, hold changes too. */
function isRefused({ guard, error }: OutboxRow): boolean {
  return guard !== 'held' && !error?.startsWith('workflow_contested');
}

function reasonWithoutTarget(wanted: TaskEvaluation['wanted']): Reason {
  if (wanted.outcome === 'older-than-epoch') return reasonFor('older-than-epoch', wanted.item.name);
  const item = 'item' in wanted ? wanted.item : undefined;
  if (item === undefined) return reasonFor('nothing-linked');
  const { linked, judgement } = item;
  return judgement.counts ? reasonFor('nothing-linked') : reasonFor(judgement.why, judgement.detail ?? linked.name);
}

function describeItem(item: JudgedItem, evaluation: TaskEvaluation, written: WrittenStatus): ExplainedPart {
  const { linked, judgement } = item;
  const { phase } = linked;
  return {
    key: linked.item.key,
    name: linked.name,
    connection: linked.connection,
    phase: phase.name,
    since: phase.at,
    strength: linked.strength,
    place: linked.place,
    counts: judgement.counts,
    rule: judgement.counts ? judgement.contribution.rule : null,
    status: judgement.counts ? (judgement.contribution.status ?? null) : null,
    reason: partOf(item, evaluation, written),
  };
}

/** Returns the part of an item in the status of its task. */
function partOf(item: JudgedItem, { items }: TaskEvaluation, { epoch = 0 }: WrittenStatus): Reason {
  const { linked, judgement } = item;
  if (!judgement.counts) return reasonFor(judgement.why, judgement.detail);
  const { status, isFinal } = judgement.contribution;
  const { reversal, valid, blockers } = surveyOf(items, epoch);
  const isIn = (all: typeof valid) => all.some((each) => each.linked === linked);
  const namesOf = (all: typeof valid) => all.map((each) => each.linked.name).join(', ');
  if (status === undefined) return reasonFor('labels');
  if (isFinal && !isIn(valid)) return reasonFor('older-than-epoch');
  if (isFinal) return blockers.length > 0 ? reasonFor('waits-for', namesOf(blockers)) : reasonFor('finishes');
  if (status === PREVIOUS) return reasonFor('given-up');
  if (reversal?.decider === linked) return reasonFor('reversal');
  if (isIn(blockers)) return reasonFor('delays');
  return valid.length > 0 ? reasonFor('follow-up', namesOf(valid)) : reasonFor('progress');
}
