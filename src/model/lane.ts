/** A lane is a class of urgency. Order here is only for display: one number, `due`, orders the work. */
export const LANES = ['interactive', 'triage', 'link', 'mirror', 'read', 'backfill'] as const;
export type Lane = (typeof LANES)[number];

const SECOND = 1_000;
/** What is left of a promised visibility for the request itself. */
const TO_SEND = SECOND / 2;

/**
 * Milliseconds that a change of this lane may wait after its first unsent difference. Backfills go after all others
 * whatever this says, and at the pace that the throttle gives them.
 *
 * Live lanes wait `2 + 6u²` seconds, so that a burst merges into one write. Seconds, never minutes: when the quota
 * is poor the queue itself is the delay. Counted from the first event; later events never push it back.
 *
 * Where a visibility is promised, they wait until just before it: the fewest writes that keep the promise.
 *
 * @param usedShare u, the used share of the long quota window, 0..1
 * @param visibility milliseconds within which every change is to be seen in the workspace, while the quota suffices
 */
export function allowance(lane: Lane, usedShare: number, visibility?: number): number {
  if (lane === 'interactive') return 0;
  if (lane === 'read') return 60 * SECOND;
  if (visibility !== undefined) return Math.max(0, visibility - TO_SEND);
  const u = Math.min(1, Math.max(0, usedShare));
  return (2 + 6 * u * u) * SECOND;
}
