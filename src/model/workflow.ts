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

interface WaitingChange {
  readonly state: string;
  readonly sets: string;
  readonly error: string | null;
  readonly expectedAt: number | null;
}

/** Returns what happens next to a task whose update waits. `isTimed`: the time at which it is expected belongs behind the words. */
export function nextWords({ state, error, ...change }: WaitingChange): {
  readonly words: string;
  readonly isTimed: boolean;
} {
  const sets = change.sets === '' ? 'a read of the task' : change.sets;
  if (state === 'held') return { words: `${sets}: held`, isTimed: false };
  if (state === 'sending') return { words: `${sets}: being sent`, isTimed: false };
  const past = state === 'unknown' ? ' was sent without an answer;' : error === null ? ',' : ` failed: ${error};`;
  const next = state === 'unknown' ? 'to be read' : error === null ? 'to be sent' : 'to be sent again';
  if (change.expectedAt === null)
    return { words: `${sets}${past} ${next} when the workspace is not blocked`, isTimed: false };
  return { words: `${sets}${past} ${next}, probably`, isTimed: true };
}
