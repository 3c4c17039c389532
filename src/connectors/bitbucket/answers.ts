import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';
import { saidBy } from '../kit/answers.ts';

const MINUTE = 60_000;
/** The limit is counted over any hour, so requests become free little by little: some are after this time. */
const SHORTEST_WAIT = 5 * MINUTE;
/** No honest answer asks for more than the hour. */
const LONGEST_WAIT = 65 * MINUTE;

/** What an answer outside 2xx means, with what Bitbucket says about it. Its limits come as 429 (§3.4). */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const { status } = answer;
  const plain = errorOfStatus(answer, what, now);
  const said = saidBy(answer, (body) => (body as { error?: { message?: unknown } }).error?.message);
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
