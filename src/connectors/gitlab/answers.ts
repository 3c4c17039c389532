import type { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { untilReset } from '../kit/rate-limit.ts';
import { refusalOf, vendorMessage } from '../kit/refusal.ts';

const SECOND = 1_000;

/** Returns the error for an answer outside 2xx, with GitLab's message. Only 429 is a limit; its body is plain text (GL8). */
export function refusal(answer: HttpAnswer, what: string, now: number): SyncError {
  return refusalOf({ messageOf, waitOf }, answer, what, now);
}

/** gitlab.com counts limits by the minute, self-managed servers may count by the hour. */
function waitOf(answer: HttpAnswer, now: number): number | undefined {
  return untilReset(answer, Number(answer.headers['ratelimit-reset']) * SECOND, now);
}

export function saidOf(answer: HttpAnswer): string {
  return vendorMessage(answer, messageOf);
}

/**
 * Returns the message in either field: a text, a list of texts, or lists of texts by field, as in `{"message": {"title": ["is too
 * long"]}}`.
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
