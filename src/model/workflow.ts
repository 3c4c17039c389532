/** The words in which rules describe the state of work. */

/** The phases of a pull request. */
export const PULL_REQUEST_PHASES = [
  'open',
  'review',
  'approved',
  'queued',
  'changes',
  'draft',
  'closed',
  'merged',
  'reverted',
] as const;
export type PullRequestPhase = (typeof PULL_REQUEST_PHASES)[number];

export const WORK_ITEM_PHASES = ['open', 'started', 'completed', 'dropped'] as const;
export type WorkItemPhase = (typeof WORK_ITEM_PHASES)[number];

export type PhaseName = PullRequestPhase | WorkItemPhase;

const FINISHED: ReadonlySet<PhaseName> = new Set<PhaseName>(['closed', 'merged', 'reverted', 'completed', 'dropped']);

export function isFinishedPhase(name: PhaseName): boolean {
  return FINISHED.has(name);
}

/** How strongly an item is linked to a task, from strong to weak. */
export const STRENGTHS = ['closing', 'carrying', 'mentioning'] as const;
export type Strength = (typeof STRENGTHS)[number];

/** The status of a task before the first move by worksync. */
export const PREVIOUS = 'previous';

/** Why a task keeps its status although the rules want another one, or the same. */
export const NO_MOVES = [
  'same',
  'older-than-rule',
  'breaker',
  'unknown-status',
  'held-by-person',
  'from',
  'backwards',
  'no-previous',
] as const;
export type NoMove = (typeof NO_MOVES)[number];

/** Returns a reason with its code, by which `config/workflow.md` explains it. */
export function reasonWords(reason: {
  readonly code: string;
  readonly text: string;
  readonly detail: string | null;
}): string {
  const { code, text, detail } = reason;
  return `${text}${detail === null ? '' : ` (${detail})`} [${code}]`;
}
