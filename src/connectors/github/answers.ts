import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { JsonError, parseJson } from '../../http/json.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** The primary limit is counted by the hour: no honest answer asks for more. */
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

/** What an answer outside 2xx means, with what GitHub says about it. 403 and 429 may both be a limit (§1.6). */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const said = messageOf(answer);
  const plain = errorOfStatus(answer, what, now);
  const message = said === '' ? plain.message : `${plain.message} (${said})`;
  const wait = limitWait(answer, said, now);
  if (wait === undefined) return new SyncError(plain.code, message, { status: answer.status, hint: plain.hint });
  return new SyncError('rate_limited', message, { status: answer.status, retryAfter: Math.min(wait, LONGEST_WAIT) });
}

/** Milliseconds to wait, or undefined when it is no limit. The secondary limits want a minute at least. */
function limitWait(answer: HttpAnswer, said: string, now: number): number | undefined {
  const { status, headers } = answer;
  if (status !== 403 && status !== 429) return undefined;
  const asked = retryAfter(headers, now);
  const exhausted = headers['x-ratelimit-remaining'] === '0';
  if (status === 403 && asked === undefined && !exhausted && !/rate limit|abuse detection/i.test(said))
    return undefined;
  const untilReset = Number(headers['x-ratelimit-reset']) * SECOND - (providerTime(answer) ?? now);
  if (exhausted && untilReset > 0) return Math.max(untilReset + SECOND, asked ?? 0);
  return Math.max(asked ?? 0, MINUTE);
}

/** The `message` of GitHub's error object, short and on one line; empty where there is none. */
function messageOf(answer: HttpAnswer): string {
  try {
    const { message } = parseJson(answer.body) as { message?: unknown };
    return typeof message === 'string' ? message.replace(/[\s\p{C}]+/gu, ' ').slice(0, 200) : '';
  } catch {
    return '';
  }
}
