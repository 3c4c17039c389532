/** A lane is a class of urgency. Their order here is for display: `store/next-change.ts` says which change goes first. */
export const LANES = ['interactive', 'triage', 'link', 'mirror', 'read', 'backfill'] as const;
export type Lane = (typeof LANES)[number];

const SECOND = 1_000;
/** What is left of a promised visibility for the request itself. */
const TO_SEND = SECOND / 2;

/** How long a change waits for events that may still come, so that a burst of them is one write. Milliseconds. */
export interface Debounce {
  /** After the last event. */
  readonly wait: number;
  /** After the first event, however many follow. */
  readonly maxWait: number;
}

/**
 * The patience with a change of this lane. Backfills go after all others whatever this says, and at the pace that the
 * throttle gives them.
 *
 * Live lanes wait until nothing has come for `2.4 + 6u²` seconds, and `6 + 9u²` in all. Seconds, never minutes: when the
 * quota is poor the queue itself is the delay. The numbers are the best of some hundred on the tuning days of
 * `quota.fresh`: with shorter ones a write is outdated at once, with longer ones people wait.
 *
 * Where a visibility is promised, they wait until just before it: the fewest writes that keep the promise.
 *
 * @param usedShare u, the used share of the long quota window, 0..1
 * @param visibility milliseconds within which every change is to be seen in the workspace, while the quota suffices
 */
export function debounceOf(lane: Lane, usedShare: number, visibility?: number): Debounce {
  if (lane === 'interactive') return always(0);
  if (lane === 'read') return always(60 * SECOND);
  if (visibility !== undefined) return always(Math.max(0, visibility - TO_SEND));
  const u = Math.min(1, Math.max(0, usedShare));
  return { wait: Math.round((2.4 + 6 * u * u) * SECOND), maxWait: Math.round((6 + 9 * u * u) * SECOND) };
}

function always(wait: number): Debounce {
  return { wait: wait, maxWait: wait };
}

/**
 * When a change is due, by its first and its last event, epoch milliseconds. `enqueueChange` in `sync/reconcile/enqueue.ts` asks; of one that
 * waits already `dueOf` in `store/outbox-rows.ts` decides.
 */
export function dueAfter(first: number, last: number, { wait: quiet, maxWait: longest }: Debounce): number {
  return Math.min(first + longest, last + quiet);
}
