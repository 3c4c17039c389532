import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { JsonError, parseJson } from '../../http/json.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Limits are counted by the minute, on self-managed servers by the hour: no honest answer asks for more. */
const LONGEST_WAIT = 65 * MINUTE;

/** The provider's clock as the answer shows it, epoch milliseconds. */
export function providerTime(answer: Pick<HttpAnswer, 'headers'>): number | undefined {
  const time = Date.parse(answer.headers['date'] ?? '');
  return Number.isNaN(time) ? undefined : time;
}

/** Reads a JSON body. Throws `answer_malformed`: an HTML page of a proxy, a body that was cut off. */
export function readAnswer(answer: Pick<HttpAnswer, 'status' | 'body'>, what: string): unknown {
  try {
    return parseJson(answer.body);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new SyncError('answer_malformed', `${what}: ${error.message}`, { cause: error, status: answer.status });
  }
}

/** What an answer outside 2xx means, with what GitLab says about it. Only 429 is a limit; its body is plain text. */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const said = messageOf(answer);
  const { code, message: plain, hint } = errorOfStatus(answer, what, now);
  const message = said === '' ? plain : `${plain} (${said})`;
  if (code !== 'rate_limited') return new SyncError(code, message, { status: answer.status, hint });
  const wait = Math.min(limitWait(answer, now), LONGEST_WAIT);
  return new SyncError('rate_limited', message, { status: answer.status, retryAfter: wait });
}

/** Milliseconds to wait: as asked, else until the reset, else a minute, in which most of the limits are counted (§2.6). */
function limitWait(answer: HttpAnswer, now: number): number {
  const asked = retryAfter(answer.headers, now);
  if (asked !== undefined && asked > 0) return asked;
  const reset = Number(answer.headers['ratelimit-reset']) * SECOND;
  const untilReset = reset - (providerTime(answer) ?? now);
  return untilReset > 0 ? untilReset + SECOND : MINUTE;
}

/** The `message` or `error` of GitLab's error object, short and on one line; empty where there is none. */
function messageOf(answer: HttpAnswer): string {
  try {
    const { message, error } = parseJson(answer.body) as { message?: unknown; error?: unknown };
    const said = [message, error].find((text) => typeof text === 'string') ?? '';
    return said.replace(/[\s\p{C}]+/gu, ' ').slice(0, 200);
  } catch {
    return '';
  }
}
