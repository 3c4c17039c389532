import { type ZodType, z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { ConnectionDeps } from '../connector.ts';
import { nextPage, pagesOf } from '../kit/pages.ts';
import { absent, parseAnswer, readAnswer } from '../kit/payload.ts';
import { createBudget, type RateLimitUse } from '../kit/rate-limit.ts';
import { bearer, withAccessToken } from '../kit/rest.ts';
import { rateOf, refusal } from './answers.ts';
import type { Options } from './options.ts';

/** Bytes of a page of 50 issues, each with a description of some hundred kilobytes at most. */
const LARGEST_ANSWER = 32 * 1024 * 1024;

interface Question<Data> {
  readonly document: string;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly data: ZodType<Data>;
  readonly use: RateLimitUse;
  /** The fields to read of a large answer in another thread: see `HttpRequest`. */
  readonly keep?: true;
  readonly signal: AbortSignal;
}

export interface Api {
  ask<Data>(question: Question<Data>): Promise<Answered<Data>>;
  /** Runs a mutation that answers with `success`, and maybe more. Throws `refused` if it did not succeed. */
  change(document: string, variables: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<Changed>;
}

interface Answered<Data> {
  readonly data: Data;
  readonly answer: HttpAnswer;
}

const succeeded = z.record(z.string(), z.looseObject({ success: z.boolean() }));

type Changed = z.infer<typeof succeeded>;

export function createApi(options: Options, deps: ConnectionDeps): Api {
  const budget = createBudget(deps.clock, rateOf);

  async function ask<Data>(question: Question<Data>): Promise<Answered<Data>> {
    const { document, variables, data: expected, use, signal } = question;
    const what = `asking Linear for ${/(?:query|mutation) (\w+)/.exec(document)?.[1]}`;
    budget.require(use);
    const send = (headers: Record<string, string>) =>
      deps.http.request({
        method: 'POST',
        url: options.apiUrl,
        headers,
        body: JSON.stringify({ query: document, variables }),
        signal,
        keep: question.keep,
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
    async change(document, variables, signal) {
      const { data } = await ask({ document, variables, data: succeeded, use: 'fetch', signal });
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
