import { ApiError, invalid } from '../http/api-error.ts';

/** The fields of a record or an edit that a provider may not support. */
export interface ProviderFields {
  readonly provider: string;
  readonly state?: string;
  readonly reviewers?: readonly string[];
  readonly labels?: readonly string[];
  readonly assignees?: readonly string[];
}

const ACCOUNT_UUID =
  /^(?:\{[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;

/** Checks the fields that only one provider has or lacks (W54, W58, W60). Throws 400. */
export function checkProviderFields(fields: ProviderFields): void {
  if (fields.provider !== 'bitbucket') {
    if (fields.state === 'declined') throw invalid('state: only Bitbucket has declined');
    return;
  }
  for (const name of ['labels', 'assignees'] as const) {
    if (fields[name] !== undefined) throw new ApiError('unsupported_field', `${name}: Bitbucket has none`);
  }
  const stranger = fields.reviewers?.find((reviewer) => !ACCOUNT_UUID.test(reviewer));
  if (stranger !== undefined) throw invalid('reviewers: Bitbucket takes account UUIDs');
}

/** Bitbucket has no closed pull requests: it declines them. */
export function stateAt(provider: string, state: string | undefined): string | undefined {
  return provider === 'bitbucket' && state === 'closed' ? 'declined' : state;
}

/** Declined is final (W55). Throws 409. */
export function refuseDeclined(present: { readonly state: string }): void {
  if (present.state !== 'declined') return;
  throw new ApiError('pull_request_declined', 'a declined pull request cannot be changed or reopened');
}
