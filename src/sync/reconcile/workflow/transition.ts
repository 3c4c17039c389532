// Design: src/decisions/workflow.md

import { isFinalStatus, ranksLower, statusNames, type TaskStatuses } from '../../../model/task-status.ts';
import { type NoMove, PREVIOUS } from '../../../model/workflow.ts';
import type { Phase } from './phase.ts';
import type { Target } from './target.ts';

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
