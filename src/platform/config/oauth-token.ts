import { SyncError } from '../../model/errors/sync-error.ts';
import { createVariables, type Environment } from './interpolate.ts';

const VARIABLE = 'WORKSYNC_OAUTH_TOKEN';

/**
 * The OAuth token of a workspace owner or admin, for the management of keys. Never a flag: command lines are seen by
 * every user of the machine. Throws `secret_missing`.
 */
export function oauthToken(env: Environment): string {
  const found = createVariables(env).get(VARIABLE);
  if (found && 'value' in found) return found.value;
  throw new SyncError('secret_missing', found?.problem ?? `${VARIABLE} is not set: only people manage keys`, {
    hint: `Set ${VARIABLE}, or ${VARIABLE}_FILE to a path: the OAuth token of a workspace owner or admin.`,
  });
}
