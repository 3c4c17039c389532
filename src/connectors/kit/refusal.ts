import type { ErrorCode } from '../../model/errors/codes.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { boundedWait, errorOfStatus, retryAfter } from '../../platform/http/provider-errors.ts';
import { providerTime, saidBy } from './answers.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** How one vendor refuses. */
export interface Refusals {
  /** Finds what is said for people in the vendor's error object; it may throw, and may answer with anything. Absent: `message`. */
  messageOf?(body: unknown): unknown;
  /** Statuses that mean something else than for most. */
  readonly statuses?: ReadonlyMap<number, ErrorCode>;
  readonly hints?: Readonly<Record<number, string>>;
  /** Milliseconds that a limit lasts, where the answer tells it in another way than by `Retry-After`. */
  waitOf?(answer: HttpAnswer, now: number): number | undefined;
  /** Milliseconds to wait where the answer does not tell; a minute unless the vendor sets it. */
  readonly otherwise?: number;
  /** Milliseconds to wait at least, whatever the answer tells. */
  readonly shortest?: number;
  /** What an answer says of the limit that was reached. */
  limitOf?(answer: HttpAnswer): string | undefined;
}

const messageIn = (body: unknown) => (body as { message?: unknown }).message;

/** The error for an answer that is no success, with what the vendor says about it. */
export function refusalOf(vendor: Refusals, answer: HttpAnswer, what: string, now: number): SyncError {
  const { status } = answer;
  const plain = errorOfStatus(answer, what, now);
  const said = saidBy(answer, vendor.messageOf ?? messageIn);
  const message = said === '' ? plain.message : `${plain.message} (${said})`;
  const code = vendor.statuses?.get(status) ?? plain.code;
  if (code !== 'rate_limited')
    return new SyncError(code, message, { status, hint: vendor.hints?.[status] ?? plain.hint });
  const limit = vendor.limitOf?.(answer);
  const told = limit === undefined ? message : `${message}: ${limit}`;
  return new SyncError(code, told, { status, retryAfter: limitWait(vendor, answer, now) });
}

/** Milliseconds to wait for a limit: as `Retry-After` asks, else as the vendor tells in another way. */
export function limitWait(
  { waitOf, otherwise = MINUTE, shortest = 0 }: Pick<Refusals, 'waitOf' | 'otherwise' | 'shortest'>,
  answer: HttpAnswer,
  now: number,
): number {
  const wait = askedWait(answer, now) ?? waitOf?.(answer, now) ?? otherwise;
  return boundedWait(Math.max(wait, shortest));
}

/** Milliseconds that `Retry-After` asks to wait; undefined where it asks for nothing. */
export function askedWait(answer: Pick<HttpAnswer, 'headers'>, now: number): number | undefined {
  const asked = retryAfter(answer.headers, now);
  return asked !== undefined && asked > 0 ? asked : undefined;
}

/**
 * Milliseconds until a limit resets, within the bound of every wait; undefined where it has reset already.
 *
 * @param resetAt when the limit resets, epoch milliseconds by the provider's clock
 */
export function untilReset(answer: HttpAnswer, resetAt: number | undefined, now: number): number | undefined {
  const left = (resetAt ?? 0) - (providerTime(answer) ?? now);
  return left > 0 ? boundedWait(left + SECOND) : undefined;
}

/** For answers that are not what the vendor's reference promises. */
export function malformed(what: string): SyncError {
  return new SyncError('answer_malformed', what);
}

/**
 * The result of work that nothing depends on, such as a count for a progress bar; undefined where it fails. Rejects only when the
 * process stops.
 */
export async function decoration<Result>(
  work: () => Result | Promise<Result>,
  signal: AbortSignal,
): Promise<Result | undefined> {
  try {
    return await work();
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    return undefined;
  }
}

/** The answer; undefined where the request failed with one of these codes. */
export async function unless<Answer>(
  asked: Promise<Answer>,
  ...codes: readonly ErrorCode[]
): Promise<Answer | undefined> {
  try {
    return await asked;
  } catch (thrown) {
    if (codes.includes(asSyncError(thrown).code)) return undefined;
    throw thrown;
  }
}
