import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { JsonError, parseJson } from '../../http/json.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';

const MINUTE = 60_000;
/** The limit is counted over any hour, so requests become free little by little: some are after this time. */
const SHORTEST_WAIT = 5 * MINUTE;
/** No honest answer asks for more than the hour. */
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

/** What an answer outside 2xx means, with what Bitbucket says about it. Its limits come as 429 (§3.4). */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const { status } = answer;
  const plain = errorOfStatus(answer, what, now);
  const said = messageOf(answer);
  const message = said === '' ? plain.message : `${plain.message} (${said})`;
  if (status !== 429) return new SyncError(plain.code, message, { status, hint: hintOf(status) ?? plain.hint });
  const wait = Math.max(retryAfter(answer.headers, now) ?? SHORTEST_WAIT, MINUTE);
  return new SyncError('rate_limited', message, { status, retryAfter: Math.min(wait, LONGEST_WAIT) });
}

function hintOf(status: number): string | undefined {
  if (status === 401) return 'Set token (an access token), or email with apiToken. App passwords no longer work.';
  if (status === 403)
    return 'Give the token the scopes to read repositories and pull requests, and its owner access to the repository.';
  return undefined;
}

/** The `error.message` of Bitbucket's error object, short and on one line; empty where there is none. */
function messageOf(answer: HttpAnswer): string {
  try {
    const { error } = parseJson(answer.body) as { error?: { message?: unknown } };
    const message = error?.message;
    return typeof message === 'string' ? message.replace(/[\s\p{C}]+/gu, ' ').slice(0, 200) : '';
  } catch {
    return '';
  }
}
