import { z } from 'zod';

/**
 * Values of `errorCode` by the status that carries them (W71 and the rules that name further ones).
 * Clients branch on these, never on `message`.
 */
export const ERROR_CODES = {
  bad_request: 400,
  validation_failed: 400,
  unsupported_api_version: 400,
  unsupported_field: 400,
  branch_not_found: 400,
  no_commits_between: 400,
  unauthorized: 401,
  forbidden: 403,
  oauth_token_required: 403,
  api_key_not_allowed: 403,
  workspace_forbidden: 403,
  provider_not_connected: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  api_key_limit_reached: 409,
  pull_request_exists: 409,
  pull_request_declined: 409,
  patch_target_not_found: 409,
  patch_target_ambiguous: 409,
  session_already_claimed: 409,
  invalid_transition: 409,
  claim_ended: 409,
  precondition_failed: 412,
  payload_too_large: 413,
  rate_limit_exceeded: 429,
  internal_error: 500,
  storage_full: 507,
  provider_unavailable: 502,
  outcome_unknown: 504,
} as const;

export type ApiErrorCode = keyof typeof ERROR_CODES;

/** The error object (W66): `code` is the HTTP status. */
export const errorObject = z.looseObject({
  code: z.int().meta({ description: 'the HTTP status', examples: [404] }),
  message: z.string(),
  errorCode: z.string().meta({ 'x-extensible-enum': Object.keys(ERROR_CODES) }),
});
