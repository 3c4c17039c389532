/** A lane is a class of urgency. This order is for display; `store/changes/next-change.ts` decides which change is sent first. */
export const LANES = ['interactive', 'triage', 'link', 'status', 'mirror', 'read', 'backfill'] as const;
export type Lane = (typeof LANES)[number];

/** The most creations of one connection within these seconds. Further ones are sent in the lane of backfills. */
export const BURST = { creations: 500, seconds: 60 };

const SECOND = 1_000;
/** The part of a promised visibility that the request itself takes, milliseconds. */
const SEND_TIME = SECOND / 2;

/** How long a change waits for further events, so that a burst of them becomes one write. Milliseconds. */
export interface Debounce {
  /** After the last event. */
  readonly wait: number;
  /** After the first event, however many follow. */
  readonly maxWait: number;
}

/**
 * Returns the debounce of a lane. For backfills it has no effect: they are sent after all other changes, at the pace of
 * the throttle.
 *
 * Live lanes wait until no event has come for `2.4 + 6u²` seconds, and at most `6 + 9u²` seconds. These are seconds and
 * never minutes, because with a small quota the queue itself is the delay. The numbers are the best of some hundred in
 * the benchmark `test/bench/quota/fresh.ts`: with shorter ones a write is outdated at once, with longer ones people wait.
 *
 * With a promised visibility, live lanes wait until just before its end, which takes the fewest writes.
 *
 * Status changes wait `30u²` seconds longer, so that several moves of one task become one write while the quota is short.
 * They do not count in u, so they delay no other lane.
 *
 * @param usedShare u, the share of the long quota window that lanes other than status and backfill use, 0..1
 * @param visibility promised time from an event to its write while the quota suffices, milliseconds
 */
export function debounceOf(lane: Lane, usedShare: number, visibility?: number): Debounce {
  if (lane === 'interactive') return always(0);
  if (lane === 'read') return always(60 * SECOND);
  if (visibility !== undefined) return always(Math.max(0, visibility - SEND_TIME));
  const u = Math.min(1, Math.max(0, usedShare));
  const yielded = lane === 'status' ? 30 * u * u : 0;
  const seconds = (wait: number) => Math.round((wait + yielded) * SECOND);
  return { wait: seconds(2.4 + 6 * u * u), maxWait: seconds(6 + 9 * u * u) };
}

function always(wait: number): Debounce {
  return { wait, maxWait: wait };
}

/**
 * Returns when a new change is due, by its first and its last event, epoch milliseconds.
 * For a pending change, `dueOf` in `store/changes/outbox-rows.ts` decides.
 */
export function dueAfter(first: number, last: number, { wait, maxWait }: Debounce): number {
  return Math.min(first + maxWait, last + wait);
}
