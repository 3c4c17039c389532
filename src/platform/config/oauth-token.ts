import { SyncError } from '../../model/errors/sync-error.ts';
import { createVariables, type Environment } from './interpolate.ts';

const VARIABLE = 'WORKSYNC_OAUTH_TOKEN';

/**
 * The OAuth token of a person, for what the workspace does only for people. Never a flag: command lines are seen by every
 * user of the machine. Throws `secret_missing`.
 *
 * @param file with the token; absent: the environment names it
 */
export function oauthToken(env: Environment, file: string | undefined): string {
  const found = createVariables(file === undefined ? env : { [`${VARIABLE}_FILE`]: file }).get(VARIABLE);
  if (found && 'value' in found) return found.value;
  throw new SyncError(
    'secret_missing',
    found?.problem ?? `${VARIABLE} is not set: the workspace does this only for people`,
    {
      hint: `Set ${VARIABLE}, or ${VARIABLE}_FILE to a path: the OAuth token of a workspace owner or admin, for agents of any member.`,
    },
  );
}
