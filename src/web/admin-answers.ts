import { asSyncError, type ErrorCode } from '../model/errors.ts';
import type { ApiResponse } from '../workspace-api/typed-client.ts';

/** An answer of the workspace, or why there is none, on its way between two processes of one machine. */
export type Forwarded = { readonly answer: Omit<ApiResponse, 'body'> & { readonly body: string } } | Failure;

/** The status of an answer with an error of the registry, which the command shows as its own. */
export const REFUSED = 422;

export interface Failure {
  readonly failure: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly hint: string;
    /** How long to wait until it may succeed, milliseconds, where that is known. */
    readonly retryAfter?: number;
  };
}

export function failureOf(error: unknown): Failure {
  const { code, message, hint, retryAfter } = asSyncError(error);
  return { failure: { code, message, hint, retryAfter } };
}
