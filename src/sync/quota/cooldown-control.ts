import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import { backoff, type Random } from '../../platform/lib/random.ts';
import {
  accepted,
  admitted,
  boundedHint,
  type Cooldown,
  type Halt,
  halted,
  keptAfter,
  LONGEST_PAUSE,
  othersUse,
  provesRoom,
  refused,
} from './cooldown.ts';
import type { Facts, Limits } from './limits.ts';
import type { KeyRefusal, SlotAnswer } from './slot.ts';
import type { Entry, WindowLedger } from './window-ledger.ts';

/** With a refused key one request in this time is spent to see whether somebody replaced the key, milliseconds. */
const HALT = 5 * 60_000;

export interface BrakeControlDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  readonly limits: Limits;
  readonly book: WindowLedger;
  readonly facts: () => Facts;
  /** Called after each change: others may go now, or nobody. */
  readonly onChange: () => void;
}

/** The cooldown as it is, and what the answers of the workspace make of it. */
export interface CooldownControl {
  readonly cooldown: Cooldown;
  /** Applies what the end of a request shows. True if the cooldown has changed and must be stored. */
  end(entry: Entry, answer: SlotAnswer | undefined): boolean;
  /** What was known of the key is forgotten. False where nothing was. */
  forgetHalt(): boolean;
}

export function createCooldownControl(kept: Cooldown, deps: BrakeControlDeps): CooldownControl {
  const { clock, random, logger, meter, limits, book } = deps;
  let cooldown = kept;

  const change = (next: Cooldown) => {
    cooldown = next;
    deps.onChange();
  };

  const refuse = (entry: Entry, hint: number | undefined) => {
    const wait = hint === undefined ? backoff(random, cooldown.refusals, 1_000, LONGEST_PAUSE) : boundedHint(hint);
    const { smallestShare } = limits;
    const now = clock.monotonic();
    const windows = limits.snapshot(deps.facts());
    const observed = { at: now, ...othersUse(windows, hint) };
    const kept = keptAfter(windows, hint);
    const refusedShare = limits.share(deps.facts());
    change(refused(cooldown, { started: entry.started, now, wait, smallestShare, kept, observed, refusedShare }));
    meter.count('quota_refusals_total', { lane: entry.lane });
    logger.warn(
      { lane: entry.lane, waitMs: wait, refusals: cooldown.refusals },
      'the workspace refused: quota used up',
    );
  };

  const admit = (entry: Entry) => {
    const next = admitted(cooldown, entry.started);
    if (next === cooldown) return;
    change(next);
    logger.info({ share: limits.share(deps.facts()) }, 'the workspace accepts requests again');
  };

  const judgeKey = (entry: Entry, refusal: KeyRefusal | null) => {
    const now = clock.monotonic();
    const next = refusal
      ? halted(cooldown, { ...refusal, until: now + HALT, since: now } satisfies Halt)
      : accepted(cooldown, entry.started);
    if (next !== cooldown) change(next);
  };

  const report = (entry: Entry) => {
    const { long, burst } = limits.snapshot(deps.facts());
    meter.count('quota_requests_total', { lane: entry.lane });
    meter.gauge('quota_used', long.used, { window: 'long' });
    meter.gauge('quota_used', burst.used, { window: 'burst' });
    meter.gauge('quota_share', limits.share(deps.facts()));
  };

  /** Applies what the end of a request shows. True if the cooldown has changed and must be stored. */
  const end = (entry: Entry, answer: SlotAnswer | undefined): boolean => {
    const before = cooldown;
    book.complete(entry, answer?.status);
    if (answer?.key !== undefined) judgeKey(entry, answer.key);
    if (answer?.status === 429) refuse(entry, answer.retryAfter);
    else if (answer !== undefined && provesRoom(answer.status)) admit(entry);
    report(entry);
    return cooldown !== before;
  };

  return {
    get cooldown() {
      return cooldown;
    },
    end,
    forgetHalt() {
      if (cooldown.halt === null) return false;
      change({ ...cooldown, halt: null });
      return true;
    },
  };
}
