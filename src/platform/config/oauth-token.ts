import { SyncError } from '../../model/errors/sync-error.ts';
import { createVariables, type Environment } from './interpolate.ts';

const VARIABLE = 'WORKSYNC_OAUTH_TOKEN';
const FLAG = '--oauth-token-file';

/**
 * The OAuth token of a person, for what the workspace does only for people. Never a flag: command lines are seen by every
 * user of the machine. Throws `secret_missing`.
 *
 * @param file with the token, as the flag names it; absent: the environment names it
 */
export function oauthToken(env: Environment, file: string | undefined): string {
  const found = createVariables(file === undefined ? env : { [`${VARIABLE}_FILE`]: file }).get(VARIABLE);
  if (found && 'value' in found) return found.value;
  const whose = 'the OAuth token of a workspace owner or admin, for agents of any member.';
  if (file !== undefined) {
    const problem = found?.problem.replace(`${VARIABLE}_FILE`, FLAG) ?? `${FLAG} names no file`;
    throw new SyncError('secret_missing', problem, { hint: `Name a file that holds ${whose}` });
  }
  const problem = found?.problem ?? `${VARIABLE} is not set: the workspace does this only for people`;
  throw new SyncError('secret_missing', problem, { hint: `Set ${VARIABLE}, or ${VARIABLE}_FILE to a path: ${whose}` });
}
