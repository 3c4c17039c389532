import type { ErrorCode } from '../../errors/codes.ts';
import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';
import { providerTime, saidBy } from '../kit/answers.ts';

const SECOND = 1_000;
/** Consumption is counted over five minutes. */
const WINDOW = 5 * 60_000;
/** No honest answer asks for more. */
const LONGEST_WAIT = 65 * 60_000;

/** What Azure means by a status otherwise: 203 is its page for signing in, 412 a work item that changed meanwhile. */
const STATUSES: ReadonlyMap<number, ErrorCode> = new Map([
  [203, 'unauthorized'],
  [412, 'conflict'],
]);

/** What an answer outside 2xx means, with what Azure says about it (providers' facts §11). */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const { code, message: plain, hint } = errorOfStatus(answer, what, now);
  const said = saidBy(answer, (body) => (body as { message?: unknown }).message);
  const message = said === '' ? plain : `${plain} (${said})`;
  if (code === 'rate_limited')
    return new SyncError(code, message, { status: answer.status, retryAfter: limitWait(answer, now) });
  const own = STATUSES.get(answer.status);
  return own
    ? new SyncError(own, message, { status: answer.status })
    : new SyncError(code, message, { status: answer.status, hint });
}

function limitWait(answer: HttpAnswer, now: number): number {
  return Math.min(askedWait(answer, now) ?? WINDOW, LONGEST_WAIT);
}

/** Milliseconds that an answer asks to wait, which a good one may do too; undefined where it asks for nothing. */
export function askedWait(answer: HttpAnswer, now: number): number | undefined {
  const asked = retryAfter(answer.headers, now);
  if (asked !== undefined && asked > 0) return Math.min(asked, LONGEST_WAIT);
  if (answer.status === 200) return undefined;
  const reset = Number(answer.headers['x-ratelimit-reset'] ?? Number.NaN) * SECOND;
  const untilReset = reset - (providerTime(answer) ?? now);
  return untilReset > 0 ? untilReset + SECOND : undefined;
}
