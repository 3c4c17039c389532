// Design: src/decisions/workflow.md

import type { Item, PullRequest, Review, WorkItem } from '../../../model/item.ts';
import { isFinishedPhase, type PhaseName, type PullRequestPhase, type WorkItemPhase } from '../../../model/workflow.ts';
import type { StoredItem } from '../../../store/items.ts';

/** The phase of an item, and when it began: after `after` and not after `at`. Equal if the provider reports the time. */
export interface Phase {
  readonly name: PhaseName;
  /** Epoch milliseconds. */
  readonly after: number;
  readonly at: number;
  /** When the item was reopened, if it was finished before and is open again. Epoch milliseconds. */
  readonly reopenedAt?: number;
}

/** The phase of an item when it was last evaluated, as stored with the item. Epoch milliseconds. */
export interface StoredPhase {
  readonly name: PhaseName;
  readonly after: number;
  readonly at: number;
  /** The provider's time of the state that was evaluated last. */
  readonly seen: number;
}

export interface PhaseContext {
  /** When the revert of a merged pull request was merged, epoch milliseconds. Absent: it was not reverted. */
  readonly revertedAt?: number;
  /** Whether the label or the title of a closed pull request says that it was merged. */
  readonly hasLanded: (item: PullRequest) => boolean;
  /** Whether a review counts: its author may decide. */
  readonly hasSay: (review: Review) => boolean;
  readonly stored?: StoredPhase;
}

/** Returns the present phase of an item, from facts that the provider reports. */
export function phaseOf(stored: StoredItem, context: PhaseContext): Phase {
  const { item } = stored;
  const name = item.kind === 'pull_request' ? pullRequestPhase(item, context) : workItemPhase(item);
  const exact = exactTime(stored, name, context);
  const began = exact === undefined ? observedTime(item, name, context.stored) : { after: exact, at: exact };
  const reopenedAt = item.lastClosedAt === undefined || isFinishedPhase(name) ? undefined : timeOf(item.openSince);
  return { name, ...began, ...(reopenedAt !== undefined && { reopenedAt }) };
}

/** Returns the phase in the form that is stored with the item. */
export function storedPhaseOf(item: Item, { name, after, at }: Phase): StoredPhase {
  return { name, after, at, seen: item.updatedAt };
}

function pullRequestPhase(item: PullRequest, context: PhaseContext): PullRequestPhase {
  const isMerged = item.mergedAt != null || item.state === 'merged';
  if (isMerged) return context.revertedAt === undefined ? 'merged' : 'reverted';
  const isOpen = item.state === undefined || item.state === 'open';
  if (!isOpen) return context.hasLanded(item) ? 'merged' : 'closed';
  if (item.draft) return 'draft';
  const decision = decisionOf(item, context.hasSay)?.state;
  if (decision === 'changes') return 'changes';
  if (item.isQueued) return 'queued';
  if (decision === 'approved') return 'approved';
  const isReviewed = Object.values(item.reviews ?? {}).some(({ state }) => state !== 'dismissed');
  return isReviewed || (item.reviewers ?? []).length > 0 ? 'review' : 'open';
}

function workItemPhase({ state, isDropped }: WorkItem): WorkItemPhase {
  if (state === 'done') return isDropped ? 'dropped' : 'completed';
  return state === 'in_progress' ? 'started' : 'open';
}

/** The decision of the reviewers, and when the review that decides was submitted. */
interface Decision {
  readonly state: 'approved' | 'changes';
  /** RFC 3339; absent if the vendor does not report it. */
  readonly at?: string | undefined;
}

/**
 * Returns the decision of the latest decisive review of each reviewer. Comments decide nothing, and a dismissed review
 * counts no more. The approval of a reviewer who is asked again does not count.
 */
function decisionOf(item: PullRequest, hasSay: (review: Review) => boolean): Decision | undefined {
  const { reviews, reviewDecision, reviewers = [] } = item;
  if (reviews === undefined)
    return reviewDecision === undefined || reviewDecision.state === 'none'
      ? undefined
      : { state: reviewDecision.state, at: reviewDecision.at };
  const latest = new Map<string, Review>();
  for (const [, review] of Object.entries(reviews).toSorted(bySubmission))
    if (review.state !== 'commented' && hasSay(review)) latest.set(review.reviewer, review);
  const decisive = [...latest.values()];
  const changes = decisive.findLast(({ state }) => state === 'changes');
  if (changes) return { state: 'changes', at: changes.at };
  const isCounted = ({ state, reviewer }: Review) => state === 'approved' && !reviewers.includes(reviewer);
  const approval = decisive.find(isCounted);
  return approval && { state: 'approved', at: approval.at };
}

/** Orders reviews by their time, and those of the same time by their id, so that the order of deliveries does not matter. */
function bySubmission([leftId, left]: [string, Review], [rightId, right]: [string, Review]): number {
  return Date.parse(left.at) - Date.parse(right.at) || (leftId < rightId ? -1 : 1);
}

/** Returns when a phase began, if the provider reports that; epoch milliseconds. */
function exactTime({ item, older }: StoredItem, name: PhaseName, context: PhaseContext): number | undefined {
  switch (name) {
    case 'reverted':
      return context.revertedAt;
    case 'merged':
      return timeOf(item.kind === 'pull_request' ? item.mergedAt : undefined) ?? closedTime(item, older);
    case 'closed':
    case 'completed':
    case 'dropped':
      return closedTime(item, older);
    case 'approved':
    case 'changes':
      return item.kind === 'pull_request' ? timeOf(decisionOf(item, context.hasSay)?.at) : undefined;
    default:
      return undefined;
  }
}

function closedTime(item: Item, older: StoredItem['older']): number {
  return timeOf(item.closedAt) ?? older['state']?.updatedAt ?? item.updatedAt;
}

/** Returns when a phase began as far as it was observed. The event that reports a change of the phase has its exact time. */
function observedTime(item: Item, name: PhaseName, stored: StoredPhase | undefined): Pick<Phase, 'after' | 'at'> {
  const closedAt = timeOf(item.lastClosedAt) ?? Number.NEGATIVE_INFINITY;
  // A late delivery may show that the item was finished meanwhile.
  if (stored?.name === name && stored.at >= closedAt) return { after: stored.after, at: stored.at };
  const after = stored?.name === name ? closedAt : (stored?.seen ?? timeOf(item.createdAt) ?? item.updatedAt);
  const changedAt = item.kind === 'pull_request' ? timeOf(item.phaseChangedAt) : undefined;
  const isExact = changedAt !== undefined && changedAt >= after && changedAt <= item.updatedAt;
  return isExact ? { after: changedAt, at: changedAt } : { after, at: Math.max(after, item.updatedAt) };
}

function timeOf(text: string | null | undefined): number | undefined {
  const time = text == null ? Number.NaN : Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}
