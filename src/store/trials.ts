/** The evidence on one thing that a server may refuse: a field, a status, a header. A stored value. */
export interface Trial {
  /** The server accepted it: later refusals concern single values or tasks. */
  readonly passed?: boolean;
  /** The different values or tasks for which the server refused it, as digests or ids. */
  readonly refused?: readonly string[];
  /** Since when it is switched off, epoch milliseconds. */
  readonly offSince?: number;
}

const DAY = 86_400_000;
/** Number of different refusals, without a success, that switches a thing off. One of them alone proves nothing. */
const MAX_REFUSALS = 3;

/** Computes the trial after a refusal. A thing that is off is tried again after a day, and one refusal switches it off again. */
export function afterTrialRefused({ passed, refused = [] }: Trial, of: string, now: number): Trial {
  if (passed) return { passed };
  const all = [...new Set([...refused, of])].slice(-MAX_REFUSALS);
  return all.length >= MAX_REFUSALS ? { refused: all, offSince: now } : { refused: all };
}

/** Whether a thing is switched off at present: three different refusals, and no success. */
export function isOff({ offSince }: Trial = {}, now: number): boolean {
  return offSince !== undefined && now - offSince < DAY;
}
