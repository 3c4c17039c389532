// Design: src/decisions/workflow.md

import type { Item, PullRequest, Review, WorkItem } from '../../../model/item.ts';
import { isFinishedPhase, type PhaseName, type PullRequestPhase, type WorkItemPhase } from '../../../model/workflow.ts';
import type { StoredItem } from '../../../store/items/items.ts';

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
  const name = isPull(stored) ? pullRequestPhase(stored, context) : workItemPhase(item as WorkItem);
  const exact = exactTime(stored, name, context);
  const began = exact === undefined ? observedTime(item, name, context.stored) : { after: exact, at: exact };
  const reopenedAt = item.lastClosedAt === undefined || isFinishedPhase(name) ? undefined : timeOf(item.openSince);
  return { name, ...began, ...(reopenedAt !== undefined && { reopenedAt }) };
}

type StoredPull = StoredItem & { readonly item: PullRequest };

function isPull(stored: StoredItem): stored is StoredPull {
  return stored.item.kind === 'pull_request';
}

/** Returns when a pull request was merged, epoch milliseconds; undefined if it was not. Some vendors report no time of the merge. */
export function mergeTime({ item, older }: StoredItem): number | undefined {
  if (item.kind !== 'pull_request' || (item.mergedAt == null && item.state !== 'merged')) return undefined;
  return timeOf(item.mergedAt) ?? closedTime(item, older);
}

function pullRequestPhase(stored: StoredPull, context: PhaseContext): PullRequestPhase {
  const { item } = stored;
  if (mergeTime(stored) !== undefined) return context.revertedAt === undefined ? 'merged' : 'reverted';
  const isOpen = item.state === undefined || item.state === 'open';
  if (!isOpen) return context.hasLanded(item) ? 'merged' : 'closed';
  if (item.draft) return 'draft';
  const decision = decisionOf(stored, context.hasSay)?.state;
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

/**
 * Returns the decision of the latest decisive review of each reviewer, and when the review that decides was submitted, if
 * the vendor reports that. Comments decide nothing, and a dismissed review
 * counts no more. The review of a reviewer who was asked again later does not count either.
 */
function decisionOf({ item, older }: StoredPull, hasSay: PhaseContext['hasSay']): PullRequest['reviewDecision'] {
  const { reviews, reviewDecision, reviewers = [] } = item;
  if (reviews === undefined) return reviewDecision;
  const latest = new Map<string, Review>();
  for (const [, review] of Object.entries(reviews).toSorted(bySubmission))
    if (review.state !== 'commented' && hasSay(review)) latest.set(review.reviewer, review);
  const askedAt = older['reviewers']?.updatedAt ?? item.updatedAt;
  const isAskedAgain = ({ reviewer, at }: Review) => reviewers.includes(reviewer) && Date.parse(at) < askedAt;
  const decisive = [...latest.values()].filter((review) => !isAskedAgain(review));
  const changes = decisive.findLast(({ state }) => state === 'changes');
  if (changes) return { state: 'changes', at: changes.at };
  const approval = decisive.find(({ state }) => state === 'approved');
  return approval && { state: 'approved', at: approval.at };
}

/** Orders reviews by their time, and those of the same time by their id, so that the order of deliveries does not matter. */
function bySubmission([leftId, left]: [string, Review], [rightId, right]: [string, Review]): number {
  return Date.parse(left.at) - Date.parse(right.at) || (leftId < rightId ? -1 : 1);
}

/** Returns when a phase began, if the provider reports that; epoch milliseconds. */
function exactTime(stored: StoredItem, name: PhaseName, context: PhaseContext): number | undefined {
  const { item, older } = stored;
  switch (name) {
    case 'reverted':
      return context.revertedAt;
    case 'merged':
      return mergeTime(stored) ?? closedTime(item, older);
    case 'closed':
    case 'completed':
    case 'dropped':
      return closedTime(item, older);
    case 'approved':
    case 'changes':
      return isPull(stored) ? timeOf(decisionOf(stored, context.hasSay)?.at) : undefined;
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
  const changedAt = timeOf(item.phaseChangedAt);
  const isExact = changedAt !== undefined && changedAt >= after && changedAt <= item.updatedAt;
  if (isExact) return { after: changedAt, at: changedAt };
  // A pull request that was never seen before counts from its creation: later events that report no change of its phase prove none.
  if (stored === undefined && item.kind === 'pull_request' && FROM_CREATION.has(name)) return { after, at: after };
  return { after, at: Math.max(after, item.updatedAt) };
}

/** Phases of a pull request that usually last since its creation. */
const FROM_CREATION: ReadonlySet<PhaseName> = new Set<PhaseName>(['open', 'draft', 'review', 'queued']);

function timeOf(text: string | null | undefined): number | undefined {
  const time = text == null ? Number.NaN : Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}
