import { type Command, InvalidArgumentError, Option } from 'commander';
import { asSyncError, SyncError } from '../model/errors.ts';
import { type Clock, systemClock } from '../platform/lib/clock.ts';
import { durationText, parseDuration } from '../platform/lib/quantities.ts';
import type { ApiRequest, ApiResponse, Send } from '../workspace-api/typed-client.ts';
import { say } from './setting.ts';
import { span } from './words.ts';

/** Default wait of a command, milliseconds: enough for a full short window of the quota. */
const PATIENCE = 90_000;
/** Milliseconds of a wait for a slot that is not reported. */
const AT_ONCE = 300;

/** Milliseconds without output that people accept. */
export const SILENCE = 2_000;
/** The waiting is not under a test's clock, because it depends on other processes. */
const clock = systemClock();

/** Reports the subject and the longest time of a wait, if the work takes longer than a moment. */
export async function audibly<Result>(
  what: string,
  atMost: number,
  work: () => Promise<Result>,
  silence = SILENCE,
): Promise<Result> {
  const cancelReport = clock.after(silence, () => say(`worksync: waiting for ${what}, for at most ${span(atMost)}`));
  try {
    return await work();
  } finally {
    cancelReport();
  }
}

/** The flags about the wait of a command. */
export interface PatienceFlags {
  readonly timeout?: number;
}

export function withPatience(command: Command, standard = PATIENCE): Command {
  const description = `how long to wait for the quota at most (default: ${durationText(standard)})`;
  return command.option('--timeout <duration>', description, readDuration);
}

export function patienceOf({ timeout = PATIENCE }: PatienceFlags): number {
  return timeout;
}

export function readDuration(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError('expected a duration such as 90s, 5m or 1h');
  return ms;
}

/** An option with a duration; `standard` is its default in milliseconds, which its help shows as people write it. */
export function durationOption(flags: string, description: string, standard: number, read = readDuration): Option {
  return new Option(flags, description).argParser(read).default(standard, durationText(standard));
}

/** Sends one request; waits for a slot of the quota for `patience` milliseconds at most. */
type SendWithin = (request: ApiRequest, patience: number) => Promise<ApiResponse>;

/**
 * Sends all requests of a command within one patience, which begins now. Reports at once what it waits for, and fails at once if
 * the wait would be longer. Throws the reason why nothing is sent: `rate_limited`, or the workspace's answer about the key.
 */
export function patiently(clock: Clock, patience: number, send: SendWithin): Send<object> {
  const deadline = clock.monotonic() + patience;
  return async (request) => {
    let hasSaid = false;
    for (;;) {
      const left = Math.max(0, Math.ceil(deadline - clock.monotonic()));
      try {
        return await send(request, hasSaid ? left : Math.min(left, AT_ONCE));
      } catch (thrown) {
        const error = asSyncError(thrown);
        const { retryAfter: wait } = error;
        if (wait === undefined) throw error;
        if (hasSaid || wait > left) throw giveUp(error, patience, wait);
        say(`worksync: ${error.message}. Waiting for at most ${span(left)}.`);
        hasSaid = true;
      }
    }
  };
}

function giveUp({ code, message, hint, cause }: SyncError, patience: number, wait: number): SyncError {
  const longer =
    code === 'rate_limited'
      ? `Repeat it in ${span(wait)}, or give it more time than ${span(patience)} with --timeout.`
      : hint;
  return new SyncError(code, message, { hint: longer, cause });
}
