// Design: src/decisions/workflow.md

import { isFinalStatus, rankOf, ranksLower, statusNames, type TaskStatuses } from '../../../model/task-status.ts';
import { isFinishedPhase, type NoMove, PREVIOUS } from '../../../model/workflow.ts';
import type { Phase } from './phase.ts';
import type { Contribution, Judgement, LinkedItem } from './workflow-rules.ts';

/** A linked item with what the rules make of it. */
export interface JudgedItem {
  readonly linked: LinkedItem;
  readonly judgement: Judgement;
}

/** The status that the rules want for a task, and the item that decides. */
export interface Target {
  /** `previous`: the status before the first move by worksync. */
  readonly status: string;
  readonly contribution: Contribution;
  /** Undefined if the task has no linked item any more. */
  readonly decider: LinkedItem | undefined;
  /** When the decisive fact became true, epoch milliseconds. */
  readonly at: number;
  /** worksync may leave a final status that it set: no finished item is linked any more, or open work delays the end. */
  readonly mayLeaveEnd?: boolean;
  /** The work was reverted or reopened. */
  readonly isReversal?: boolean;
}

export type Wanted =
  | { readonly outcome: 'target'; readonly target: Target }
  /** No item asks for a status, and one of them is done. */
  | { readonly outcome: 'done-not-finished'; readonly item: JudgedItem }
  /** No item asks for a status, and one of them is older than the rules. */
  | { readonly outcome: 'older-than-rule'; readonly item: JudgedItem }
  /** All merged work is older than the epoch. */
  | { readonly outcome: 'older-than-epoch'; readonly item: LinkedItem }
  /** Items count, and they ask for labels only. */
  | { readonly outcome: 'labels-only' }
  /** `item`: one that does not count. */
  | { readonly outcome: 'nothing'; readonly item: JudgedItem | undefined };

interface Counted {
  readonly linked: LinkedItem;
  readonly contribution: Contribution & { readonly status: string };
  readonly isTrusted: boolean;
  readonly hadFinished: boolean;
}

/**
 * Returns the status that the present state of all linked items wants for a task. Pure: no event and no earlier result
 * counts.
 *
 * @param epoch what was finished until then, finishes nothing; epoch milliseconds
 */
export function wantedStatus(items: readonly JudgedItem[], epoch: number): Wanted {
  const survey = surveyOf(items, epoch);
  const { counted, reversal, finished, valid } = survey;
  if (reversal && valid.length === 0 && isNewest(reversal, counted)) return target({ ...reversal, isReversal: true });
  const last = valid.at(-1);
  if (last) return targetOfFinished(last, survey);
  const progress = furthest(counted.filter(({ contribution }) => isProgress(contribution)));
  if (progress) return target({ ...progress, mayLeaveEnd: true });
  const uncounted = items.filter((item) => countedItem(item).length === 0);
  const work = uncounted.filter(({ linked }) => linked.strength !== 'mentioning');
  const done = work.find(({ linked, judgement }) => isDone(linked.phase) && !isPast(judgement));
  if (done) return { outcome: 'done-not-finished', item: done };
  const [old] = finished;
  if (old) return { outcome: 'older-than-epoch', item: old.linked };
  const abandoned = counted
    .filter(({ contribution }) => contribution.status === PREVIOUS)
    .toSorted(byTime)
    .at(-1);
  if (abandoned) return target(targetOf(abandoned));
  const early = work.find(({ judgement }) => !judgement.counts && judgement.why === 'older-than-rule');
  if (early) return { outcome: 'older-than-rule', item: early };
  if (items.some(({ judgement }) => judgement.counts)) return { outcome: 'labels-only' };
  return { outcome: 'nothing', item: work[0] ?? uncounted[0] };
}

type Survey = ReturnType<typeof surveyOf>;

/** Returns the counted items of a task, and the end of its work. @param epoch see `wantedStatus` */
export function surveyOf(items: readonly JudgedItem[], epoch: number) {
  const counted = items.flatMap(countedItem);
  const reversal = latestReversal(counted);
  const spent = Math.max(epoch, reversal?.at ?? 0);
  // Items that finish the task, the last one last; `valid`: those that became so after the epoch.
  const finished = counted.filter(({ contribution }) => contribution.isFinal).toSorted(byTime);
  const valid = finished.filter(({ linked }) => linked.phase.at > spent);
  const last = valid.at(-1);
  const isAwaited = last?.contribution.several === 'all';
  // The open items that delay the end of the task.
  const blockers = isAwaited ? counted.filter((each) => isBlocker(each, last.linked.phase.at)) : [];
  return { counted, reversal, finished, valid, blockers };
}

function countedItem({ linked, judgement }: JudgedItem): Counted[] {
  if (!judgement.counts) return [];
  const { contribution, isTrusted, hadFinished } = judgement;
  const { status } = contribution;
  return status === undefined ? [] : [{ linked, contribution: { ...contribution, status }, isTrusted, hadFinished }];
}

function target(found: Target): Wanted {
  return { outcome: 'target', target: found };
}

function targetOf({ linked, contribution }: Counted): Target {
  return { status: contribution.status, contribution, decider: linked, at: linked.phase.at };
}

/** Neither final, nor a reversal, nor a return to the previous status. */
function isProgress({ status, isFinal }: Contribution): boolean {
  return !isFinal && status !== PREVIOUS;
}

/**
 * Returns the last revert of an item that had finished the task, or the last reopening of a work item. A reopened pull request
 * starts no epoch: the rule for its phase applies.
 */
function latestReversal(counted: readonly Counted[]): Target | undefined {
  const reversals = counted.flatMap((each): Target[] => {
    const { item, phase } = each.linked;
    if (each.contribution.isFinal) return [];
    if (each.hadFinished) return [targetOf(each)];
    const isReopened = item.kind === 'work_item' && phase.reopenedAt !== undefined;
    return isReopened ? [{ ...targetOf(each), at: phase.reopenedAt }] : [];
  });
  return reversals.toSorted((left, right) => left.at - right.at).at(-1);
}

/** Whether no other counted item changed after the reversal. */
function isNewest({ at, decider }: Target, counted: readonly Counted[]): boolean {
  return counted.every(({ linked }) => linked === decider || factTime(linked) <= at);
}

/** Returns when an item entered its phase by the provider's own times: an open pull request counts from its creation. */
function factTime({ item, phase }: LinkedItem): number {
  const isOpenPull = item.kind === 'pull_request' && ['open', 'review', 'draft', 'queued'].includes(phase.name);
  return isOpenPull ? createdTime(item) : phase.at;
}

function createdTime({ createdAt, updatedAt }: LinkedItem['item']): number {
  return createdAt === undefined ? updatedAt : Date.parse(createdAt);
}

function targetOfFinished(last: Counted, { valid, counted, blockers }: Survey): Wanted {
  const end = last.linked.phase.at;
  const open = counted.filter(({ contribution }) => isProgress(contribution));
  const reopening = open.filter(({ linked, contribution }) => contribution.reopen && createdTime(linked.item) > end);
  const followUp = furthest(reopening);
  if (followUp) return target({ ...followUp, isReversal: true });
  if (last.contribution.several === 'any') return target(targetOf(last));
  const blocker = furthest(blockers);
  if (blocker === undefined) return target(targetOf(strongest(valid, end)));
  // The work is at least in progress, because a part of it is merged.
  const isEarly = (blocker.contribution.rank ?? 0) < IN_PROGRESS;
  return target({
    ...blocker,
    ...(isEarly && { status: 'in_progress' }),
    at: Math.max(blocker.at, end),
    mayLeaveEnd: true,
  });
}

/** Whether an open pull request delays the end of the task: it was opened before, carries the task, and is trusted. */
function isBlocker({ linked, contribution, isTrusted }: Counted, end: number): boolean {
  const { item, strength, phase } = linked;
  const isOpen = item.kind === 'pull_request' && isProgress(contribution) && !isFinishedPhase(phase.name);
  return isOpen && isTrusted && strength !== 'mentioning' && createdTime(item) < end;
}

const IN_PROGRESS = rankOf({}, 'in_progress') as number;

/** The precedence of ends at the same time. A final status that the workspace adds comes before all of them. */
const FINAL_ORDER: readonly string[] = ['completed', 'merged', 'cancelled'];

/** Returns the newest of the finished items; of those with the same time the one with the best status. */
function strongest(valid: readonly Counted[], end: number): Counted {
  const newest = valid.filter(({ linked }) => linked.phase.at === end);
  const order = ({ contribution }: Counted) => FINAL_ORDER.indexOf(contribution.status);
  return newest.toSorted((left, right) => order(left) - order(right) || byKey(left, right))[0] as Counted;
}

/** Returns the target of the item that is furthest by rank; of several, the one that got there last. */
function furthest(counted: readonly Counted[]): Target | undefined {
  const rank = ({ contribution }: Counted) => contribution.rank ?? -1;
  const last = counted.toSorted((left, right) => rank(left) - rank(right) || byTime(left, right)).at(-1);
  return last && targetOf(last);
}

function byTime(left: Counted, right: Counted): number {
  return left.linked.phase.at - right.linked.phase.at || byKey(left, right);
}

function byKey(left: Counted, right: Counted): number {
  return left.linked.item.key < right.linked.item.key ? -1 : 1;
}

/** Whether an item does not count because it is older than the rules, or goes on elsewhere. */
function isPast(judgement: Judgement): boolean {
  return !judgement.counts && ['older-than-rule', 'moved'].includes(judgement.why);
}

export function isMerged({ name }: Phase): boolean {
  return name === 'merged';
}

function isDone({ name }: Phase): boolean {
  return name === 'merged' || name === 'completed';
}

/** The known status of a task. */
export interface TaskState {
  /** The name of the status, or the server's word if it has no name. */
  readonly status: string;
  /** worksync wrote this status, and nobody has changed it since. */
  readonly isOurs: boolean;
  /** When somebody else set the status, at the latest; epoch milliseconds. */
  readonly setBefore: number;
  /** The status before the first move by worksync. */
  readonly previous?: string | undefined;
  /** Another automation moves the task too, so worksync leaves it. */
  readonly isContested: boolean;
}

export type Transition =
  | { readonly outcome: 'move'; readonly status: string }
  | { readonly outcome: 'none'; readonly why: NoMove; readonly detail?: string };

export interface TransitionContext {
  readonly statuses: TaskStatuses;
  /** The phases of all items that count. */
  readonly phases: readonly Phase[];
  /** Phases that began earlier start no move, epoch milliseconds. */
  readonly inForceSince: number;
  /** The status of the pending change. Work from before a change of the rules may still lead to it. */
  readonly waiting?: string | undefined;
}

/** Returns the change of the status that a target leads to, or why there is none. Pure. */
export function transitionTo(target: Target, state: TaskState, context: TransitionContext): Transition {
  const { contribution } = target;
  const { statuses } = context;
  const status = target.status === PREVIOUS ? state.previous : target.status;
  if (status === state.status) return none('same');
  if (status === undefined || (target.status === PREVIOUS && !state.isOurs)) return none('no-previous');
  if (target.at < context.inForceSince && status !== context.waiting)
    return none('older-than-rule', olderText(target.at, context.inForceSince));
  if (state.isContested) return none('breaker');
  if (contribution.force) return { outcome: 'move', status };
  if (!statusNames(statuses).includes(state.status) && !contribution.from.has(state.status))
    return none('unknown-status', state.status);
  if (!state.isOurs && !context.phases.some((phase) => isAfter(phase, state.setBefore))) return none('held-by-person');
  if (!maySetAside(target, state, statuses)) return none('from', [...contribution.from].join(', '));
  const isBackwards = !state.isOurs && !contribution.mayGoBack && ranksLower(statuses, status, state.status);
  return isBackwards ? none('backwards', state.status) : { outcome: 'move', status };
}

/** Returns the detail of `older-than-rule`. Epoch milliseconds. */
export function olderText(at: number, inForceSince: number): string {
  return `${new Date(at).toISOString()}; the rules are in force since ${new Date(inForceSince).toISOString()}`;
}

function none(why: NoMove, detail?: string): Transition {
  return { outcome: 'none', why, ...(detail !== undefined && { detail }) };
}

/** Whether a phase certainly began after a person set the status. */
function isAfter({ after, at }: Phase, setBefore: number): boolean {
  return after === at ? at > setBefore : after >= setBefore;
}

/** Whether the rule may leave the present status. worksync leaves its own final status if the facts no longer say so. */
function maySetAside(
  { status, contribution, mayLeaveEnd }: Target,
  { status: present, isOurs }: TaskState,
  statuses: TaskStatuses,
): boolean {
  if (contribution.from.has(present)) return true;
  return isOurs && (status === PREVIOUS || (mayLeaveEnd === true && isFinalStatus(statuses, present)));
}
