import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { boundedWait, errorOfStatus, retryAfter } from '../../platform/http/provider-errors.ts';
import { providerTime } from '../kit/rate-limit.ts';
import { vendorMessage } from '../kit/refusal.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** Returns the error for an answer outside 2xx, with GitHub's message. 403 and 429 may both be a limit (GH5). */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const said = vendorMessage(answer, (body) => (body as { message?: unknown }).message);
  const plain = errorOfStatus(answer, what, now);
  const message = said === '' ? plain.message : `${plain.message} (${said})`;
  const wait = limitWait(answer, said, now);
  if (wait === undefined)
    return new SyncError(plain.code, message, { status: answer.status, hint: remedyOf(answer, said) ?? plain.hint });
  return new SyncError('rate_limited', message, { status: answer.status, retryAfter: boundedWait(wait) });
}

/** Returns the remedy for a refusal of one organisation or repository; undefined if GitHub gives no reason. */
function remedyOf({ status, headers }: HttpAnswer, said: string): string | undefined {
  if (status === 451 || /access blocked/i.test(said))
    return 'GitHub has blocked this repository: only its owner can solve that.';
  if (status !== 403) return undefined;
  if (headers['x-github-sso'] !== undefined || /\bSAML\b/.test(said))
    return 'The organisation requires single sign-on: authorise the token for it in the settings of the token ("Configure SSO"), or use a GitHub App.';
  if (/installation has been suspended/i.test(said))
    return 'The installation of the App is suspended: let the owner of the account end that in its settings, under "GitHub Apps".';
  if (/archived/i.test(said))
    return 'The repository is archived, so nothing in it can be changed: unarchive it, or leave it out of the connection.';
  if (/IP allow list/i.test(said))
    return 'The organisation allows only listed addresses: let its owner add the public address of this machine to its IP allow list.';
  return undefined;
}

/** Returns the milliseconds to wait, or undefined if it is no limit. A secondary limit requires a minute at least. */
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
