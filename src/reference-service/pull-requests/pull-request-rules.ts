import { GIT_PROVIDERS, type GitProviderId } from '../../model/git-providers.ts';
import { ApiError, invalid } from '../http/api-error.ts';

/** The fields of a record or an edit that a provider may not support. */
export interface ProviderFields {
  readonly provider: GitProviderId;
  readonly state?: string;
  readonly reviewers?: readonly string[];
  readonly labels?: readonly string[];
  readonly assignees?: readonly string[];
}

const DECLINING = Object.values(GIT_PROVIDERS)
  .flatMap(({ title, declines }) => (declines ? title : []))
  .join(' and ');

/** Checks the fields that only one provider has or lacks (W54, W58, W60). Throws 400. */
export function checkProviderFields(fields: ProviderFields): void {
  const { title, lacks = [], declines, reviewers } = GIT_PROVIDERS[fields.provider];
  if (fields.state === 'declined' && !declines) throw invalid(`state: only ${DECLINING} has declined`);
  const field = lacks.find((name) => fields[name] !== undefined);
  if (field !== undefined) throw new ApiError('unsupported_field', `${field}: ${title} has none`);
  if (reviewers && fields.reviewers?.some((name) => !reviewers.form.test(name)))
    throw invalid(`reviewers: ${title} takes ${reviewers.noun}`);
}

/** Returns the state that a provider gives a pull request for which this one was requested. */
export function stateAt(provider: GitProviderId, state: string | undefined): string | undefined {
  return state === 'closed' && GIT_PROVIDERS[provider].declines ? 'declined' : state;
}

/** Declined is final (W55). Throws 409. */
export function refuseDeclined(present: { readonly state: string }): void {
  if (present.state !== 'declined') return;
  throw new ApiError('pull_request_declined', 'a declined pull request cannot be changed or reopened');
}
