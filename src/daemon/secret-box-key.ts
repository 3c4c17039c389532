import { SyncError } from '../model/errors/sync-error.ts';
import { KeyFileError, makeKeyFile, readKeyFile } from '../platform/lib/key-file.ts';
import type { Random } from '../platform/lib/random.ts';
import { createSecretBox, type SecretBox } from '../platform/lib/secret-box.ts';

/**
 * The box for what the database of the data folder holds encrypted: with the key that the environment gives, else with one
 * in a file beside the database, which is made when it is first needed. The box throws `secret_key_missing` and
 * `secret_key_wrong` where that file cannot be used.
 *
 * @param file the database
 */
export function secretBoxBeside(file: string, given: Buffer | undefined, random: Random): () => SecretBox {
  let box: SecretBox | undefined;
  return () => (box ??= createSecretBox(given ?? keyBeside(`${file}.key`, random), random));
}

function keyBeside(file: string, random: Random): Buffer {
  try {
    return readKeyFile(file) ?? makeKeyFile(file, random);
  } catch (error) {
    if (!(error instanceof KeyFileError)) throw error;
    const code = error.why === 'unreadable' ? 'secret_key_missing' : 'secret_key_wrong';
    throw new SyncError(code, error.message, { cause: error.cause });
  }
}
