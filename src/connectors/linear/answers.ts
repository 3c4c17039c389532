import { z } from 'zod';
import type { ErrorCode } from '../../model/errors/codes.ts';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { parseJson } from '../../platform/http/parse-json.ts';
import { errorOfStatus } from '../../platform/http/provider-errors.ts';
import { absent, readable } from '../kit/payload.ts';
import { limitWait, type Rate, rateFrom, untilReset } from '../kit/rate-limit.ts';
import { onOneLine } from '../kit/refusal.ts';

const graphqlErrors = z.object({
  errors: z.array(
    z.object({
      message: z.string().catch('without a message'),
      extensions: absent(z.object({ code: absent(z.string()), userPresentableMessage: absent(z.string()) })),
    }),
  ),
});

/** The meaning of Linear's own codes, independent of the status: errors have 200 too, and a limit 400 (LI3). */
const CODES: ReadonlyMap<string, ErrorCode> = new Map([
  ['RATELIMITED', 'rate_limited'],
  ['AUTHENTICATION_ERROR', 'unauthorized'],
  ['FORBIDDEN', 'forbidden'],
  ['FEATURE_NOT_ACCESSIBLE', 'forbidden'],
  ['INPUT_ERROR', 'refused'],
  ['INVALID_INPUT', 'refused'],
  ['GRAPHQL_VALIDATION_FAILED', 'refused'],
  ['CONFLICT_ERROR', 'conflict'],
  ['INTERNAL_SERVER_ERROR', 'server_failed'],
  ['LOCK_TIMEOUT', 'server_failed'],
]);

export function refusal(answer: HttpAnswer, what: string, now: number): SyncError | undefined {
  const first = errorsOf(answer)?.[0];
  if (answer.status === 200 && !first) return undefined;
  const plain = answer.status === 200 ? undefined : errorOfStatus(answer, what, now);
  const code = CODES.get(first?.extensions?.code ?? '') ?? plain?.code ?? 'refused';
  const said = first ? ` (${onOneLine(first.extensions?.userPresentableMessage ?? first.message)})` : '';
  const message = `${plain?.message ?? what}${said}`;
  if (code !== 'rate_limited') return new SyncError(code, message, { status: answer.status });
  return new SyncError(code, message, {
    status: answer.status,
    retryAfter: limitWait({ waitOf }, answer, now),
  });
}

function errorsOf(answer: HttpAnswer): z.infer<typeof graphqlErrors>['errors'] | undefined {
  try {
    return readable(graphqlErrors, parseJson(answer.body))?.errors;
  } catch {
    return undefined;
  }
}

/** A part of a used-up limit is free before it resets. */
function waitOf(answer: HttpAnswer, now: number): number | undefined {
  return untilReset(answer, rateOf(answer.headers)?.resetAt, now);
}

/** Requests and their complexity have separate limits; the one that is nearer to its end counts. Resets are in milliseconds. */
export function rateOf(headers: HttpAnswer['headers']): Rate | undefined {
  const rates = ['requests', 'complexity'].flatMap((kind) => rateFrom(headers, `x-ratelimit-${kind}`, 1) ?? []);
  const told = rates.filter(({ limit }) => limit > 0);
  return told.sort((left, right) => left.remaining / left.limit - right.remaining / right.limit)[0];
}
