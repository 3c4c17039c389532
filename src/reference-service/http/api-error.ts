import { type ApiErrorCode, ERROR_CODES } from '../../workspace-api/contract.ts';

/** A refusal, as the client is told: becomes the error object (W66). The status belongs to the code. */
export class ApiError extends Error {
  readonly errorCode: ApiErrorCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(errorCode: ApiErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.errorCode = errorCode;
    this.status = ERROR_CODES[errorCode];
    this.headers = headers;
  }
}

/** The error object. All three fields are always there. */
export function errorBody(status: number, message: string, errorCode: ApiErrorCode) {
  return { code: status, message, errorCode };
}

export function notFound(what: string): ApiError {
  return new ApiError('not_found', `${what} not found`);
}

export function invalid(message: string): ApiError {
  return new ApiError('validation_failed', message);
}
