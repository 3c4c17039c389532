import { closeSync, constants, openSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncNames } from '../database/sqlite.ts';
import type { Random } from './clock.ts';
import { diskFiles, type FileFault } from './regular-files.ts';
import { parseSecretKey, SECRET_KEY_BYTES } from './secret-box.ts';

/** A file that holds a key for a secret box, and cannot be used. */
export class KeyFileError extends Error {
  readonly why: 'unreadable' | 'malformed';

  constructor(why: KeyFileError['why'], message: string, cause?: unknown) {
    super(message, { cause });
    this.why = why;
  }
}

/** Returns undefined if there is no such file. Throws `KeyFileError`. */
export function readKeyFile(file: string): Buffer | undefined {
  const text = readText(file);
  if (text === undefined) return undefined;
  const key = parseSecretKey(text);
  if (key !== undefined) return key;
  throw new KeyFileError('malformed', `${file} does not hold a key of 32 bytes in base64`);
}

const MAX_BYTES = 65_536;

function readText(file: string): string | undefined {
  try {
    return diskFiles.read(file, MAX_BYTES).bytes.toString('utf8');
  } catch (error) {
    if ((error as FileFault).code === 'ENOENT') return undefined;
    throw new KeyFileError('unreadable', `${file} cannot be read`, error);
  }
}

/** Creates a key and its file, which only this user may read. The file is complete and durable before the key is used. */
export function makeKeyFile(file: string, random: Random): Buffer {
  const key = random.bytes(SECRET_KEY_BYTES);
  // Written through to the disk: a later sync is forbidden under Node's permission model.
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_DSYNC;
  const draft = openSync(`${file}.new`, flags, 0o600);
  writeSync(draft, `${key.toString('base64')}\n`);
  closeSync(draft);
  renameSync(`${file}.new`, file);
  syncNames(dirname(file));
  return key;
}
