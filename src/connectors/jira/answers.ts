import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';
import { onOneLine, providerTime, saidBy } from '../kit/answers.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Bursts are counted by the second, points by the hour: no honest answer asks for more. */
const LONGEST_WAIT = 65 * MINUTE;

/** What an answer outside 2xx means, with what Jira says about it. Only 429 is a limit (providers' facts §5). */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const { code, message: plain, hint } = errorOfStatus(answer, what, now);
  const said = saidBy(answer, messageOf);
  const message = said === '' ? plain : `${plain} (${said})`;
  if (code !== 'rate_limited') return new SyncError(code, message, { status: answer.status, hint });
  const reason = onOneLine(answer.headers['ratelimit-reason'] ?? '', 60);
  const wait = Math.min(limitWait(answer, now), LONGEST_WAIT);
  return new SyncError('rate_limited', reason === '' ? message : `${message}: ${reason}`, {
    status: answer.status,
    retryAfter: wait,
  });
}

/** Milliseconds to wait: as asked, else until the reset, else a minute. */
function limitWait(answer: HttpAnswer, now: number): number {
  const asked = retryAfter(answer.headers, now);
  if (asked !== undefined && asked > 0) return asked;
  const untilReset = Date.parse(answer.headers['x-ratelimit-reset'] ?? '') - (providerTime(answer) ?? now);
  return untilReset > 0 ? untilReset + SECOND : MINUTE;
}

/** Jira lists messages, or names fields with a message each; its gateway has one message. */
function messageOf(body: unknown): unknown {
  const { errorMessages, errors, message } = body as Readonly<Record<string, unknown>>;
  const listed = [errorMessages, Object.values(errors ?? {})].flat();
  return [...listed, message].find((text) => typeof text === 'string');
}
