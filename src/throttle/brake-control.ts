import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import { backoff, type Random } from '../lib/random.ts';
import type { Book, Entry } from './book.ts';
import {
  accepted,
  admitted,
  type Brake,
  boundedHint,
  type Halt,
  halted,
  keptAfter,
  LONGEST_PAUSE,
  othersUse,
  provesRoom,
  refused,
} from './brake.ts';
import type { Facts, Limits } from './limits.ts';
import type { KeyRefusal, SlotAnswer } from './slot.ts';

/** With a refused key one request in this time is spent to see whether somebody replaced the key, milliseconds. */
const HALT = 5 * 60_000;

export interface BrakeControlDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  readonly limits: Limits;
  readonly book: Book;
  readonly facts: () => Facts;
  /** Called after each change: others may go now, or nobody. */
  readonly onChange: () => void;
}

/** The brake as it is, and what the answers of the workspace make of it. */
export interface BrakeControl {
  readonly brake: Brake;
  /** Applies what the end of a request shows. True if the brake has changed and must be stored. */
  end(entry: Entry, answer: SlotAnswer | undefined): boolean;
  /** What was known of the key is forgotten. False where nothing was. */
  forgetHalt(): boolean;
}

export function createBrakeControl(kept: Brake, deps: BrakeControlDeps): BrakeControl {
  const { clock, random, logger, meter, limits, book } = deps;
  let brake = kept;

  const change = (next: Brake) => {
    brake = next;
    deps.onChange();
  };

  const refuse = (entry: Entry, hint: number | undefined) => {
    const wait = hint === undefined ? backoff(random, brake.refusals, 1_000, LONGEST_PAUSE) : boundedHint(hint);
    const { smallestShare } = limits;
    const now = clock.monotonic();
    const windows = limits.snapshot(deps.facts());
    const observed = { at: now, ...othersUse(windows, hint) };
    const kept = keptAfter(windows, hint);
    const refusedShare = limits.share(deps.facts());
    change(refused(brake, { started: entry.started, now, wait, smallestShare, kept, observed, refusedShare }));
    meter.count('quota_refusals_total', { lane: entry.lane });
    logger.warn({ lane: entry.lane, waitMs: wait, refusals: brake.refusals }, 'the workspace refused: quota used up');
  };

  const admit = (entry: Entry) => {
    const next = admitted(brake, entry.started);
    if (next === brake) return;
    change(next);
    logger.info({ share: limits.share(deps.facts()) }, 'the workspace accepts requests again');
  };

  const judgeKey = (entry: Entry, refusal: KeyRefusal | null) => {
    const now = clock.monotonic();
    const next = refusal
      ? halted(brake, { ...refusal, until: now + HALT, since: now } satisfies Halt)
      : accepted(brake, entry.started);
    if (next !== brake) change(next);
  };

  const report = (entry: Entry) => {
    const { long, burst } = limits.snapshot(deps.facts());
    meter.count('quota_requests_total', { lane: entry.lane });
    meter.gauge('quota_used', long.used, { window: 'long' });
    meter.gauge('quota_used', burst.used, { window: 'burst' });
    meter.gauge('quota_share', limits.share(deps.facts()));
  };

  /** Applies what the end of a request shows. True if the brake has changed and must be stored. */
  const end = (entry: Entry, answer: SlotAnswer | undefined): boolean => {
    const before = brake;
    book.complete(entry, answer?.status);
    if (answer?.key !== undefined) judgeKey(entry, answer.key);
    if (answer?.status === 429) refuse(entry, answer.retryAfter);
    else if (answer !== undefined && provesRoom(answer.status)) admit(entry);
    report(entry);
    return brake !== before;
  };

  return {
    get brake() {
      return brake;
    },
    end,
    forgetHalt() {
      if (brake.halt === null) return false;
      change({ ...brake, halt: null });
      return true;
    },
  };
}
