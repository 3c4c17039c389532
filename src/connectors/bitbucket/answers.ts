import type { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import { type Refusals, refusalOf } from '../kit/refusal.ts';

const MINUTE = 60_000;

const refusals: Refusals = {
  messageOf: (body) => (body as { error?: { message?: unknown } }).error?.message,
  hints: {
    401: 'Set token (an access token), or email with apiToken. App passwords no longer work.',
    403: 'Give the token the scopes to read repositories and pull requests, and its owner access to the repository.',
  },
  /** Bitbucket counts the requests of the last hour, so they become free little by little: some are after this time. */
  otherwise: 5 * MINUTE,
  shortest: MINUTE,
};

/** The error for an answer outside 2xx, with what Bitbucket says about it. A limit is answered with 429 (BB2). */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  return refusalOf(refusals, answer, what, now);
}
