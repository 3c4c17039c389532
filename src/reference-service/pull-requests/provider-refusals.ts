import { asSyncError, type SyncError } from '../../model/errors/sync-error.ts';
import { type ApiErrorCode, ERROR_CODES } from '../../workspace-api/contract.ts';
import { ApiError } from '../http/api-error.ts';

const BY_CODE: Readonly<Partial<Record<SyncError['code'], ApiErrorCode>>> = {
  unauthorized: 'provider_not_connected',
  forbidden: 'forbidden',
  not_found: 'not_found',
  conflict: 'conflict',
  refused: 'validation_failed',
  outcome_unknown: 'outcome_unknown',
};

/**
 * Converts a git provider's failure for the caller of this API. A limit of the provider is no limit of the workspace: it is 502,
 * so that callers do not slow down their requests to the workspace.
 */
export function refusalOfProvider(thrown: unknown, provider: string): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const error = asSyncError(thrown);
  const named = Object.keys(ERROR_CODES).find((code) => code === error.errorCode) as ApiErrorCode | undefined;
  const code = named ?? BY_CODE[error.code] ?? 'provider_unavailable';
  const headers: Record<string, string> = {};
  if (error.retryAfter !== undefined) headers['retry-after'] = String(Math.ceil(error.retryAfter / 1_000));
  return new ApiError(code, `${provider}: ${error.message}`, headers);
}
