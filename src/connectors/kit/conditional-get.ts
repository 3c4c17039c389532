import type { HttpAnswer } from '../../http/http-client.ts';
import type { Shape } from '../../lib/shape.ts';
import { isRedirect } from './answers.ts';
import type { Budget, Use } from './budget.ts';

export interface GetOptions {
  /** Without the question mark. */
  readonly query?: string | undefined;
  /** Sent as `If-None-Match`; only then is 304 an answer. */
  readonly etag?: string | undefined;
  /** What the request is for; `fetch` unless told. */
  readonly use?: Use;
  /** What is needed of the answer: see `HttpRequest`. */
  readonly keep?: Shape;
  readonly signal: AbortSignal;
}

interface Getting {
  readonly budget: Budget;
  getOnce(path: string, options: GetOptions): Promise<HttpAnswer>;
  /** Where the redirect of a renamed thing leads. Throws where that is elsewhere. */
  movedPath(answer: HttpAnswer, path: string): string;
  refusal(answer: HttpAnswer, what: string): Error;
}

/** Gets what answers 200, or 304 to a validator; throws anything else. What was renamed or transferred is followed once. */
export function createGet({ budget, getOnce, movedPath, refusal }: Getting) {
  return async (path: string, given: GetOptions): Promise<HttpAnswer> => {
    budget.require(given.use ?? 'fetch');
    const first = await getOnce(path, given);
    const answer = isRedirect(first) ? await getOnce(movedPath(first, path), given) : first;
    if (answer.status === 200 || (answer.status === 304 && given.etag !== undefined)) return answer;
    throw refusal(answer, `GET ${path}`);
  };
}
