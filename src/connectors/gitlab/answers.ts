import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { errorOfStatus, retryAfter } from '../../http/provider-errors.ts';
import { providerTime, saidBy } from '../kit/answers.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Limits are counted by the minute, on self-managed servers by the hour: no honest answer asks for more. */
const LONGEST_WAIT = 65 * MINUTE;

/** What an answer outside 2xx means, with what GitLab says about it. Only 429 is a limit; its body is plain text. */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  const said = saidOf(answer);
  const { code, message: plain, hint } = errorOfStatus(answer, what, now);
  const message = said === '' ? plain : `${plain} (${said})`;
  if (code !== 'rate_limited') return new SyncError(code, message, { status: answer.status, hint });
  const wait = Math.min(limitWait(answer, now), LONGEST_WAIT);
  return new SyncError('rate_limited', message, { status: answer.status, retryAfter: wait });
}

/** What GitLab says about a request that it did not take; empty where it says nothing. */
export function saidOf(answer: HttpAnswer): string {
  return saidBy(answer, messageOf);
}

/** Milliseconds to wait: as asked, else until the reset, else a minute, in which most of the limits are counted (§2.6). */
function limitWait(answer: HttpAnswer, now: number): number {
  const asked = retryAfter(answer.headers, now);
  if (asked !== undefined && asked > 0) return asked;
  const reset = Number(answer.headers['ratelimit-reset']) * SECOND;
  const untilReset = reset - (providerTime(answer) ?? now);
  return untilReset > 0 ? untilReset + SECOND : MINUTE;
}

/**
 * What GitLab says under either name: a text, a list of texts, or lists of texts by field, as in
 * `{"message": {"title": ["is too long"]}}`.
 */
function messageOf(body: unknown): unknown {
  const { message, error } = body as { message?: unknown; error?: unknown };
  return [message, error]
    .map(textsOf)
    .find((texts) => texts.length > 0)
    ?.join('; ');
}

function textsOf(said: unknown): readonly string[] {
  if (typeof said === 'string') return [said];
  if (Array.isArray(said)) return said.filter((text) => typeof text === 'string');
  if (typeof said !== 'object' || said === null) return [];
  return Object.entries(said).flatMap(([field, texts]) => textsOf(texts).map((text) => `${field} ${text}`));
}
