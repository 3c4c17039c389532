import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';
import { saidBy } from '../kit/answers.ts';

const MINUTE = 60_000;
/** No honest answer asks for more. */
const LONGEST_WAIT = 65 * MINUTE;

/** What an answer outside 2xx means, with what Redmine says about it. It has no limit itself: a proxy before it may. */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const { code, message: plain, hint } = errorOfStatus(answer, what, now);
  const { status } = answer;
  const said = saidBy(answer, messageOf);
  const message = said === '' ? plain : `${plain} (${said})`;
  if (code !== 'rate_limited') return new SyncError(code, message, { status, hint: HINTS[status] ?? hint });
  const wait = Math.max(retryAfter(answer.headers, now) ?? MINUTE, 1_000);
  return new SyncError('rate_limited', message, { status, retryAfter: Math.min(wait, LONGEST_WAIT) });
}

const HINTS: Readonly<Record<number, string>> = {
  401: 'Set apiKey to the key of an active user; an administrator must have enabled the REST web service.',
  403: 'Give the user of apiKey a role in the project that may view issues, and see that its module "Issue tracking" is on.',
};

/** Refused writes list what is wrong with them. */
function messageOf(body: unknown): unknown {
  return (body as { errors?: unknown[] }).errors?.filter((text) => typeof text === 'string').join(', ');
}
