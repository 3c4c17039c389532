import { type Command, InvalidArgumentError, Option } from 'commander';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import { durationText, parseDuration } from '../platform/config/duration.ts';
import { type Clock, systemClock } from '../platform/lib/clock.ts';
import type { ApiRequest, ApiResponse, Send } from '../workspace-api/exchange.ts';
import { say } from './setting.ts';
import { span } from './words.ts';

/** How long a command waits where nothing else is said, milliseconds: through a full short window of the quota. */
const PATIENCE = 90_000;
/** A slot within this time is no wait worth telling of, milliseconds. */
const AT_ONCE = 300;

/** Nobody looks at a silent screen for longer, milliseconds. */
export const SILENCE = 2_000;
/** For waiting that is not under a test's clock: what others take is real time. */
const clock = systemClock();

/** Says what is waited for, and for how long at most, where the work takes longer than a moment. */
export async function audibly<Result>(
  what: string,
  atMost: number,
  work: () => Promise<Result>,
  silence = SILENCE,
): Promise<Result> {
  const told = clock.after(silence, () => say(`worksync: waiting for ${what}, for at most ${span(atMost)}`));
  try {
    return await work();
  } finally {
    told();
  }
}

/** What a command was told with `--timeout`. */
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

/** An option that is `standard` milliseconds where it is not given, which its help shows as people write it. */
export function durationOption(flags: string, description: string, standard: number, read = readDuration): Option {
  return new Option(flags, description).argParser(read).default(standard, durationText(standard));
}

/** Sends one request; waits for a slot of the quota for `patience` milliseconds at most. */
type SendWithin = (request: ApiRequest, patience: number) => Promise<ApiResponse>;

/**
 * A command's requests, all within one patience from now on: says at once what it waits for, and gives up at once where
 * that lies beyond it. Throws why nothing is sent: `rate_limited`, or what the workspace said of the key.
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
