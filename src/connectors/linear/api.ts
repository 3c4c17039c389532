import { type ZodType, z } from 'zod';
import { type ErrorCode, SyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { parseJson } from '../../platform/http/parse-json.ts';
import type { ConnectionDeps } from '../connector.ts';
import { absent, parseAnswer, readAnswer, readable } from '../kit/payload.ts';
import {
  createBudget,
  errorOfStatus,
  limitWait,
  onOneLine,
  type Rate,
  type RateLimitUse,
  rateFrom,
  untilReset,
} from '../kit/refusal.ts';
import { bearer, withAccessToken } from '../kit/rest.ts';
import { nextPage, pagesOf } from '../kit/walk.ts';
import type { Options } from './options.ts';

/** Bytes of a page of 50 issues, each with a description of some hundred kilobytes at most. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

type Variables = Readonly<Record<string, unknown>>;

interface AskOptions {
  /** Default: `fetch`. */
  readonly use?: RateLimitUse;
  /** The fields to read of a large answer in another thread: see `HttpRequest`. */
  readonly keep?: true;
}

const succeeded = z.record(z.string(), z.looseObject({ success: z.boolean() }));

export type Api = ReturnType<typeof createApi>;

/** The GraphQL API of one connection. Throws for every answer with errors. */
export function createApi(options: Options, deps: ConnectionDeps) {
  const budget = createBudget(deps.clock, rateOf);

  async function ask<Data>(
    document: string,
    variables: Variables,
    expected: ZodType<Data>,
    signal: AbortSignal,
    { use = 'fetch', keep }: AskOptions = {},
  ) {
    const what = `asking Linear for ${/(?:query|mutation) (\w+)/.exec(document)?.[1]}`;
    budget.require(use);
    const send = (headers: Record<string, string>) =>
      deps.http.request({
        method: 'POST',
        url: options.apiUrl,
        headers,
        body: JSON.stringify({ query: document, variables }),
        signal,
        keep,
        largestAnswer: LARGEST_ANSWER,
        target: 'linear',
      });
    const isRefused = (given: HttpAnswer) => refusal(given, what, deps.clock.now())?.code === 'unauthorized';
    const answer = deps.accessTokens
      ? await withAccessToken(deps.accessTokens, (token) => send(headersOf({ accessToken: token })), isRefused, signal)
      : await send(headersOf(options));
    budget.update(answer);
    const error = refusal(answer, what, deps.clock.now());
    if (error) throw error;
    return { ...parseAnswer(z.object({ data: expected }), readAnswer(answer, what), what), answer };
  }

  return {
    ask,
    /** Runs a mutation that answers with `success`, and maybe more. Throws `refused` if it did not succeed. */
    async change(document: string, variables: Variables, signal: AbortSignal) {
      const { data } = await ask(document, variables, succeeded, signal);
      if (Object.values(data).some(({ success }) => !success))
        throw new SyncError('refused', 'Linear did not make a change, and gave no reason');
      return data;
    },
  };
}

/** A personal key has no scheme; only a token of OAuth 2.0 is a bearer token. */
function headersOf({ apiKey, accessToken }: Pick<Options, 'apiKey' | 'accessToken'>): Record<string, string> {
  return {
    accept: 'application/json',
    'content-type': 'application/json',
    'user-agent': 'worksync',
    ...(apiKey === undefined ? bearer(accessToken) : { authorization: apiKey }),
  };
}

/** Opaque; returned to Linear unchanged. */
export const CURSOR = /^[\w+/=.~-]{1,1000}$/;

const pageInfo = z.object({ hasNextPage: z.boolean(), endCursor: absent(z.string().nullable()) });

export function pageOf<Element>(element: ZodType<Element>) {
  return z.object({ nodes: z.array(element), pageInfo });
}

/** Returns the cursor after a page; undefined on the last one. Throws `answer_malformed` for an invalid one. */
export function cursorAfter({ hasNextPage, endCursor }: z.infer<typeof pageInfo>, present: string | undefined) {
  return hasNextPage ? nextPage(endCursor, CURSOR, present, 'a list of Linear') : undefined;
}

export async function readAll<Element>(
  read: (after: string | undefined) => Promise<{ nodes: readonly Element[]; pageInfo: z.infer<typeof pageInfo> }>,
): Promise<readonly Element[]> {
  const pages = pagesOf('a list of Linear', async (after) => {
    const { nodes, pageInfo: info } = await read(after);
    return { found: nodes, next: cursorAfter(info, after) };
  });
  return (await Array.fromAsync(pages)).flat();
}

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

function refusal(answer: HttpAnswer, what: string, now: number): SyncError | undefined {
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
