// Design: src/decisions/workflow.md

import { entity } from '../../../model/change.ts';
import { describeUpdate, type Task, type TaskUpdate, taskName } from '../../../model/task.ts';
import { type NoMove, PREVIOUS } from '../../../model/workflow.ts';
import { fieldsOfPeople, type WrittenStatus } from '../../../model/written-task.ts';
import type { EntityRow } from '../../../store/changes/entities.ts';
import type { OutboxRow } from '../../../store/changes/outbox-rows.ts';
import { cachedStatus } from '../../../store/tasks/stored-tasks.ts';
import { beginDryRun } from '../../../store/unit-of-work/unit-of-work.ts';
import { taskUpdatesOffUntil } from '../../../store/workspace/server-capabilities.ts';
import { json, type Scope } from '../../../store/workspace-scope.ts';
import type { Rules } from '../context.ts';
import { decideTask, loadTask, stateOf, type TaskEvaluation, type TaskFacts } from './evaluate-task.ts';
import { type JudgedItem, surveyOf } from './target.ts';
import type { NotCounted } from './workflow-rules.ts';

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

interface ReasonWords {
  readonly text: string;
  /** BUG-12 stands for the task. */
  readonly remedy?: string;
}

const APPROVE = 'run "worksync held release update:BUG-12"';
const RELEASE = 'run "worksync links release-status BUG-12"';
const TRUST = 'list the author under "trust.people"';

/** The words of the codes. `config/workflow.md` explains all codes. */
export const REASONS: Readonly<Record<ReasonCode, ReasonWords>> = {
  same: { text: 'the task has this status' },
  'older-than-rule': { text: 'the work changed before the rules were in force', remedy: 'set "since"' },
  breaker: {
    text: 'the task was moved too often today, by another automation or by worksync, so worksync leaves it for a day',
    remedy: `switch the other automation off, then ${RELEASE}`,
  },
  'unknown-status': {
    text: 'the rules do not know the present status',
    remedy: 'name it in "workspace.statuses", or in "from"',
  },
  'held-by-person': {
    text: 'a person set the present status, and no linked item has changed its state since',
    remedy: RELEASE,
  },
  from: {
    text: 'the rule does not leave the present status',
    remedy: 'if such work may leave it, name the status in "from" of a rule of your own',
  },
  backwards: {
    text: 'a person set the present status, and it ranks higher',
    remedy: `set "back: true", or ${RELEASE}`,
  },
  'no-previous': { text: 'worksync did not set the present status, so it restores no earlier one' },
  'mention-only': {
    text: 'the text only mentions the task',
    remedy: 'name the task in branch, title or a line "Task: BUG-12"',
  },
  'not-closing': {
    text: 'no closing word names the task, or it is not the only task of the item',
    remedy: 'write "Fixes BUG-12"; in a rule of your own, "link: carrying"',
  },
  base: { text: 'merged into another branch', remedy: 'add a rule with this "base"' },
  moved: { text: 'the work goes on in another project' },
  untrusted: { text: 'its author is not trusted', remedy: TRUST },
  'bot-text': {
    text: 'by a bot, whose texts do not count',
    remedy: 'set "bots: count", or list the bot under "trust.people"',
  },
  'too-many-tasks': { text: 'the item names too many tasks', remedy: 'write "Fixes BUG-12"' },
  'late-name': { text: 'its author is not trusted, and may have named the task only after the merge', remedy: TRUST },
  'no-connection': { text: 'its connection is not configured', remedy: 'configure it, or unlink the item' },
  'no-rule': { text: 'no rule fits', remedy: 'add a rule' },
  'nothing-linked': { text: 'no linked item asks for a status', remedy: 'name the task in the pull request' },
  'older-than-epoch': {
    text: 'it was finished before the task was reopened, or before its work was reverted',
    remedy: 'the next pull request moves the task',
  },
  unverified: {
    text: 'a linked item is not confirmed since a restore',
    remedy: 'wait for its next delivery or poll',
  },
  guard: { text: 'the change is held: it needs approval', remedy: APPROVE },
  'no-task-route': { text: 'the workspace accepts no updates of tasks', remedy: 'run "worksync check"' },
  refused: { text: 'the workspace refused the change', remedy: `do what its answer says, then ${APPROVE}` },
  finishes: { text: 'finishes the task' },
  'waits-for': { text: 'finishes the task, but other open work delays the end' },
  delays: { text: 'delays the end of the task' },
  'follow-up': { text: 'does not count beside finished work' },
  reversal: { text: 'reopens the task' },
  progress: { text: 'asks for a status' },
  'given-up': { text: 'returns the task to its earlier status, if nothing else counts' },
  labels: { text: 'asks for labels only' },
};

/** The status of a task as the rules see it. Plain JSON; times are epoch milliseconds. */
export type ExplainedTask = NonNullable<Awaited<ReturnType<typeof explainTask>>>;

/** Items of one answer. */
const MOST_ITEMS = 50;

/**
 * Returns why a task has its status, and its fields that people own. Undefined if no rules update tasks, or the task is not
 * cached. Writes nothing.
 */
export async function explainTask(
  query: Scope,
  taskId: string,
  { workflow, triage }: Pick<Rules, 'workflow' | 'triage'>,
  now: number,
) {
  const { scope } = beginDryRun(query);
  const facts = workflow.isOn || triage.syncs ? await loadTask(scope, workflow, taskId, now) : undefined;
  if (facts === undefined) return undefined;
  const { task, written, row, change } = facts;
  // Undefined while an item is unverified.
  const evaluation = workflow.isOn ? await decideTask(scope, workflow, facts) : undefined;
  const isOff = (await taskUpdatesOffUntil(scope, now)) !== undefined;
  const items = evaluation ? evaluation.items.map((item) => describeItem(item, evaluation, written)) : [];
  return {
    taskId: task.taskId,
    name: taskName(task),
    status: task.status,
    /** When the workspace reported this status last. */
    knownAt: (await cachedStatus(scope, taskId))?.seenAt ?? 0,
    setBy: setBy(facts),
    /** The status before the first move by worksync. */
    previous: written.previous ?? null,
    wanted: describeTarget(evaluation?.target, written),
    /** Why the status stays; null if it is about to change. */
    reason: workflow.isOn ? reasonOf(facts, evaluation, isOff) : null,
    /** Labels that the rules add to the task and remove from it. */
    labels: { add: evaluation?.addLabels ?? [], remove: evaluation?.removeLabels ?? [] },
    change: change ? describeChange(change, row) : null,
    /** Synced fields that a person has edited, until `links release-field`. */
    fieldsOfPeople: fieldsOfPeople(written),
    items: items.slice(0, MOST_ITEMS),
    /** Linked items that are left out. */
    more: Math.max(0, items.length - MOST_ITEMS),
  };
}

/** Returns the author of the status. `since`: the latest time at which it can have been set; null for the creator of the task. */
function setBy(facts: TaskFacts) {
  const { task, written } = facts;
  if (stateOf(facts).isOurs && written.rule !== undefined)
    return { who: 'worksync', rule: written.rule, since: written.moves?.at(-1) || null } as const;
  return { who: task.statusBefore ? 'person' : 'creation', rule: null, since: task.statusBefore || null } as const;
}

function describeTarget(target: TaskEvaluation['target'], { previous = PREVIOUS }: WrittenStatus) {
  if (target === undefined) return null;
  const status = target.status === PREVIOUS ? previous : target.status;
  return { status, rule: target.contribution.rule, item: target.decider?.name ?? null };
}

/** Describes the update of a task that waits in the outbox. */
function describeChange({ state, error, due, not_before }: OutboxRow, { desired }: EntityRow) {
  const update = json<TaskUpdate>(desired);
  const sets = update ? describeUpdate(update) : '';
  const notBefore = Math.max(due, not_before, update?.notBefore ?? 0);
  // `expectedAt`: when it is sent if nothing else arrives; null while the workspace is blocked.
  return { state, sets, error, notBefore, expectedAt: notBefore as number | null };
}

export type Reason = ReturnType<typeof reasonFor>;

/**
 * @param detail the missing condition, or the names of items
 * @param task its key, for commands and examples in the remedy. Absent: that of an item, whose task shows the remedy
 */
function reasonFor(code: ReasonCode, detail?: string, task?: Task) {
  const { text, remedy } = REASONS[code];
  const named =
    task && remedy?.replaceAll('update:BUG-12', entity.taskUpdate(task.taskId)).replaceAll('BUG-12', task.key);
  return { code, text, detail: detail ?? null, remedy: named ?? null };
}

/** Returns why the status stays. Null if it is about to change, which a failed attempt only delays. */
function reasonOf({ task, change }: TaskFacts, evaluation: TaskEvaluation | undefined, isOff: boolean): Reason | null {
  const reason = (code: ReasonCode, detail?: string | null) => reasonFor(code, detail ?? undefined, task);
  if (evaluation === undefined) return reason('unverified');
  const { wanted, target, transition } = evaluation;
  if (transition?.outcome === 'none') return reason(transition.why, transition.detail);
  if (target === undefined) return reason(...reasonWithoutTarget(wanted));
  if (change?.state === 'held') return reason(isRefused(change) ? 'refused' : 'guard', change.error);
  return isOff ? reason('no-task-route') : null;
}

/** Whether a held change was refused by the workspace. The guard, and others who change statuses back, hold changes too. */
function isRefused({ guard, error }: OutboxRow): boolean {
  return guard !== 'held' && !error?.startsWith('workflow_contested');
}

function reasonWithoutTarget(wanted: TaskEvaluation['wanted']): [code: ReasonCode, detail?: string] {
  if (wanted.outcome === 'older-than-epoch') return ['older-than-epoch', wanted.item.name];
  const item = 'item' in wanted ? wanted.item : undefined;
  if (item === undefined || item.judgement.counts) return ['nothing-linked'];
  return [item.judgement.why, item.judgement.detail ?? item.linked.name];
}

/** Describes one linked item, and its part in the status of the task. */
function describeItem(item: JudgedItem, evaluation: TaskEvaluation, written: WrittenStatus) {
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
