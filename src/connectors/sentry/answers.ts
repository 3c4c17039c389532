import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';
import { providerTime, saidBy } from '../kit/answers.ts';
import { type Rate, rateFrom } from '../kit/budget.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Windows are seconds long: no honest answer asks for more. */
const LONGEST_WAIT = 65 * MINUTE;
const PREFIX = 'x-sentry-rate-limit';

/** What an answer outside 2xx means, with what Sentry says about it. */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const { code, message: plain, hint } = errorOfStatus(answer, what, now);
  const { status } = answer;
  const said = saidBy(answer, messageOf);
  const message = said === '' ? plain : `${plain} (${said})`;
  if (code !== 'rate_limited') return new SyncError(code, message, { status, hint });
  return new SyncError(code, message, { status, retryAfter: Math.min(limitWait(answer, now), LONGEST_WAIT) });
}

/**
 * Milliseconds to wait: as asked, else until the window is over. Where requests are left, too many ran at one time
 * (`-concurrentremaining` 0): a few seconds are enough then.
 */
function limitWait(answer: HttpAnswer, now: number): number {
  const asked = retryAfter(answer.headers, now);
  if (asked !== undefined && asked > 0) return asked;
  const rate = rateOf(answer.headers);
  if (rate && rate.remaining > 0 && answer.headers[`${PREFIX}-concurrentremaining`] === '0') return 5 * SECOND;
  const untilReset = (rate?.resetAt ?? 0) - (providerTime(answer) ?? now);
  return untilReset > 0 ? untilReset + SECOND : MINUTE;
}

/** Counted for each caller and kind of request; resets are told in seconds, with a fraction at times. */
function rateOf(headers: HttpAnswer['headers']): Rate | undefined {
  const reset = headers[`${PREFIX}-reset`]?.replace(/\.\d+$/, '');
  return rateFrom(reset === undefined ? headers : { ...headers, [`${PREFIX}-reset`]: reset }, PREFIX);
}

/** `detail` is a text, or has one. */
function messageOf(body: unknown): unknown {
  const { detail } = body as { detail?: unknown };
  return (detail as { message?: unknown } | undefined)?.message ?? detail;
}
