/** The evidence about a field, a status or a header that a server may refuse. A stored value. */
export interface Trial {
  /** The server accepted it: later refusals concern single values or tasks. */
  readonly passed?: boolean;
  /** The different values or tasks for which the server refused it, as digests or ids. */
  readonly refused?: readonly string[];
  /** When it was switched off, epoch milliseconds. */
  readonly offSince?: number;
}

const OFF_FOR_MS = 86_400_000;
/** Number of different refusals, without a success, that switches something off. A single one may concern one task or value. */
const MAX_REFUSALS = 3;

/**
 * Computes the trial after a refusal. What is off is tried again after a day, and a single refusal then switches it off again.
 *
 * @param cause the refused value as a digest, or the task that refused
 */
export function afterTrialRefused({ passed, refused = [] }: Trial, cause: string, now: number): Trial {
  if (passed) return { passed };
  const all = [...new Set([...refused, cause])].slice(-MAX_REFUSALS);
  return all.length >= MAX_REFUSALS ? { refused: all, offSince: now } : { refused: all };
}

/** Whether it is switched off at present. */
export function isOff({ offSince }: Trial = {}, now: number): boolean {
  return offSince !== undefined && now - offSince < OFF_FOR_MS;
}
