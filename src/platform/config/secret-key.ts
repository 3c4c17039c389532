import { SyncError } from '../../model/errors/sync-error.ts';
import { diskFiles, type Files } from '../lib/regular-files.ts';
import { parseSecretKey } from '../lib/secret-box.ts';
import { createVariables, type Environment } from './interpolate.ts';

const VARIABLE = 'WORKSYNC_SECRET_KEY';

/** A key that the environment gives, and its text, which must never be shown. */
export interface GivenSecretKey {
  readonly key: Buffer;
  readonly text: string;
}

/**
 * The key of `WORKSYNC_SECRET_KEY` or of the file that `WORKSYNC_SECRET_KEY_FILE` names, for what a workspace service
 * must store encrypted. Undefined where neither is set: the service then keeps a key of its own beside its database.
 * Throws `config_invalid`, never with the value.
 */
export function secretKeyOf(env: Environment, files: Files = diskFiles): GivenSecretKey | undefined {
  const found = createVariables(env, undefined, files).get(VARIABLE);
  if (found === undefined) return undefined;
  if ('problem' in found) throw new SyncError('config_invalid', found.problem);
  const key = parseSecretKey(found.value);
  if (key !== undefined) return { key, text: found.value.trim() };
  throw new SyncError('config_invalid', `${VARIABLE}: expected 32 bytes in base64 or hex`, {
    hint: 'Make one with: openssl rand -base64 32',
  });
}
