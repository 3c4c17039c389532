import type { GitProvider, MemberAccess, WrittenPullRequest } from '../../connectors/connector.ts';
import { ApiError } from '../http/api-error.ts';
import type { Call, Service } from '../http/call.ts';
import { findMemberAccess } from '../keys/provider-tokens.ts';
import { refusalOfProvider } from './provider-refusals.ts';

/** A member at a git provider: whatever is written there is written with the member's own token (W56). */
export interface MemberAtProvider {
  readonly git: GitProvider;
  readonly access: MemberAccess;
}

/** The member of the caller's credential; undefined where no token of theirs is stored, or the provider is not served. */
export async function memberAt(
  service: Service,
  { workspaceId, caller }: Pick<Call<'createPullRequest'>, 'workspaceId' | 'caller'>,
  provider: string,
): Promise<MemberAtProvider | undefined> {
  const git = service.providers[provider];
  const access = git && (await findMemberAccess(service, workspaceId, caller.userId, provider));
  return access && { git, access };
}

type Opening = Call<'createPullRequest'>['body'];

/** Throws 400 `branch_not_found`, `no_commits_between`, 403, 404, 409 `pull_request_exists`, 502, 504. */
export async function openAtProvider(
  service: Service,
  { git, access }: MemberAtProvider,
  wanted: Opening,
): Promise<WrittenPullRequest> {
  const { repoId, headBranch: branch, provider } = wanted;
  try {
    if (!(await git.hasBranch(access, { repoId, branch }, service.ending)))
      throw new ApiError('branch_not_found', `headBranch: ${branch} does not exist on the remote`);
    return await git.openPullRequest(access, wanted, service.ending);
  } catch (error) {
    throw refusalOfProvider(error, provider);
  }
}

/** Throws like `openAtProvider`. */
export async function editAtProvider(
  service: Service,
  { git, access }: MemberAtProvider,
  edit: Call<'updatePullRequest'>['body'],
): Promise<WrittenPullRequest> {
  try {
    return await git.editPullRequest(access, edit, service.ending);
  } catch (error) {
    throw refusalOfProvider(error, edit.provider);
  }
}

/** Says what of the request was refused, once what was carried out is recorded. Throws the refusal. */
export function tellRefused({ pullRequest, refused }: WrittenPullRequest, provider: string): void {
  if (refused === undefined) return;
  const { errorCode, message, headers } = refusalOfProvider(refused, provider);
  throw new ApiError(errorCode, `#${pullRequest.identifier} was written in part; ${message}`, headers);
}
