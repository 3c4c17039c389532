/** The statuses of the specification. */
export const SPECIFIED_STATUSES = [
  'open',
  'planned',
  'in_progress',
  'review',
  'blocked',
  'completed',
  'cancelled',
  'merged',
  'idea',
] as const;

/** A status of a workspace beyond those of the specification. Without `after` and `final` it has no rank, like `blocked`. */
export interface AddedStatus {
  /** The word of the server. */
  readonly word: string;
  /** The status after which it ranks. */
  readonly after?: string | undefined;
  /** Tasks with this status are finished. */
  readonly final?: boolean | undefined;
}

/**
 * The statuses of a workspace by their names, which rules, stored states and reports use: the server's word for a status of the
 * specification, if it differs, and the statuses that the workspace adds.
 */
export type TaskStatuses = Readonly<Record<string, string | AddedStatus>>;

/** Returns the names of all statuses. */
export function statusNames(statuses: TaskStatuses): readonly string[] {
  return [...new Set([...SPECIFIED_STATUSES, ...Object.keys(statuses)])];
}

function configured(statuses: TaskStatuses, status: string): string | AddedStatus | undefined {
  return Object.hasOwn(statuses, status) ? statuses[status] : undefined;
}

/** Returns the server's word for a status. A status without a name is a word of the server already. */
export function serverStatus(statuses: TaskStatuses, status: string): string {
  const found = configured(statuses, status);
  return (typeof found === 'object' ? found.word : found) ?? status;
}

/**
 * Returns the name of the status for a word of the server; a word without a name is returned unchanged. If the server has one word
 * for several statuses, the first of `statusNames` is returned, so compare the words of the server and not the results.
 */
export function namedStatus(statuses: TaskStatuses, word: string): string {
  return statusNames(statuses).find((status) => serverStatus(statuses, status) === word) ?? word;
}

/** Returns the words of the server that stand for several statuses, with these statuses. */
export function sharedWords(statuses: TaskStatuses): readonly (readonly [word: string, names: readonly string[]])[] {
  const namesByWord = Map.groupBy(statusNames(statuses), (status) => serverStatus(statuses, status));
  return [...namesByWord].filter(([, names]) => names.length > 1);
}

const RANKS: Readonly<Record<string, number>> = {
  idea: 0,
  open: 0,
  planned: 0,
  in_progress: 1,
  review: 2,
  completed: 3,
  merged: 3,
  cancelled: 3,
};
const FINAL_RANK = 3;

/**
 * Returns the rank of a status, which grows with the progress of the work; undefined if it is never compared. `after: review` ranks
 * between `review` and the final statuses, and what comes after that between it and the final ones.
 */
export function rankOf(statuses: TaskStatuses, status: string): number | undefined {
  if (Object.hasOwn(RANKS, status)) return RANKS[status];
  const found = configured(statuses, status);
  if (typeof found !== 'object') return undefined;
  if (found.final === true) return FINAL_RANK;
  const before = found.after === undefined ? undefined : rankOf(statuses, found.after);
  return before === undefined ? undefined : (before + Math.floor(before) + 1) / 2;
}

/** Whether a status ranks lower than another one. */
export function ranksLower(statuses: TaskStatuses, status: string, other: string): boolean {
  const [rank, otherRank] = [rankOf(statuses, status), rankOf(statuses, other)];
  return rank !== undefined && otherRank !== undefined && rank < otherRank;
}

/** Whether tasks with this status are finished. Write-back closes their items. */
export function isFinalStatus(statuses: TaskStatuses, status: string): boolean {
  return rankOf(statuses, status) === FINAL_RANK;
}
